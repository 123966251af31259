// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers of the files in /proc/tccc. Each is made when its file is opened, so that one reader sees one state.
 */
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "answer.h"

struct answer *answer_new(size_t length)
{
	struct answer *answer = kvzalloc(sizeof(*answer) + length, GFP_KERNEL);

	if (answer)
		answer->length = length;
	return answer;
}

ssize_t answer_read(struct file *file, char __user *to, size_t length, loff_t *place)
{
	const struct answer *answer = file->private_data;

	return simple_read_from_buffer(to, length, place, answer->bytes, answer->length);
}

int answer_release(struct inode *inode, struct file *file)
{
	kvfree(file->private_data);
	return 0;
}
