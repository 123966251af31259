//! The host ring: tests without privileges, which run in parallel.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod algorithms;
mod author;
mod catalog;
mod cli;
mod cli_output;
mod cli_signals;
mod compile;
mod dctcp;
mod declaration_mistakes;
mod evaluate;
mod evaluate_in_ci;
mod explain;
mod fleet;
mod fuzz;
mod guard_statistics;
mod harness;
mod known;
mod mistakes;
mod phase;
mod plans;
mod policy_mistakes;
mod porting;
mod prove;
mod recording;
mod refusals;
mod report;
mod result_files;
mod scenario_mistakes;
mod scenarios;
mod scene;
mod serve;
mod serve_attack;
mod serve_systemd;
mod simulator;
mod storage;
mod subject;
mod twins;
mod units;
mod view;
mod virtual_datagrams;
mod virtual_defects;
mod virtual_disciplines;
mod virtual_loads;
mod virtual_properties;
mod virtual_queues;
mod virtual_receivers;
mod virtual_requests;
mod virtual_time;
mod virtual_variants;
