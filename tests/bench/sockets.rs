//! Benchmark: many sockets on one host.
//!
//! Compares `tccc sockets -o json` with `ss -tin` over 100,000 sockets and checks that its output is complete. Then measures
//! how often `tccc top` redraws 10,000 active sockets. `cargo xtask bench sockets` prints the results. The requirements: ten
//! times as fast as `ss`, every socket once; a redraw within a second.

use super::*;
use crate::gathered::SocketCrowd;
use crate::lab::pty::Session;
use crate::namespaces::start_in;
use crate::pairs;

const SOCKETS: usize = 100_000;
const PAIRS: usize = 10;
const FASTER: f64 = 10.0;
const SHOWN_SOCKETS: usize = 10_000;
const PICTURES: usize = 30;
const PICTURE_WITHIN: Duration = Duration::from_secs(1);

#[test]
#[ignore = "a benchmark: `cargo xtask bench sockets`"]
fn sockets_are_listed_faster_than_by_ss_and_completely() {
    needs!(root, btf);
    let begin = Instant::now();
    let crowd = SocketCrowd::gather(SOCKETS, None);
    println!("{SOCKETS} sockets opened in {:.1} s", begin.elapsed().as_secs_f64());
    assert_complete(&crowd);
    println!("tccc sockets -o json, s  ss -tin, s  ratio");
    let pairs = pairs::alternating(PAIRS, || timed(ss(&crowd)), || timed(sockets(&crowd)));
    let pairs = pairs.inspect(|(theirs, ours)| println!("{ours:23.3}  {theirs:10.3}  {:5.1}", theirs / ours));
    let interval = pairs::show_ratio("ss / tccc", &pairs.collect::<Vec<_>>());
    println!("{FASTER} times as fast: {}", pairs::at_least(FASTER, interval));
}

/// Asserts that the output has every socket of the crowd exactly once, and no other.
fn assert_complete(crowd: &SocketCrowd) {
    let output = check(0, &mut sockets(crowd));
    let document = output.json();
    let rows = document["sockets"].as_array().unwrap();
    let address = |row: &serde_json::Value, end: &str| row[end].as_str().unwrap().parse::<SocketAddr>().unwrap();
    let found: BTreeSet<_> = rows.iter().map(|row| (address(row, "local"), address(row, "remote"))).collect();
    let cookies: BTreeSet<u64> = rows.iter().map(|row| row["socket"].as_u64().unwrap()).collect();
    assert_eq!((rows.len(), found.len(), cookies.len()), (SOCKETS, SOCKETS, SOCKETS));
    assert!(found == crowd.ends, "the output lists other sockets than the crowd's");
    println!("complete: {} rows, {} of them unique, {} bytes", rows.len(), found.len(), output.stdout.len());
}

fn sockets(crowd: &SocketCrowd) -> Command {
    let mut command = tccc();
    command.args(["sockets", "-o", "json", "--netns", &path_of(&crowd.netns)]).stdin(Stdio::null());
    command
}

fn ss(crowd: &SocketCrowd) -> Command {
    let mut command = Command::new("ss");
    start_in(&crowd.netns, command.arg("-tin").stdin(Stdio::null()));
    command
}

/// Seconds of one run whose output is discarded.
fn timed(mut command: Command) -> f64 {
    command.stdout(Stdio::null());
    let begin = Instant::now();
    assert!(command.status().unwrap().success());
    begin.elapsed().as_secs_f64()
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench sockets`"]
fn top_draws_ten_thousand_sockets_within_a_second() {
    needs!(root, btf);
    let crowd = SocketCrowd::gather(SHOWN_SOCKETS, Some(Duration::ZERO));
    let gaps_ms = pictures(&crowd);
    let [middle, high, max] = [0.5, 0.95, 1.0].map(|share| percentile(&gaps_ms, share).unwrap());
    let n = gaps_ms.len();
    println!(
        "redraws of {SHOWN_SOCKETS} sockets: n = {n}, ms between: median {middle:.0}, p95 {high:.0}, max {max:.0}"
    );
    let holds = middle <= PICTURE_WITHIN.as_secs_f64() * 1e3;
    println!("a redraw within {PICTURE_WITHIN:?}: {}", if holds { "holds" } else { "does not hold" });
}

/// Milliseconds between redraws, which are recognised by the event count in the header.
fn pictures(crowd: &SocketCrowd) -> Vec<f64> {
    let begin = Instant::now();
    let mut session = Session::start(200, 50, &["top", "--netns", &path_of(&crowd.netns)]);
    session.until("every socket", |screen| screen.contains("10,000 sockets"));
    println!("first redraw of all sockets after {:.1} s", begin.elapsed().as_secs_f64());
    let head = |session: &mut Session| session.screen().lines().nth(1).unwrap_or_default().to_owned();
    let mut shown = head(&mut session);
    let mut at = Instant::now();
    let mut gaps_ms = Vec::new();
    for _ in 0..PICTURES {
        poll_until(SOON, "another picture", || {
            let now = head(&mut session);
            let is_other = now != shown;
            shown = now;
            is_other
        });
        gaps_ms.push(at.elapsed().as_secs_f64() * 1e3);
        at = Instant::now();
    }
    println!("{shown}");
    session.send("q");
    assert_eq!(session.end(), Some(0));
    gaps_ms
}
