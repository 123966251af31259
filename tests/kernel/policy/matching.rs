//! Which rule a connection matches: every kind of condition, at both ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use nix::sys::socket::sockopt::TcpFastOpenConnect;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket};

use crate::common::host_has;
use crate::lab::group::Group;
use crate::lab::policy::pair::{address, join, listen_at};
use crate::lab::policy::{Ends, Lab, Pair, count, remove, show, with_lab};

/// Which end a rule that gives `cubic` to what it matches decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hit {
    None,
    Client,
    Server,
    Both,
}

impl Hit {
    #[track_caller]
    fn of(algorithms: [String; 2]) -> Self {
        let is_hit = algorithms.map(|name| match name.as_str() {
            "cubic" => true,
            "reno" => false,
            other => panic!("neither the rule's algorithm nor the default: {other}"),
        });
        match is_hit {
            [false, false] => Hit::None,
            [true, false] => Hit::Client,
            [false, true] => Hit::Server,
            [true, true] => Hit::Both,
        }
    }
}

fn rule(conditions: &str) -> String {
    format!("[[rule]]\nname = \"only\"\n{conditions}\nuse = \"cubic\"\n")
}

const PLAIN: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Conditions, the addresses of client and server, and which end they match.
const CASES: &[(&str, [&str; 2], Hit)] = &[
    ("", PLAIN, Hit::Both),
    ("", ["::1", "::1"], Hit::Both),
    ("to = \"127.9.0.0/16\"", PLAIN, Hit::None),
    ("to = \"127.9.0.0/16\"", ["127.0.0.1", "127.9.255.1"], Hit::Client),
    ("to = \"127.9.0.0/16\"", ["127.9.0.1", "127.0.0.1"], Hit::Server),
    ("to = \"127.9.0.0/16\"", ["127.10.0.0", "127.8.255.255"], Hit::None),
    ("to = [\"127.9.0.1\", \"127.9.0.3\"]", ["127.9.0.3", "127.9.0.2"], Hit::Server),
    ("to = \"0.0.0.0/0\"", PLAIN, Hit::Both),
    ("to = \"0.0.0.0/0\"", ["::1", "::1"], Hit::None),
    ("to = \"::1\"", ["::1", "::1"], Hit::Both),
    ("to = \"::1\"", PLAIN, Hit::None),
    ("to = \"::/0\"", PLAIN, Hit::Both),
    ("local_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], Hit::Server),
    ("local_port = 4433", ["127.0.0.1:4433", "127.0.0.2"], Hit::Client),
    ("local_port = 4433", ["127.0.0.1", "127.0.0.1:4434"], Hit::None),
    ("remote_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], Hit::Client),
    ("remote_port = 4433", ["::1", "[::1]:4433"], Hit::Client),
    ("remote_port = [\"4400-4433\", 9]", ["127.0.0.1:9", "127.0.0.1:4400"], Hit::Both),
    ("remote_port = \"4400-4433\"", ["127.0.0.1:4399", "127.0.0.1:4434"], Hit::None),
    ("direction = \"in\"", PLAIN, Hit::Server),
    ("direction = \"out\"", PLAIN, Hit::Client),
    ("direction = \"in\"\nlocal_port = 4433\nto = \"127.0.0.0/8\"", ["127.0.0.1", "127.0.0.1:4433"], Hit::Server),
    ("direction = \"out\"\nlocal_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], Hit::None),
    ("current = \"reno\"", PLAIN, Hit::Both),
    ("current = [\"bbr\", \"dtcp\"]", PLAIN, Hit::None),
    ("netns = \"ldk_lab\"", PLAIN, Hit::Both),
    ("netns = \"/proc/self/ns/net\"", PLAIN, Hit::None),
];

#[test]
fn each_condition_matches_the_ends_it_says() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let mut wrong = Vec::new();
        for (conditions, [from, to], expected) in CASES {
            lab.apply(&rule(conditions));
            let got = Hit::of(lab.algorithms(from, to));
            if got != *expected {
                wrong.push(format!("{conditions:?}, {from} to {to}: expected {expected:?}, got {got:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        remove();
        assert_eq!(Hit::of(lab.algorithms(PLAIN[0], PLAIN[1])), Hit::None);
    });
}

/// IPv4 over an IPv6 socket has the mapped address at the socket, and the rule the plain one.
#[test]
fn prefix_matches_ipv4_on_a_dual_stack_socket() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        lab.apply(&rule("to = \"127.9.0.0/16\""));
        let check = |from: &str, to: &str, is_dual, expected| {
            let ends = Ends { is_dual, ..Ends::new(from, to) };
            assert_eq!(Hit::of(lab.pair(&ends).algorithms()), expected, "{ends:?}");
        };
        check("127.9.0.1", "127.0.0.1", true, Hit::Server);
        check("127.0.0.1", "127.9.0.1", true, Hit::Client);
        check("::ffff:127.0.0.1", "::ffff:127.9.0.1", true, Hit::Client);
        check("::ffff:127.9.0.9", "::ffff:127.9.0.1", true, Hit::Both);
        check("::ffff:127.0.0.1", "::ffff:127.8.0.1", true, Hit::None);
        check("::1", "::1", true, Hit::None);
    });
}

/// Sockets that come into being in other ways than by a plain handshake.
#[test]
fn connections_by_cookie_and_by_fast_open_are_decided() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        lab.apply(&rule(""));
        let set = |name: &str, value: &str| tccc::kernel::sysctl::write(&lab.netns, name, value).unwrap();
        set("net.ipv4.tcp_syncookies", "2"); // always
        assert_eq!(Hit::of(lab.algorithms("127.0.0.1", "127.0.0.2")), Hit::Both);
        assert_eq!(Hit::of(lab.algorithms("::1", "::1")), Hit::Both);
        set("net.ipv4.tcp_syncookies", "1");
        set("net.ipv4.tcp_fastopen", "1543"); // both sides, without a cookie and without being asked
        let mut pair = lab.inside(|| {
            let listener = listen_at(address("127.0.0.1"), false, None);
            let client = connect_fast_open(listener.local_addr().unwrap());
            (&client).write_all(&[7]).unwrap();
            let server = listener.accept().unwrap().0;
            (&server).read_exact(&mut [0]).unwrap();
            Pair { client, server }
        });
        pair.exchange(1000);
        assert_eq!(Hit::of(pair.algorithms()), Hit::Both);
    });
}

/// Connects with the first byte that is sent.
fn connect_fast_open(to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&socket, TcpFastOpenConnect, &true).unwrap();
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    TcpStream::from(socket)
}

#[test]
fn list_of_prefixes_in_a_file_matches() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        // Every other /24 below 127.64.0.0/10, and two that contain one another.
        let prefixes = (0..1u32 << 13).map(|n| format!("127.{}.{}.0/24\n", 64 + (n >> 7), (n & 127) << 1));
        let text: String = prefixes.collect();
        lab.file("list.txt", &format!("# of a test\n127.9.9.0/24 # narrow\n127.9.0.0/16\n{text}"));
        lab.apply(&rule("to_file = \"list.txt\""));
        let check = |to: &str, expected| assert_eq!(Hit::of(lab.algorithms("127.0.0.1", to)), expected, "{to}");
        for (to, expected) in [
            ("127.64.0.1", Hit::Client),
            ("127.64.1.1", Hit::None),
            ("127.100.254.255", Hit::Client),
            ("127.127.255.1", Hit::None),
            ("127.9.9.9", Hit::Client),
            ("127.9.10.1", Hit::Client),
            ("127.10.0.0", Hit::None),
        ] {
            check(to, expected);
        }
    });
}

#[test]
fn first_of_sixty_four_rules_that_matches_decides() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        // Rule n is for ports below 5000 + n, so that n rules overlap there; even ones give cubic, odd ones bbr.
        let rules: Vec<String> = (0..64)
            .map(|n| {
                let algorithm = if n % 2 == 0 { "cubic" } else { "bbr" };
                let to = 5000 + n;
                format!("[[rule]]\nname = \"r{n}\"\nremote_port = \"5000-{to}\"\nuse = \"{algorithm}\"\n")
            })
            .collect();
        lab.apply(&rules.concat());
        for n in [0u16, 1, 2, 31, 32, 62, 63] {
            let [client, server] = lab.algorithms("127.0.0.1", &format!("127.0.0.1:{}", 5000 + n));
            assert_eq!((client.as_str(), server.as_str()), (if n % 2 == 0 { "cubic" } else { "bbr" }, "reno"), "{n}");
            assert_eq!(count(&show(), n.into(), 0, "set"), 1, "{n}");
        }
        assert_eq!(lab.algorithms("127.0.0.1", "127.0.0.1:5064"), ["reno", "reno"]);
        let shown = show();
        assert_eq!(shown["counts"]["unmatched"], 7 + 2, "{shown}");
        assert!(lab.policy(2, "apply", &[rules.concat(), rules[0].replace("r0", "r64")].concat()).stdout.is_empty());
        assert_eq!(show()["generation"], 1, "a file with 65 rules changes nothing");
    });
}

fn in_group(lab: &Lab, group: &Group) -> Hit {
    group.inside(|| Hit::of(lab.algorithms("127.0.0.1", "127.0.0.1")))
}

#[test]
fn cgroups_match_with_all_below_them() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        let before = Group::create("/ldk_tccc.slice/web.service/worker one");
        let other = Group::create("/ldk_tccc_other.slice/web.service");
        let beside = Group::create("/ldk_tccc.slice/web.service2");
        let check = |conditions: &str, expected: [Hit; 3]| {
            lab.apply(&rule(conditions));
            assert_eq!([&before, &other, &beside].map(|group| in_group(lab, group)), expected, "{conditions}");
            // Made after the rules.
            let later = Group::create("/ldk_tccc.slice/web.service/new/er");
            assert_eq!(in_group(lab, &later), expected[0], "{conditions}, made later");
            std::mem::forget(later); // a part of what `before` removes
        };
        check("cgroup = \"/ldk_tccc.slice/web.service\"", [Hit::Both, Hit::None, Hit::None]);
        check("cgroup = \"/ldk_tccc.slice\"", [Hit::Both, Hit::None, Hit::Both]);
        check("cgroup = \"/web.service\"", [Hit::None, Hit::None, Hit::None]);
        check("unit = \"web.service\"", [Hit::Both, Hit::Both, Hit::None]);
        check("unit = [\"ldk_tccc_other.slice\", \"none.service\"]", [Hit::None, Hit::Both, Hit::None]);
        check("unit = \"web.service\"\ncgroup = \"/ldk_tccc.slice/web.service2\"", [Hit::Both, Hit::Both, Hit::Both]);
        lab.apply(&rule("cgroup = \"/ldk_tccc.slice/web.service/worker one\""));
        assert_eq!(in_group(lab, &before), Hit::Both, "a name with a blank");
        assert_eq!(Hit::of(lab.algorithms("127.0.0.1", "127.0.0.1")), Hit::None, "outside of every rule's cgroup");
    });
}

/// An accepted socket belongs to the cgroup of its listener, wherever it is accepted.
#[test]
fn accepted_connection_has_the_cgroup_of_its_listener() {
    with_lab(host_has!(root, btf, bpffs, cgroup2), |lab| {
        lab.apply(&rule("unit = \"ldk_tccc.socket\""));
        let group = Group::create("/ldk_tccc.socket");
        let listener = group.inside(|| lab.inside(|| listen_at(address("127.0.0.1"), false, None)));
        let pair = lab.inside(|| join(address("127.0.0.1"), &listener));
        assert_eq!(Hit::of(pair.algorithms()), Hit::Server);
        remove();
        drop((pair, listener));
    });
}
