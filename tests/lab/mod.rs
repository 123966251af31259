//! Fixtures of one test each: namespaces, links, connections, servers, terminals and result directories.
#![allow(dead_code, reason = "each test binary uses its own part of this module")]

pub mod group;
pub mod keeper;
pub mod link;
pub mod overload;
pub mod pair;
pub mod policy;
pub mod porting;
pub mod pty;
pub mod record;
pub mod results;
pub mod sandbox;
pub mod serve;
pub mod service;
pub mod socket;
pub mod systemd;
pub mod trace;
pub mod trial;
pub mod verbs;
pub mod virtual_time;
pub mod wire;
