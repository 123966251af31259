//! Trials as a user runs them: how they end, what the kernel does without their guard, and what the guard measures.
//!
//! A policy applies to the whole host. The rules of these tests match a network namespace of their own, except those of a
//! default on trial, which is the host's.

mod link;

mod ended;
mod guarded;
mod lease;
mod refused;
mod stand_by;
mod steps;
mod sums;
mod upgraded;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;

use nix::sys::socket::{setsockopt, sockopt};
use tccc::path::Direction;
use tccc::policy::rule::{OnFail, Portion, RuleTrial};
use tccc::units::{BitsPerSec, QueueSize};

use super::*;
use crate::common::STATE_FOLDER;
use crate::common::experiment::is_alive;
use crate::lab::policy::object::compile_text;
use crate::lab::policy::{count, rule, show};
use crate::lab::socket::connect_with;
use crate::lab::systemd::Manager;
use crate::lab::trial::{
    BEFORE, DEFAULT, TRIED, TrialLab, connect, counted_connections, end_guard, guard, kill_all, last_trial, processes,
    shorten_lease, status, until_ended, until_guard_has_looked, until_no_process,
};
