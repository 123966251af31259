//! The network ring: root and a link, one test at a time. The modules share the imports of this file.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod disciplines;
mod emulators;
mod experiments;
mod link;
mod link_models;
mod link_runs;
mod mininet;
mod virtual_links;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use serde_json::Value;
use tccc::emulate::netem::Netem;
use tccc::emulate::netns::Namespaces;
use tccc::emulate::tunlink::TunLink;
use tccc::emulate::{LinkDriver, Network};
use tccc::failure::{Failure, FailureKind};
use tccc::lab::plan::{Choices, Plan};
use tccc::model::run::RunRecord;
use tccc::path::{Direction, LinkConfig};
use tccc::scenario::Scenario;
use tccc::trace::event::Event;
use tccc::units::{QueueSize, Share};

use crate::common::experiment::{finished, kill_with_descendants, numbers_that_arrive, run_command, unfinished};
use crate::common::need::quiet_attempt;
use crate::common::{
    HostSnapshot, begin, begin_quietly, check, end, enter, needs, poll_until, run, signal, stderr, tccc,
};
use crate::lab::link::{CapturedPacket, LinkLab, MTU, limited, plain, receive_during, survivors};
