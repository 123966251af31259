//! `tccc load` and `tccc unload` on the running kernel: what works, what is refused, what is cleaned up.

mod capabilities;
mod companion;
mod confirm;
mod disturbed;
mod egress;
mod exhausted;
mod locks;
pub mod refused;
mod registered;
mod tables;

use tccc::kernel::bpf;
use tccc::loader::LoadOptions;

use super::*;
use crate::common::experiment::is_alive;
use crate::common::{TCCC, patented_object};
use crate::lab::pair::attached;
use crate::lab::policy::object;
use crate::lab::sandbox::{
    BALLAST, NET_ADMIN, PERFMON, SYS_ADMIN, Sandbox, drift, fill_run, registered, status, without,
};
use crate::lab::trial::{given_on_host, until_ended};
