//! Splits: shares of the arms, counts, and the same arm for the same connection.

use std::net::Ipv4Addr;

use super::*;

const CONNECTIONS: u32 = 20_000;

/// Connects clients to one listener, one after another; returns how many servers got `cubic`.
///
/// `client`: address and port of a client by its number.
fn count_cubic(lab: &crate::lab::policy::PolicyLab, client: impl Fn(u32) -> SocketAddr) -> u64 {
    lab.inside(|| {
        let listener = listen_at(address("127.0.0.1"), false, None);
        let is_cubic = |number: u32| u64::from(algorithm_of(&join(client(number), &listener).server) == "cubic");
        (0..CONNECTIONS).map(is_cubic).sum()
    })
}

/// A rule for the servers of the lab. Elsewhere on the machine other tests may connect, and a policy counts them too.
fn split(percent: f64, by: &str) -> String {
    let keep = 100.0 - percent;
    let (arms, when) = (format!("{{ cubic = {percent}, keep = {keep} }}"), "netns = \"ldk_lab\"\ndirection = \"in\"");
    format!("[[rule]]\nname = \"part\"\n{when}\nby = \"{by}\"\nsplit = {arms}\n")
}

/// Asserts that a count is within four standard deviations. By chance, one in sixteen thousand is not.
#[track_caller]
fn assert_binomial(got: u64, of: u32, share: f64) {
    let (expected, deviation) = (f64::from(of) * share, (f64::from(of) * share * (1.0 - share)).sqrt());
    let z = (got as f64 - expected) / deviation;
    println!("{got} of {of}, expected {expected:.0}: z = {z:.2}");
    assert!(z.abs() < 4.0, "{got} of {of}, expected {expected:.0}: z = {z:.2}");
}

#[test]
fn shares_are_within_the_binomial_interval_and_counts_are_exact() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    // Each connection, each peer and each /24 is one draw.
    let port = |number: u32| SocketAddr::from(([127, 0, 0, 2], 20_000 + number as u16));
    let peer = |number: u32| SocketAddr::from((Ipv4Addr::from_bits(0x7f10_0000 + number), 0));
    let prefix = |number: u32| SocketAddr::from((Ipv4Addr::from_bits(0x7f20_0000 + (number << 8 & 0xf_ffff)), 0));
    let kinds: [(_, _, _, &dyn Fn(u32) -> SocketAddr); 3] =
        [("connection", 10.0, CONNECTIONS, &port), ("peer", 5.0, CONNECTIONS, &peer), ("prefix", 30.0, 4096, &prefix)];
    for (by, percent, draws, client) in kinds {
        let clients = "[[rule]]\nname = \"clients\"\nnetns = \"ldk_lab\"\nuse = \"keep\"\n";
        lab.apply(&[&split(percent, by), clients].concat());
        let got = count_cubic(lab, client);
        let shown = show();
        assert_eq!((count(&shown, 0, 0, "set"), total(&shown, 0, 0)), (got, got), "{by}");
        let kept = u64::from(CONNECTIONS) - got;
        assert_eq!((count(&shown, 0, 1, "kept"), total(&shown, 0, 1)), (kept, kept), "{by}");
        assert_eq!(total(&shown, 1, 0), u64::from(CONNECTIONS), "the clients");
        let share = got as f64 / f64::from(CONNECTIONS);
        assert_binomial((share * f64::from(draws)).round() as u64, draws, percent / 100.0);
    }
}

/// Whether client and server get `cubic`, for connections that always have the same ports.
fn arms(lab: &crate::lab::policy::PolicyLab) -> Vec<[bool; 2]> {
    const PAIRS: u16 = 2_000;
    lab.inside(|| {
        let listener = listen_at(address("127.0.0.1:4433"), false, None);
        let arm =
            |number: u16| join(([127, 0, 0, 3], 30_000 + number), &listener).algorithms().map(|name| name == "cubic");
        (0..PAIRS).map(arm).collect()
    })
}

#[test]
fn connection_is_in_the_same_arm_in_every_generation() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let rules = |percent: f64| split(percent, "connection").replace("direction = \"in\"\n", "");
    lab.apply(&rules(30.0));
    let first = arms(lab);
    let treated = first.iter().flatten().filter(|&&it| it).count();
    assert_binomial(treated as u64, 2 * first.len() as u32, 0.3);
    lab.apply(&rules(30.0));
    assert!(arms(lab) == first, "the same file again");
    let other = "[[rule]]\nname = \"other\"\nremote_port = 9\nuse = \"bbr\"\n";
    lab.apply(&format!("{other}{}", rules(30.0)));
    assert!(arms(lab) == first, "with a rule before it");
    lab.apply(&rules(60.0));
    let more = arms(lab);
    let lost = first.iter().flatten().zip(more.iter().flatten()).filter(|(before, now)| **before && !**now);
    assert_eq!(lost.count(), 0, "a larger share keeps its connections");
    lab.apply(&rules(30.0).replace("part", "renamed"));
    let renamed = arms(lab);
    let same = first.iter().zip(&renamed).filter(|(before, now)| before == now).count();
    assert!(same < first.len() * 9 / 10, "a rule of another name draws anew: {same}");
    remove();
    lab.apply(&rules(30.0));
    assert!(arms(lab) == first, "after the policy was removed");
}

#[test]
fn tiny_arms_and_four_equal_arms_get_their_share() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(&split(0.01, "connection"));
    let client = |number: u32| SocketAddr::from(([127, 0, 0, 2], 20_000 + number as u16));
    let few = count_cubic(lab, client);
    assert!(few < 12, "{few} of 20000 at 0.01 %");
    let names = ["cubic", "bbr", "reno", "keep"];
    let arms: Vec<String> = names.iter().map(|name| format!("{name} = 25")).collect();
    let rule = "[[rule]]\nname = \"four\"\nnetns = \"ldk_lab\"\ndirection = \"in\"\nsplit = ";
    lab.apply(&format!("{rule}{{ {} }}\n", arms.join(", ")));
    count_cubic(lab, client);
    for arm in 0..names.len() {
        assert_binomial(total(&show(), 0, arm), CONNECTIONS, 0.25);
    }
}
