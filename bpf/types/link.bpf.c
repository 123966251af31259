// SPDX-License-Identifier: GPL-2.0-only
/*
 * Not a program: the structs of links and of the guest kernel, which the build script of src/lab writes as types of Rust.
 */
#include "../guest/layout.h"
#include "../link/emulator.h"

struct tccc_link_request *link_request;
struct tccc_loss *loss;
struct tccc_step *step;
struct tccc_link_counters *link_counters;
struct tccc_queue_sample *queue_sample;
struct tccc_flow_request *flow_request;
struct tccc_flow_report *flow_report;
struct tccc_transfer_report *transfer_report;
struct tccc_transfer_request *transfer_request;
struct tccc_burst *burst;
struct tccc_watch_request *watch_request;
struct tccc_watch_report *watch_report;
struct tccc_run_request *run_request;
struct tccc_run_report *run_report;
struct link_packet *packet;
struct link_fate *fate;
struct link_departure *departure;
enum tccc_loss_kind *loss_kind;
enum tccc_limit_unit *limit_unit;
enum tccc_times_layout *times_layout;
enum tccc_stream *stream;
enum tccc_link_limit *link_limit;
enum tccc_connections *connections;
enum tccc_end *end;
enum tccc_ecn *ecn;
enum tccc_receiver *receiver;
enum tccc_sends *sends;
enum verdict_kind *verdict;
enum link_slot *slot;
