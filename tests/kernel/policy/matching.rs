//! Rules match connections by every kind of condition, at both ends.

use std::net::TcpStream;

use nix::sys::socket::sockopt::TcpFastOpenConnect;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket};

use super::*;

/// Whether a rule that gives `cubic` decided client and server.
#[track_caller]
fn hits(algorithms: [String; 2]) -> [bool; 2] {
    algorithms.map(|name| match name.as_str() {
        "cubic" => true,
        "reno" => false,
        other => panic!("neither the rule's algorithm nor the default: {other}"),
    })
}

const NONE: [bool; 2] = [false, false];
const CLIENT: [bool; 2] = [true, false];
const SERVER: [bool; 2] = [false, true];
const BOTH: [bool; 2] = [true, true];

fn rule(conditions: &str) -> String {
    format!("[[rule]]\nname = \"only\"\n{conditions}\nuse = \"cubic\"\n")
}

const PLAIN: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Conditions, addresses of client and server, and the ends that match.
const CASES: &[(&str, [&str; 2], [bool; 2])] = &[
    ("", PLAIN, BOTH),
    ("", ["::1", "::1"], BOTH),
    ("to = \"127.9.0.0/16\"", PLAIN, NONE),
    ("to = \"127.9.0.0/16\"", ["127.0.0.1", "127.9.255.1"], CLIENT),
    ("to = \"127.9.0.0/16\"", ["127.9.0.1", "127.0.0.1"], SERVER),
    ("to = \"127.9.0.0/16\"", ["127.10.0.0", "127.8.255.255"], NONE),
    ("to = [\"127.9.0.1\", \"127.9.0.3\"]", ["127.9.0.3", "127.9.0.2"], SERVER),
    ("to = \"0.0.0.0/0\"", PLAIN, BOTH),
    ("to = \"0.0.0.0/0\"", ["::1", "::1"], NONE),
    ("to = \"::1\"", ["::1", "::1"], BOTH),
    ("to = \"::1\"", PLAIN, NONE),
    ("to = \"::/0\"", PLAIN, BOTH),
    ("local_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], SERVER),
    ("local_port = 4433", ["127.0.0.1:4433", "127.0.0.2"], CLIENT),
    ("local_port = 4433", ["127.0.0.1", "127.0.0.1:4434"], NONE),
    ("remote_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], CLIENT),
    ("remote_port = 4433", ["::1", "[::1]:4433"], CLIENT),
    ("remote_port = [\"4400-4433\", 9]", ["127.0.0.1:9", "127.0.0.1:4400"], BOTH),
    ("remote_port = \"4400-4433\"", ["127.0.0.1:4399", "127.0.0.1:4434"], NONE),
    ("direction = \"in\"", PLAIN, SERVER),
    ("direction = \"out\"", PLAIN, CLIENT),
    ("direction = \"in\"\nlocal_port = 4433\nto = \"127.0.0.0/8\"", ["127.0.0.1", "127.0.0.1:4433"], SERVER),
    ("direction = \"out\"\nlocal_port = 4433", ["127.0.0.1", "127.0.0.1:4433"], NONE),
    ("current = \"reno\"", PLAIN, BOTH),
    ("current = [\"bbr\", \"dtcp\"]", PLAIN, NONE),
    ("netns = \"ldk_lab\"", PLAIN, BOTH),
    ("netns = \"/proc/self/ns/net\"", PLAIN, NONE),
];

#[test]
fn each_condition_matches_the_expected_ends() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let mut wrong = Vec::new();
    for (conditions, [from, to], expected) in CASES {
        lab.apply(&rule(conditions));
        let got = hits(lab.algorithms(from, to));
        if got != *expected {
            wrong.push(format!("{conditions:?}, {from} to {to}: expected {expected:?}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    remove();
    assert_eq!(hits(lab.algorithms(PLAIN[0], PLAIN[1])), NONE);
}

/// The socket has the mapped address; the rule has the IPv4 prefix.
#[test]
fn prefix_matches_ipv4_on_a_dual_stack_socket() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(&rule("to = \"127.9.0.0/16\""));
    for (from, to, expected) in [
        ("127.9.0.1", "127.0.0.1", SERVER),
        ("127.0.0.1", "127.9.0.1", CLIENT),
        ("::ffff:127.0.0.1", "::ffff:127.9.0.1", CLIENT),
        ("::ffff:127.9.0.9", "::ffff:127.9.0.1", BOTH),
        ("::ffff:127.0.0.1", "::ffff:127.8.0.1", NONE),
        ("::1", "::1", NONE),
    ] {
        let ends = Endpoints { is_dual: true, ..Endpoints::new(from, to) };
        assert_eq!(hits(lab.pair(&ends).algorithms()), expected, "{ends:?}");
    }
}

/// SYN cookies and TCP Fast Open create sockets without the usual handshake.
#[test]
fn connections_by_cookie_and_by_fast_open_are_decided() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(&rule(""));
    let set = |name: &str, value: &str| tccc::kernel::sysctl::write(&lab.netns, name, value).unwrap();
    set("net.ipv4.tcp_syncookies", "2"); // always
    assert_eq!(hits(lab.algorithms("127.0.0.1", "127.0.0.2")), BOTH);
    assert_eq!(hits(lab.algorithms("::1", "::1")), BOTH);
    set("net.ipv4.tcp_syncookies", "1");
    set("net.ipv4.tcp_fastopen", "1543"); // both sides, without a cookie, for every socket
    let mut pair = lab.inside(|| {
        let listener = listen_at(address("127.0.0.1"), false, None);
        let client = connect_fast_open(listener.local_addr().unwrap());
        (&client).write_all(&[7]).unwrap();
        let server = listener.accept().unwrap().0;
        (&server).read_exact(&mut [0]).unwrap();
        SocketPair { client, server }
    });
    pair.exchange(1000);
    assert_eq!(hits(pair.algorithms()), BOTH);
}

fn connect_fast_open(to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&socket, TcpFastOpenConnect, &true).unwrap();
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    TcpStream::from(socket)
}

#[test]
fn list_of_prefixes_in_a_file_matches() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    // Every other /24 of 127.64.0.0/10, and a prefix inside another.
    let prefixes = (0..1u32 << 13).map(|n| format!("127.{}.{}.0/24\n", 64 + (n >> 7), (n & 127) << 1));
    let text: String = prefixes.collect();
    lab.file("list.txt", &format!("# of a test\n127.9.9.0/24 # narrow\n127.9.0.0/16\n{text}"));
    lab.apply(&rule("to_file = \"list.txt\""));
    for (to, expected) in [
        ("127.64.0.1", CLIENT),
        ("127.64.1.1", NONE),
        ("127.100.254.255", CLIENT),
        ("127.127.255.1", NONE),
        ("127.9.9.9", CLIENT),
        ("127.9.10.1", CLIENT),
        ("127.10.0.0", NONE),
    ] {
        assert_eq!(hits(lab.algorithms("127.0.0.1", to)), expected, "{to}");
    }
}

#[test]
fn first_of_sixty_four_rules_that_matches_decides() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    // Rule n matches the ports 5000 to 5000 + n, so rules overlap. Even rules give cubic, odd ones bbr.
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
    // Connections from elsewhere on the machine are counted too.
    assert!(shown["counts"]["unmatched"].as_u64().unwrap() >= 7 + 2, "{shown}");
    assert!(lab.policy(2, "apply", &[rules.concat(), rules[0].replace("r0", "r64")].concat()).stdout.is_empty());
    assert_eq!(show()["generation"], 1, "a file with 65 rules changes nothing");
}

/// What no kernel offers by itself: both versions of BBR and CUBIC, chosen per connection by one file.
#[test]
fn both_versions_of_bbr_and_cubic_carry_data_side_by_side() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let chosen = [(5001, "bpf_bbr"), (5003, "bpf_bbr3"), (5004, "bpf_cubic"), (5005, "cubic")];
    let rules =
        chosen.map(|(port, name)| format!("[[rule]]\nname = \"to_{port}\"\nremote_port = {port}\nuse = \"{name}\"\n"));
    lab.apply(&rules.concat());
    let to = |port: u16| Endpoints { to: address(&format!("127.0.0.1:{port}")), ..Endpoints::loopback() };
    let mut pairs = chosen.map(|(port, _)| lab.pair(&to(port)));
    pairs.iter_mut().for_each(|pair| pair.exchange(1 << 20));
    for (pair, (port, name)) in pairs.iter().zip(chosen) {
        assert_eq!(pair.algorithms(), [name, "reno"], "{port}");
    }
    drop(pairs);
    remove().stdout_has("\"bpf_bbr\" unloaded").stdout_has("\"bpf_bbr3\" unloaded");
}

fn in_group(lab: &PolicyLab, group: &TestCgroup) -> [bool; 2] {
    group.inside(|| hits(lab.algorithms("127.0.0.1", "127.0.0.1")))
}

#[test]
fn cgroups_match_with_all_below_them_and_by_the_listener() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let before = TestCgroup::create("/ldk_tccc.slice/web.service/worker one");
    let other = TestCgroup::create("/ldk_tccc_other.slice/web.service");
    let beside = TestCgroup::create("/ldk_tccc.slice/web.service2");
    let check = |conditions: &str, expected: [[bool; 2]; 3]| {
        lab.apply(&rule(conditions));
        assert_eq!([&before, &other, &beside].map(|group| in_group(lab, group)), expected, "{conditions}");
        // A cgroup that is newer than the rules.
        let later = TestCgroup::create("/ldk_tccc.slice/web.service/new/er");
        assert_eq!(in_group(lab, &later), expected[0], "{conditions}, made later");
        std::mem::forget(later); // `before` removes it
    };
    check("cgroup = \"/ldk_tccc.slice/web.service\"", [BOTH, NONE, NONE]);
    check("cgroup = \"/ldk_tccc.slice\"", [BOTH, NONE, BOTH]);
    check("cgroup = \"/web.service\"", [NONE, NONE, NONE]);
    check("unit = \"web.service\"", [BOTH, BOTH, NONE]);
    check("unit = [\"ldk_tccc_other.slice\", \"none.service\"]", [NONE, BOTH, NONE]);
    check("unit = \"web.service\"\ncgroup = \"/ldk_tccc.slice/web.service2\"", [BOTH, BOTH, BOTH]);
    lab.apply(&rule("cgroup = \"/ldk_tccc.slice/web.service/worker one\""));
    assert_eq!(in_group(lab, &before), BOTH, "a name with a blank");
    assert_eq!(hits(lab.algorithms("127.0.0.1", "127.0.0.1")), NONE, "outside of the rule's cgroup");
    // An accepted socket belongs to the cgroup of its listener, whichever process accepts it.
    lab.apply(&rule("unit = \"ldk_tccc.socket\""));
    let group = TestCgroup::create("/ldk_tccc.socket");
    let listener = group.inside(|| lab.inside(|| listen_at(address("127.0.0.1"), false, None)));
    let pair = lab.inside(|| join(address("127.0.0.1"), &listener));
    assert_eq!(hits(pair.algorithms()), SERVER);
}
