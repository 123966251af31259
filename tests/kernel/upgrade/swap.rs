//! During upgrades the name stays registered, open connections keep their code, and new ones get the new code.

use tccc::kernel::probe::Features;

use super::*;
use crate::upgrade::by_generation;

const UPGRADES: u32 = 20;
const FLOWS: usize = 110;
const FLOWS_WITH_STORAGE: usize = 12;
/// Exchanges of all connections together between two changes of code, enough for BBR to leave Startup.
const ROUNDS: usize = 400;

/// Repeatedly chooses a name on a new socket until told to stop; returns the number of choices.
///
/// Panics: a choice is refused.
fn choose_until(lab: &PolicyLab, stops: &AtomicBool, name: &str) -> u64 {
    lab.inside(|| {
        let mut choices = 0;
        while !stops.load(Ordering::Relaxed) {
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            choose(&socket, name).unwrap_or_else(|error| panic!("choice {choices}: {error}"));
            choices += 1;
        }
        choices
    })
}

#[test]
fn name_is_never_missing_during_upgrades() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_swap");
    let pairs = (0..FLOWS).map(|_| lab.pair(&Endpoints::choosing("ldk_swap"))).collect();
    let traffic = BackgroundTraffic::begin(pairs);
    let stops = AtomicBool::new(false);
    let choices = std::thread::scope(|scope| {
        let choosing = scope.spawn(|| choose_until(lab, &stops, "ldk_swap"));
        for number in 0..UPGRADES {
            let keep = 900 + number % 2;
            let said = stdout(&run(0, &format!("upgrade ldk_swap --set keep_avoidance={keep}")));
            let [before, now] = [number + 1, number + 2];
            assert!(said.starts_with(&format!("\"ldk_swap\": generation {now} (was {before}): ")), "{said}");
            if number == 0 {
                let new: Vec<SocketPair> = (0..3).map(|_| lab.pair(&Endpoints::choosing("ldk_swap"))).collect();
                assert_eq!(by_generation("ldk_swap"), [(1, 2 * FLOWS as u64), (2, 6)]);
                drop(new);
            }
        }
        stops.store(true, Ordering::Relaxed);
        choosing.join().unwrap()
    });
    let (pairs, carried) = traffic.end();
    println!("{choices} choices, {} MB in {FLOWS} flows, longest round {:?}", carried.bytes >> 20, carried.longest);
    assert!(choices > 1000);
    pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), ["ldk_swap", "ldk_swap"]));
    let codes = || {
        let tables = struct_ops::tables(&Features::probe().unwrap()).unwrap();
        tables.into_iter().filter(|table| table.name == "ldk_swap").count()
    };
    poll_until(SOON, "only code in use stays: the first generation and the last two", || codes() == 3);
    drop(pairs);
    poll_until(SOON, "code is freed with its last socket", || codes() == 2);
    run(0, "unload ldk_swap");
    poll_until(SOON, "no code is left", || codes() == 0);
}

#[test]
fn connections_accepted_after_an_upgrade_get_the_new_code() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_listen");
    let listener = lab.inside(|| listen_at(address("127.0.0.3"), false, Some("ldk_listen")));
    let accept = || lab.inside(|| join(address("127.0.0.1"), &listener));
    let mut before = accept();
    run(0, "upgrade ldk_listen").stdout_has("\nnew code given to 1 listening socket and 0 open connections\n");
    let after = accept();
    assert_eq!(by_generation("ldk_listen"), [(1, 1), (2, 1)]);
    before.exchange(100_000);
    // With `--sockets`, open connections get it too.
    run(0, "upgrade ldk_listen --sockets")
        .stdout_has("\nnew code given to 1 listening socket and 2 open connections\n");
    assert_eq!(by_generation("ldk_listen"), [(2, 0), (3, 2)]);
    before.exchange(100_000);
    run(0, "rollback ldk_listen --sockets")
        .stdout_has("\nnew code given to 1 listening socket and 2 open connections\n");
    assert_eq!(by_generation("ldk_listen"), [(2, 2), (3, 0)]);
    before.exchange(100_000);
    drop((before, after, listener));
    run(0, "unload ldk_listen");
}

#[test]
fn rollback_restores_the_earlier_code_and_a_second_one_undoes_it() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_back --set keep_avoidance=901");
    run(1, "rollback ldk_back").stderr_has("cannot roll back \"ldk_back\": no earlier code is kept");
    run(0, "upgrade ldk_back --set keep_avoidance=902");
    let check = |generation: u64, before: u64, tunable: u64| {
        let instance = instance("ldk_back");
        let numbers =
            [&instance["generation"], &instance["previous_generation"], &instance["tunables"]["keep_avoidance"]];
        assert_eq!(numbers.map(|it| it.as_u64()), [Some(generation), Some(before), Some(tunable)], "{instance}");
        assert_eq!(drift("ldk_back"), [] as [String; 0]);
        let _pair = lab.pair(&Endpoints::choosing("ldk_back"));
        let mut expected = [(generation, 2), (before, 0)];
        expected.sort_unstable();
        assert_eq!(by_generation("ldk_back"), expected);
    };
    check(2, 1, 902);
    assert!(stdout(&run(0, "rollback ldk_back")).starts_with("\"ldk_back\": generation 1 (was 2): "));
    check(1, 2, 901);
    run(0, "rollback ldk_back");
    check(2, 1, 902);
    run(0, "rollback ldk_back");
    run(0, "upgrade ldk_back --set keep_avoidance=903");
    check(3, 1, 903);
    run(0, "rollback ldk_back");
    check(1, 3, 901);
    run(0, "load dtcp --as ldk_back --replace --set keep_avoidance=904");
    check(4, 1, 904);
    run(0, "unload ldk_back");
}

/// Open connections change to other code and back while they send, each with its private storage.
#[test]
fn bbr3_is_upgraded_and_rolled_back_under_traffic() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load bpf_bbr3 --as ldk_bbr3");
    let pairs = (0..FLOWS_WITH_STORAGE).map(|_| lab.pair(&Endpoints::choosing("ldk_bbr3"))).collect();
    let traffic = BackgroundTraffic::begin(pairs);
    let all = 2 * FLOWS_WITH_STORAGE as u64;
    // Linux 6.1 cannot swap code, so its rollback makes another generation.
    for (change, moved) in [
        ("upgrade ldk_bbr3 --set headroom=100", 0),
        ("rollback ldk_bbr3", if Features::probe().unwrap().link_update { all } else { 0 }),
        ("upgrade ldk_bbr3 --sockets --set headroom=100", all),
        ("rollback ldk_bbr3 --sockets", all),
    ] {
        traffic.goes_on(ROUNDS);
        run(0, change);
        let generation = instance("ldk_bbr3")["generation"].as_u64().unwrap();
        let current = by_generation("ldk_bbr3").into_iter().find(|(number, _)| *number == generation);
        assert_eq!(current, Some((generation, moved)), "{change}");
    }
    traffic.goes_on(ROUNDS);
    let (pairs, carried) = traffic.end();
    println!("{} MB, longest round {:?}", carried.bytes >> 20, carried.longest);
    pairs.iter().for_each(|pair| assert_eq!(pair.algorithms(), ["ldk_bbr3", "ldk_bbr3"]));
    drop(pairs);
    run(0, "unload ldk_bbr3");
}

/// Without a new algorithm, tunables are kept. They were once lost silently.
#[test]
fn upgrade_keeps_tunables_unless_the_algorithm_is_given() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_tuned --set keep_avoidance=901 --set keep_timeout=77");
    let tunables = || instance("ldk_tuned")["tunables"].to_string();
    run(0, "upgrade ldk_tuned");
    assert_eq!(tunables(), "{\"keep_avoidance\":901,\"keep_timeout\":77}");
    run(0, "upgrade ldk_tuned --set keep_timeout=78");
    assert_eq!(tunables(), "{\"keep_avoidance\":901,\"keep_timeout\":78}");
    // A setting with spaces was once taken for another tunable, and refused as set twice.
    check(0, tccc().args(["upgrade", "ldk_tuned", "--set", "keep_timeout = 77"]));
    assert_eq!(tunables(), "{\"keep_avoidance\":901,\"keep_timeout\":77}");
    run(0, "upgrade ldk_tuned dtcp --set keep_timeout=79");
    assert_eq!(tunables(), "{\"keep_timeout\":79}");
    run(0, "upgrade ldk_tuned tahoe");
    assert_eq!((tunables(), instance("ldk_tuned")["algorithm"].as_str()), ("{}".into(), Some("tahoe")));
    run(0, "unload ldk_tuned");
}

/// The recorded path of an object file is absolute, so later upgrades find it from another folder.
#[test]
fn object_file_is_found_again_from_another_folder() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, clang);
    compile(lab.folder(), "ldk_file", 0, 10);
    check(0, tccc().args(["load", "ldk_file.bpf.o"]).current_dir(lab.folder()));
    let digest = || instance("ldk_file")["digest"].clone();
    let first = digest();
    let object = compile(lab.folder(), "ldk_file", 0, 20);
    check(0, tccc().args(["upgrade", "ldk_file"]).current_dir("/"));
    assert_ne!(digest(), first);
    run(0, "rollback ldk_file");
    assert_eq!(digest(), first);
    std::fs::rename(&object, lab.folder().join("other.bpf.o")).unwrap();
    run(2, "upgrade ldk_file").stderr_has("ldk_file.bpf.o").stderr_has("no such file");
    check(0, tccc().args(["upgrade", "ldk_file", "other.bpf.o"]).current_dir(lab.folder()));
    assert_ne!(digest(), first);
    assert_eq!(instance("ldk_file")["generation"], 3);
    run(0, "unload ldk_file");
}

#[test]
fn policy_gives_the_new_code_after_an_upgrade() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    lab.apply("[[rule]]\nname = \"all\"\nnetns = \"ldk_lab\"\nuse = \"dtcp\"\n");
    let plain = Endpoints::loopback();
    let before = lab.pair(&plain);
    run(0, "upgrade dtcp --dry-run").stdout_has("; policy generation 1 stays\n");
    run(0, "upgrade dtcp --accept-risk --set keep_avoidance=901");
    let after = lab.pair(&plain);
    assert_eq!(after.algorithms(), ["dtcp", "dtcp"]);
    assert_eq!(by_generation("dtcp"), [(1, 2), (2, 2)]);
    assert_eq!(instance("dtcp")["with_policy"], true);
    // An algorithm that was loaded with the policy is unloaded with it, even after an upgrade.
    remove().stdout_has("\"dtcp\" unloaded");
    drop((before, after));
}
