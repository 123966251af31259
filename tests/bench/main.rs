//! Benchmarks: `cargo xtask bench`. The modules share the imports of this file.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod callbacks;
mod crowd;
mod gathered;
mod guard;
mod link;
mod load;
mod namespaces;
mod page;
mod pairs;
mod policy;
mod record;
mod report;
mod serve;
mod sockets;
mod start;
mod trace;
mod usage;
mod virtual_time;

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::sys::resource::{UsageWho, getrusage};
use tccc::kernel::netns::Netns;
use tccc::kernel::struct_ops::Statistics;
use tccc::model::stats::{median, paired_ratio, percentile};

use crate::common::{HostSnapshot, SOON, check, enter, needs, poll_until, tccc};
use crate::lab::sandbox::Sandbox;
use crate::lab::serve::Server;
use crate::lab::socket::path_of;
use crate::lab::trace::loopback_netns;
use crate::lab::trial::{counted_connections, guard, until_no_process};
