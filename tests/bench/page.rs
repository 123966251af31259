//! Benchmark: how often a browser draws the page of `tccc serve` while 200 flows are plotted.
//!
//! `cargo xtask web --frames` prints it. The requirement: 60 frames a second.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{needs, tccc};
use crate::gathered::Crowd;
use crate::lab::serve::Server;

/// Twice as many sockets as flows: both ends are on this host.
const SOCKETS: usize = 500;

#[test]
#[ignore = "a benchmark: `cargo xtask web --frames`"]
fn two_hundred_plotted_flows() {
    needs!(root, btf);
    let crowd = Crowd::gather(SOCKETS, Some(Duration::ZERO));
    let mut serve = tccc();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--netns", &crowd.place()]);
    let server = Server::start(serve);
    let mut node = Command::new("node");
    node.arg("tests/web/frames.mjs").env("SERVER", format!("http://{}", server.address)).stdin(Stdio::null());
    assert!(node.status().unwrap().success());
}
