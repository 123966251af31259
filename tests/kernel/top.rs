//! `tccc top` in a real terminal while twenty flows lose packets on this kernel: every size, view and key.

use super::*;
use crate::common::TCCC;
use crate::lab::record::LossyFlows;

const FLOWS: usize = 20;
const COLUMNS: &str = "peer process cgroup algorithm phase cwnd ssthresh srtt min_rtt goodput retrans ca_state";

#[test]
fn top_shows_lossy_flows_in_every_size_and_view() {
    needs!(root, btf, tun);
    let flows = LossyFlows::begin(FLOWS);
    let place = flows.place();
    let arguments = ["top", "--netns", &place, "--interval", "50ms", "--refresh", "200ms"];
    let mut session = Session::start(80, 24, &arguments);
    session.until("every flow in 80x24", |screen| screen.contains("20 sockets") && screen.contains("10.78.0.2"));
    let rows = |screen: &str, word: &str| screen.lines().filter(|line| line.contains(word)).count();
    session.until("every row", |screen| rows(screen, "10.78.0.2:") == FLOWS && screen.contains("retrans"));
    assert!(session.has_colour());
    println!("{}", session.screen());
    session.resize(200, 50);
    session.until("every column in 200x50", |screen| {
        let heading = screen.lines().find(|line| line.contains("ca_state")).unwrap_or_default();
        COLUMNS.split(' ').all(|name| heading.contains(name)) && rows(screen, "/s") > 0
    });
    println!("{}", session.screen());
    session.resize(300, 60);
    session.until("sparklines in 300 columns", |screen| screen.contains("goodput, 60s") && screen.contains('█'));
    one_flow(&mut session);
    algorithms(&mut session);
    session.send("q");
    assert_eq!(session.end(), Some(0));
    let mut without_colours = std::process::Command::new("env");
    without_colours.arg("NO_COLOR=1").arg(TCCC).args(arguments);
    let mut plain = Session::start_command(80, 24, without_colours);
    plain.until("the table without colours", |screen| screen.contains("10.78.0.2"));
    assert!(!plain.has_colour());
    plain.send("q");
    assert_eq!(plain.end(), Some(0));
}

/// Enter opens a flow with its plots, losses and named state. The right mouse button returns to the table.
fn one_flow(session: &mut Session) {
    session.resize(80, 24);
    session.send("/cubic\r");
    session.until("the filter", |screen| screen.contains("10 of 20 sockets"));
    session.send("\r");
    session.until("the flow", |screen| screen.contains("cwnd (line) and ssthresh (dots)"));
    session.until("its state by name", |screen| screen.contains("last_max_cwnd="));
    session.until("a loss", |screen| screen.lines().any(|line| line.starts_with(" loss") && line.contains(['x', 'T'])));
    assert!(session.screen().contains("srtt (line) and min_rtt (dots)"));
    println!("{}", session.screen());
    session.send("\x1b[<2;10;6M\x1b[<2;10;6m");
    session.until("the table after a click", |screen| screen.contains("10 of 20 sockets"));
}

fn algorithms(session: &mut Session) {
    session.send("a");
    session.until("both algorithms", |screen| {
        let has = |name: &str| screen.lines().any(|line| line.trim_start().starts_with(name));
        has("reno ") && has("cubic ") && screen.contains("RTT samples")
    });
    assert!(session.screen().contains("not counted; c makes the kernel count it"));
    session.send("c");
    session.until("the kernel counts", |screen| screen.contains("counting; BPF algorithms"));
    println!("{}", session.screen());
    session.send("c");
    session.until("the kernel counts no more", |screen| screen.contains("not counted; c makes"));
}
