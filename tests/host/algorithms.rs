//! The host ring of the algorithms: every file of `bpf/cc`, compiled natively with the undefined-behaviour sanitizer and
//! driven by a simulated kernel. A new file is covered without an edit here.

mod adaptive;
mod bic;
mod bottleneck;
mod compound;
mod connection;
mod cubic;
mod curves;
mod dfr;
mod dtcp;
mod event_layout;
mod fast;
mod faststart;
mod highspeed;
mod htcp;
mod hybla;
mod illinois;
mod msack;
mod mswift;
mod native;
mod pair;
mod properties;
mod reno;
mod state_layout;
mod swift;
mod tahoe;
mod tcpfit;
mod vegas;
mod veno;
mod westwood;
mod yeah;

use tccc::author::ring::{kernel, operations, path, sender};
