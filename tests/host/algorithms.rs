//! Host tests of the algorithms: every file of `bpf/cc`, compiled natively with the undefined-behaviour sanitizer and driven
//! by a simulated kernel. The tests over all algorithms include a new file without an edit here.

mod adaptive;
mod bbr;
mod bic;
mod bottleneck;
mod compound;
mod copa;
mod cubic;
mod cubic_search;
mod curves;
mod dfr;
mod dtcp;
mod endpoint;
mod event_layout;
mod fast;
mod faststart;
mod highspeed;
mod htcp;
mod hybla;
mod illinois;
mod ledbatpp;
mod msack;
mod mswift;
pub mod native;
mod pair;
mod prague;
mod properties;
mod state_layout;
mod swift;
mod tahoe;
mod tcpfit;
mod vegas;
mod veno;
mod westwood;
mod yeah;

use bottleneck::{LoneFlow, MSS_BYTES};
use endpoint::{Endpoint, EndpointStep, RESUMPTIONS};
use native::{CongestionControl, INFINITE_SSTHRESH, Native, NativeSocket, Tcp, event, state};
use tccc::author::ring::kernel::{Acked, SimulatedKernel};
use tccc::author::ring::operations::{self, Operation};
use tccc::author::ring::path::{self, SimulatedPath};
use tccc::author::ring::sender::{Round, SimulatedSender};
use tccc::catalog;
