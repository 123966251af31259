//! Benchmark: frames per second of a browser that shows the page of `tccc serve` with 200 plotted flows.
//!
//! `cargo xtask web --frames` prints the result. The requirement: 60 frames per second.

use super::*;
use crate::gathered::SocketCrowd;

/// Two sockets per flow, because both ends are on this host.
const SOCKETS: usize = 500;

#[test]
#[ignore = "a benchmark: `cargo xtask web --frames`"]
fn two_hundred_plotted_flows() {
    needs!(root, btf);
    let crowd = SocketCrowd::gather(SOCKETS, Some(Duration::ZERO));
    let mut serve = tccc();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--netns", &path_of(&crowd.netns)]);
    let server = Server::start(serve);
    let mut node = Command::new("node");
    node.arg("tests/web/frames.mjs").env("SERVER", format!("http://{}", server.address)).stdin(Stdio::null());
    assert!(node.status().unwrap().success());
}
