//! The kernel ring: root and struct_ops, one test at a time. The modules share the imports of this file.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod author;
mod bpftool;
mod declared;
mod features;
mod gate;
mod histories;
mod interrupted;
mod killed;
mod live;
mod load;
mod mswift;
mod netlink;
mod output;
mod package;
mod policy;
mod record;
mod selftests;
mod serve;
mod spaces;
mod top;
mod trace;
mod transfer;
mod trial;
mod trial_crowd;
mod upgrade;
mod verify;

use std::collections::BTreeSet;
use std::fs;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use serde_json::Value;
use tccc::kernel::netns::Netns;
use tccc::kernel::probe::Features;
use tccc::{catalog, loader};

use crate::common::state::algorithms as available;
use crate::common::{
    HostSnapshot, Owned, SOON, begin, begin_quietly, check, end, enter, inhabit, needs, poll_until, run, shorten_waits,
    signal, state, stderr, stdout, tccc, test_alone,
};
use crate::lab::group::{self, TestCgroup};
use crate::lab::policy::fault::{Stopped, killed_at};
use crate::lab::policy::traffic::BackgroundTraffic;
use crate::lab::policy::{PolicyLab, SocketPair};
use crate::lab::pty::Session;
use crate::lab::sandbox::{
    BPF, Sandbox, assert_nothing_left, default, dtcp_as, generation, instance, is_available, pose_as_process_1,
    without_links,
};
use crate::lab::socket::{algorithm_of, choose, tcp_info};
use crate::lab::trace::{HeldConnection, loopback_netns};
use crate::lab::trial::on_trial;
