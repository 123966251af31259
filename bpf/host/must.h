/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks of a fuzz target. A failed check prints the function and the condition, and ends the process. */
#ifndef TCCC_MUST_H
#define TCCC_MUST_H

#include <stdio.h>

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s: does not hold: %s\n", __func__, #condition);                              \
			__builtin_trap();                                                                              \
		}                                                                                                      \
	} while (0)

#endif
