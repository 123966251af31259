//! The kernel ring: root and struct_ops, one test at a time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod bpftool;
mod declared;
mod features;
mod live;
mod load;
mod mswift;
mod netlink;
mod policy;
mod record;
mod selftests;
mod serve;
mod top;
mod trace;
mod transfer;
mod trial;
mod trial_crowd;
mod upgrade;
mod verify;
