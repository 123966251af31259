//! Algorithms that want ECN: whether it is negotiated for exactly the connections that get one.

use crate::common::{host_has, tccc};
use crate::lab::group::Group;
use crate::lab::policy::object::{NEEDS_ECN, compile};
use crate::lab::policy::pair::{address, join, listen_at};
use crate::lab::policy::{Ends, Lab, Pair, remove, with_lab};
use crate::lab::sandbox::{check, run};
use crate::lab::trace::tcp_info;

/// Whether client and server agreed on ECN.
fn has_ecn(pair: &Pair) -> [bool; 2] {
    [&pair.client, &pair.server].map(|end| tcp_info(end).has_ecn)
}

/// What the server does without a policy: refuse, or take what the client asks for.
fn set_ecn(lab: &Lab, value: &str) {
    tccc::kernel::sysctl::write(&lab.netns, "net.ipv4.tcp_ecn", value).unwrap();
}

const REFUSE: &str = "0";
const TAKE: &str = "2";

fn with_ecn_algorithm(host_has_needs: bool, test: impl FnOnce(&Lab) + Send) {
    with_lab(host_has_needs, |lab| {
        let object = compile(lab.folder(), "ldk_ecn", NEEDS_ECN, 10);
        check(0, tccc().arg("load").arg(object));
        test(lab);
        remove();
        run(0, "unload ldk_ecn");
    });
}

fn rule(conditions: &str) -> String {
    format!("[[rule]]\nname = \"ecn\"\n{conditions}\nuse = \"ldk_ecn\"\n")
}

/// A client that needs ECN marks its SYN as capable of it; a server takes such a SYN only if it needs ECN as well.
#[test]
fn ecn_is_negotiated_where_both_ends_get_the_algorithm() {
    with_ecn_algorithm(host_has!(root, struct_ops, bpffs, cgroup2, clang), |lab| {
        let check = |what: &str, conditions: &str, expected: bool| {
            lab.apply(&rule(conditions));
            for (server, to) in [(REFUSE, "127.0.0.2:4433"), (TAKE, "127.0.0.2:4433"), (REFUSE, "[::1]:4433")] {
                set_ecn(lab, server);
                let from = if to.starts_with('[') { "::1" } else { "127.0.0.1" };
                let mut pair = lab.pair(&Ends::new(from, to));
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
        // A SYN-ACK has no socket yet: its algorithm and its cgroup are not known.
        check("by the algorithm before", "current = \"reno\"", false);
    });
}

#[test]
fn ecn_is_not_asked_for_where_a_program_chose_its_algorithm() {
    with_ecn_algorithm(host_has!(root, struct_ops, bpffs, cgroup2, clang), |lab| {
        let chosen = Ends { client: Some("bbr"), ..Ends::new("127.0.0.1", "127.0.0.2") };
        lab.apply(&rule(""));
        assert_eq!(has_ecn(&lab.pair(&chosen)), [false, false]);
        lab.apply(&rule("override = true"));
        let pair = lab.pair(&chosen);
        assert_eq!((has_ecn(&pair), pair.algorithms()), ([true, true], ["ldk_ecn".into(), "ldk_ecn".into()]));
    });
}

/// A SYN-ACK has no socket yet, so that its cgroup is not known: there the listener's own algorithm has to want ECN.
#[test]
fn rule_by_cgroup_asks_at_the_client_alone() {
    with_ecn_algorithm(host_has!(root, struct_ops, bpffs, cgroup2, clang), |lab| {
        let group = Group::create("/ldk_tccc.service");
        lab.apply(&rule("unit = \"ldk_tccc.service\""));
        let plain = Ends::new("127.0.0.1", "127.0.0.2");
        let wants = Ends { listener: Some("ldk_ecn"), ..plain.clone() };
        for (ends, expected) in [(&plain, false), (&wants, true)] {
            let pair = group.inside(|| lab.pair(ends));
            let names = ["ldk_ecn".into(), "ldk_ecn".into()];
            assert_eq!((has_ecn(&pair), pair.algorithms()), ([expected; 2], names), "{ends:?}");
        }
        assert_eq!(has_ecn(&lab.pair(&wants)), [false, false], "a client outside the cgroup");
    });
}

#[test]
fn part_of_a_split_asks_for_ecn_and_the_rest_does_not() {
    with_ecn_algorithm(host_has!(root, struct_ops, bpffs, cgroup2, clang), |lab| {
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
    });
}
