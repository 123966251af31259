// SPDX-License-Identifier: GPL-2.0-only
/*
 * Not a program: the structs of the tracer's events, which the build script of src/shared writes as types of Rust.
 */
#include "kernel.bpf.h"
#include "trace_event.h"

struct tccc_event *event;
struct tccc_limited *limited;
enum tccc_event_layout *layout;
