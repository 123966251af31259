/* SPDX-License-Identifier: GPL-2.0-only */
/* The conditions that a scenario imposes on a connection. */
#ifndef TCCC_CONDITIONS_H
#define TCCC_CONDITIONS_H

#include "sender.h"

void conditions_prepare(struct sender *sender);

#endif
