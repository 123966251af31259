/* SPDX-License-Identifier: GPL-2.0-only */
/* Answers: what a process reads from a file in /proc/tccc. */
#ifndef TCCC_ANSWER_H
#define TCCC_ANSWER_H

#include <linux/fs.h>

/* The content of a file. It is made when the file is opened, and stored in file->private_data. */
struct answer {
	size_t length;
	u8 bytes[];
};

/* Copies bytes into an answer. Returns the end of the copy. */
static inline u8 *answer_put(u8 *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

struct answer *answer_new(size_t length);
ssize_t answer_read(struct file *file, char __user *to, size_t length, loff_t *place);
int answer_release(struct inode *inode, struct file *file);

#endif
