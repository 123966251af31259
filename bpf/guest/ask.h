/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests of a receiver, each before its response. */
#ifndef TCCC_ASK_H
#define TCCC_ASK_H

#include "receiver.h"

void ask_prepare(struct sock *sk);
void ask(struct receiver *receiver);

#endif
