//! Benchmark: the cost of a policy per connection, by the kernel's statistics of BPF programs.
//!
//! Each policy decides both ends of the same connections over a loopback interface. Policies take turns, so that other load
//! affects all of them. `cargo xtask bench policy` prints the results.

use std::net::SocketAddrV4;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket, sockopt};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use tccc::kernel::{bpf, cgroup, struct_ops};
use tccc::model::stats::students_interval;
use tccc::policy::program::{self, LoadedPolicy};
use tccc::policy::rule::{Match, Policy, Portion, Ports, Rule, Treatment};
use tccc::policy::table::{Resolved, RuleTables};
use tccc::units::prefix::Prefix;

use super::*;
use crate::lab::policy::rule;

const ROUNDS: usize = 8;
const CONNECTIONS: usize = 2_500;
/// The requirement with up to ten thousand prefixes: nanoseconds per socket.
const LIMIT_NS: f64 = 1_000.0;
const SEED: u128 = 15;

struct PolicyCandidate {
    name: String,
    loaded: LoadedPolicy,
    /// Nanoseconds per socket, one value per round.
    costs: Vec<f64>,
    must_hold: bool,
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench policy`"]
fn decision_costs_less_than_a_microsecond() {
    needs!(root, btf, cgroup2);
    let _host = HostSnapshot::take(&["tccc"]);
    let netns = loopback_netns();
    let mut candidates = candidates();
    for _ in 0..ROUNDS {
        for candidate in &mut candidates {
            let cost = measure(&netns, &candidate.loaded);
            candidate.costs.push(cost);
        }
    }
    println!("policy, {ROUNDS} rounds of {CONNECTIONS} connections: nanoseconds per socket, mean and 95 % interval");
    for candidate in &candidates {
        let [low, high] = students_interval(&candidate.costs).unwrap();
        let mean = candidate.costs.iter().sum::<f64>() / candidate.costs.len() as f64;
        println!("{:<44} {mean:>6.0} ({low:.0} to {high:.0})", candidate.name);
        assert!(!candidate.must_hold || mean <= LIMIT_NS, "{}: {mean:.0} ns", candidate.name);
    }
}

fn candidates() -> Vec<PolicyCandidate> {
    let candidate = |name: &str, rules: Vec<Rule>, must_hold: bool| {
        let tables = RuleTables::of(&Policy { rules }, &Resolved::default());
        let loaded = program::load(&tables, 0, None, None).unwrap();
        PolicyCandidate { name: name.to_owned(), loaded, costs: Vec::new(), must_hold }
    };
    let elsewhere = || Match { remote_port: vec![Ports(1..=1)], ..Match::default() };
    let keep = vec![(Treatment::Keep, Portion::ALL)];
    let split = || vec![(Treatment::Algorithm("reno".into()), Portion(1000)), (Treatment::Keep, Portion(9000))];
    let all = || vec![(Treatment::Algorithm("reno".into()), Portion::ALL)];
    let mut candidates = vec![
        candidate("one rule that matches nothing", vec![rule("none", elsewhere(), keep.clone())], true),
        candidate("keep", vec![rule("keep", Match::default(), keep.clone())], true),
        candidate("split 10 %", vec![rule("split", Match::default(), split())], true),
        candidate("another algorithm", vec![rule("all", Match::default(), all())], false),
    ];
    for prefixes in [10, 100, 1_000, 10_000, 100_000] {
        let when = Match { to: random_prefixes(prefixes), ..Match::default() };
        let rules = vec![rule("there", when, keep.clone()), rule("rest", Match::default(), keep.clone())];
        candidates.push(candidate(&format!("keep, {prefixes} prefixes"), rules, prefixes <= 10_000));
    }
    let when = Match { to: random_prefixes(10_000), ..Match::default() };
    let rules = vec![rule("there", when, keep.clone()), rule("split", Match::default(), split())];
    candidates.push(candidate("split 10 %, 10000 prefixes", rules, true));
    candidates
}

/// Random prefixes of loopback addresses, of 24 to 32 bits. Connections are between random loopback addresses.
fn random_prefixes(count: usize) -> Vec<Prefix> {
    let mut random = Pcg64Mcg::new(SEED);
    let mut text = || {
        let bits = 24 + random.next_u32() % 9;
        let address = loopback(&mut random).to_bits() & (u32::MAX << (32 - bits));
        format!("{}/{bits}", Ipv4Addr::from_bits(address))
    };
    (0..count).map(|_| text().parse().unwrap()).collect()
}

fn loopback(random: &mut Pcg64Mcg) -> Ipv4Addr {
    Ipv4Addr::from_bits(127 << 24 | random.next_u32() >> 8)
}

/// Nanoseconds of the program per end of a connection.
fn measure(netns: &Netns, policy: &LoadedPolicy) -> f64 {
    let root = File::open(cgroup::mount_point().unwrap()).unwrap();
    let link = bpf::attach_sock_ops(&policy.program, &root).unwrap();
    let statistics = Statistics::begin().unwrap();
    let before = struct_ops::cost_of(&policy.program).unwrap();
    netns.run(connect_often).unwrap();
    let after = struct_ops::cost_of(&policy.program).unwrap();
    drop((statistics, link));
    (after.nanoseconds - before.nanoseconds) as f64 / (2 * CONNECTIONS) as f64
}

fn connect_often() -> anyhow::Result<()> {
    let mut random = Pcg64Mcg::new(SEED + 1);
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for _ in 0..CONNECTIONS {
        let sender = connect(loopback(&mut random), SocketAddrV4::new(loopback(&mut random), port));
        let receiver = listener.accept().unwrap().0;
        // A reset leaves no port in TIME_WAIT. There are fewer ports than connections.
        for end in [sender.as_fd(), receiver.as_fd()] {
            setsockopt(&end, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        }
    }
    Ok(())
}

fn connect(from: Ipv4Addr, to: SocketAddrV4) -> OwnedFd {
    let sender = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(sender.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0))).unwrap();
    nix::sys::socket::connect(sender.as_raw_fd(), &SockaddrIn::from(to)).unwrap();
    sender
}
