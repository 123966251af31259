//! ECN is negotiated for exactly the connections that get an algorithm that needs it.

use std::os::fd::AsFd as _;

use tccc::kernel::bpf;
use tccc::policy::pins::PolicyPins;
use tccc::policy::rule::{Match, Treatment};
use tccc::policy::table::Resolved;

use super::*;

/// `TCPI_OPT_ECN` of linux/tcp.h.
const TCPI_OPT_ECN: u8 = 8;

fn has_ecn(pair: &SocketPair) -> [bool; 2] {
    [&pair.client, &pair.server].map(|end| tcp_info(end).tcpi_options & TCPI_OPT_ECN != 0)
}

/// Values of `net.ipv4.tcp_ecn`: a server refuses ECN, or accepts it from a client that requests it.
const REFUSE: &str = "0";
const ACCEPT: &str = "2";

fn load_ecn_algorithm(lab: &PolicyLab) {
    check(0, tccc().arg("load").arg(compile(lab.folder(), "ldk_ecn", NEEDS_ECN, 10)));
}

fn unload_ecn_algorithm() {
    remove();
    run(0, "unload ldk_ecn");
}

fn rule(conditions: &str) -> String {
    format!("[[rule]]\nname = \"ecn\"\n{conditions}\nuse = \"ldk_ecn\"\n")
}

/// A client that needs ECN requests it in its SYN. The server accepts only if it needs ECN too.
#[test]
fn ecn_is_negotiated_where_both_ends_get_the_algorithm() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, clang);
    load_ecn_algorithm(lab);
    let check = |what: &str, conditions: &str, expected: bool| {
        lab.apply(&rule(conditions));
        for (server, to) in [(REFUSE, "127.0.0.2:4433"), (ACCEPT, "127.0.0.2:4433"), (REFUSE, "[::1]:4433")] {
            tccc::kernel::sysctl::write(&lab.netns, "net.ipv4.tcp_ecn", server).unwrap();
            let from = if to.starts_with('[') { "::1" } else { "127.0.0.1" };
            let mut pair = lab.pair(&Endpoints::new(from, to));
            pair.exchange(50_000);
            assert_eq!(has_ecn(&pair), [expected; 2], "{what}: {to}, tcp_ecn = {server}");
        }
    };
    check("both ends have the algorithm", "", true);
    check("by namespace", "netns = \"ldk_lab\"", true);
    check("by address", "to = [\"127.0.0.0/8\", \"::1\"]", true);
    check("only the client asks", "direction = \"out\"", false);
    check("only the server would", "direction = \"in\"", false);
    check("for another port", "remote_port = 9", false);
    check("the port of the server alone", "local_port = 4433", false);
    // A SYN-ACK has no socket yet, so its algorithm and its cgroup are unknown.
    check("by the algorithm before", "current = \"reno\"", false);
    unload_ecn_algorithm();
}

#[test]
fn ecn_depends_on_choices_of_programs_and_on_the_cgroup_of_the_client() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, clang);
    load_ecn_algorithm(lab);
    // A program that chose its algorithm gets ECN only if the rule overrides it.
    let chosen = Endpoints { client: Some("bbr"), ..Endpoints::loopback() };
    lab.apply(&rule(""));
    assert_eq!(has_ecn(&lab.pair(&chosen)), [false, false]);
    lab.apply(&rule("override = true"));
    let pair = lab.pair(&chosen);
    assert_eq!((has_ecn(&pair), pair.algorithms()), ([true, true], ["ldk_ecn".into(), "ldk_ecn".into()]));
    // A SYN-ACK has no socket yet, so its cgroup is unknown: the listener itself must choose an algorithm with ECN.
    let group = TestCgroup::create("/ldk_tccc.service");
    lab.apply(&rule("unit = \"ldk_tccc.service\""));
    let plain = Endpoints::loopback();
    let wants = Endpoints { listener: Some("ldk_ecn"), ..plain.clone() };
    for (ends, expected) in [(&plain, false), (&wants, true)] {
        let pair = group.inside(|| lab.pair(ends));
        let names = ["ldk_ecn".into(), "ldk_ecn".into()];
        assert_eq!((has_ecn(&pair), pair.algorithms()), ([expected; 2], names), "{ends:?}");
    }
    assert_eq!(has_ecn(&lab.pair(&wants)), [false, false], "a client outside the cgroup");
    unload_ecn_algorithm();
}

/// Once the lease is over, the earlier policy decides about ECN too. It gave DCTCP to connections without ECN.
#[test]
fn earlier_policy_asks_for_ecn_after_the_lease_of_a_trial_without_ecn() {
    use tccc::policy::program::{self, Lease};
    use tccc::policy::rule::{Policy, Portion};
    use tccc::policy::table::RuleTables;
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, clang);
    load_ecn_algorithm(lab);
    lab.apply(&rule(""));
    assert_eq!(has_ecn(&lab.plain()), [true, true]);
    let pins = PolicyPins::of_host().unwrap();
    let [link, earlier] = [pins.link(), pins.part(1, "program")].map(|pin| bpf::open_pin(&pin).unwrap());
    let treatment = Treatment::Algorithm("cubic".into());
    let rules = vec![crate::lab::policy::rule("all", Match::default(), vec![(treatment, Portion::ALL)])];
    let tables = RuleTables::of(&Policy { rules }, &Resolved::default());
    let lease = Lease { until_ns: 1, fallback: Some(earlier.as_fd()) };
    let trial = program::load(&tables, 2, None, Some(lease)).unwrap();
    bpf::replace_program(&link, &trial.program, &earlier).unwrap();
    let pair = lab.plain();
    bpf::replace_program(&link, &earlier, &trial.program).unwrap();
    assert_eq!((pair.algorithms(), has_ecn(&pair)), (["ldk_ecn".into(), "ldk_ecn".into()], [true, true]));
    unload_ecn_algorithm();
}

#[test]
fn part_of_a_split_asks_for_ecn_and_the_rest_does_not() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2, clang);
    load_ecn_algorithm(lab);
    let server = "[[rule]]\nname = \"all\"\nlocal_port = 4433\nuse = \"ldk_ecn\"\n";
    lab.apply(&format!(
        "{server}[[rule]]\nname = \"part\"\nremote_port = 4433\nsplit = {{ ldk_ecn = 30, keep = 70 }}\n"
    ));
    let treated = lab.inside(|| {
        let listener = listen_at(address("127.0.0.1:4433"), false, None);
        let is_treated = |number: u16| {
            let pair = join(([127, 0, 0, 2], 20_000 + number), &listener);
            let is_treated = pair.algorithms()[0] == "ldk_ecn";
            assert_eq!(has_ecn(&pair), [is_treated; 2], "port {number}");
            is_treated
        };
        (0..1000).filter(|&number| is_treated(number)).count()
    });
    assert!((240..360).contains(&treated), "{treated} of 1000 at 30 %");
    unload_ecn_algorithm();
}
