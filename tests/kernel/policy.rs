//! Policies on the real kernel, applied as a user applies them: which connection gets which algorithm, and cleanup.

mod agree;
mod broken;
mod choice;
mod ecn;
mod explain;
mod live;
mod matching;
mod refused;
mod service;
mod services;
mod split;
mod swap;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::mount::{MntFlags, umount2};
use tccc::kernel::cgroup;

use super::*;
use crate::common::CommandOutput;
use crate::lab::pair::limit_pacing;
use crate::lab::policy::object::{NEEDS_ECN, compile};
use crate::lab::policy::pair::{address, join, listen_at};
use crate::lab::policy::{Endpoints, NAME, all, count, named_netns, programs, remove, rule, show, total};
use crate::lab::sandbox;
use crate::lab::sandbox::{BALLAST, NET_ADMIN, PERFMON, SYS_ADMIN, fill_run, status};
