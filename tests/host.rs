//! The host ring of the algorithms: every file of `bpf/cc`, compiled natively with the undefined-behaviour sanitizer and
//! driven by a simulated kernel. A new file is covered without an edit here.

#[path = "host/adaptive.rs"]
mod adaptive;
#[path = "host/bic.rs"]
mod bic;
#[path = "host/bottleneck.rs"]
mod bottleneck;
#[path = "host/compile.rs"]
mod compile;
#[path = "host/compound.rs"]
mod compound;
#[path = "host/connection.rs"]
mod connection;
#[path = "host/cubic.rs"]
mod cubic;
#[path = "host/curves.rs"]
mod curves;
#[path = "host/dfr.rs"]
mod dfr;
#[path = "host/dtcp.rs"]
mod dtcp;
#[path = "host/event_layout.rs"]
mod event_layout;
#[path = "host/fast.rs"]
mod fast;
#[path = "host/faststart.rs"]
mod faststart;
#[path = "host/highspeed.rs"]
mod highspeed;
#[path = "host/htcp.rs"]
mod htcp;
#[path = "host/hybla.rs"]
mod hybla;
#[path = "host/illinois.rs"]
mod illinois;
#[path = "host/msack.rs"]
mod msack;
#[path = "host/mswift.rs"]
mod mswift;
#[path = "host/native.rs"]
mod native;
#[path = "host/pair.rs"]
mod pair;
#[path = "host/properties.rs"]
mod properties;
#[path = "host/reno.rs"]
mod reno;
#[path = "host/rounds.rs"]
mod rounds;
#[path = "host/state_layout.rs"]
mod state_layout;
#[path = "host/swift.rs"]
mod swift;
#[path = "host/tahoe.rs"]
mod tahoe;
#[path = "host/tcpfit.rs"]
mod tcpfit;
#[path = "host/tuned.rs"]
mod tuned;
#[path = "host/vegas.rs"]
mod vegas;
#[path = "host/veno.rs"]
mod veno;
#[path = "host/westwood.rs"]
mod westwood;
#[path = "host/yeah.rs"]
mod yeah;

use tccc::author::ring::{kernel, operations, path, sender};
