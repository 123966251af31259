//! The name is there at every moment, open connections keep their code and their bytes, new ones get the new code.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use tccc::kernel::probe::Features;
use tccc::kernel::struct_ops;

use crate::common::{host_has, poll_until, tccc};
use crate::lab::policy::object::compile;
use crate::lab::policy::pair::{address, choose, join, listen_at};
use crate::lab::policy::traffic::Traffic;
use crate::lab::policy::{Ends, Lab, Pair, SOON, remove, with_lab};
use crate::lab::sandbox::{check, instance, run, stdout};
use crate::upgrade::by_generation;

const UPGRADES: u32 = 20;
const FLOWS: usize = 110;

/// Both ends choose the algorithm themselves.
fn ends(name: &'static str) -> Ends {
    Ends { client: Some(name), listener: Some(name), ..Ends::new("127.0.0.1", "127.0.0.2") }
}

/// Chooses a name on a fresh socket again and again; how often.
///
/// Panics: when it is refused once.
fn choose_until(lab: &Lab, stops: &AtomicBool, name: &str) -> u64 {
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
fn name_is_never_missing_while_flows_go_on() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        run(0, "load dtcp --as ldk_swap");
        let pairs = (0..FLOWS).map(|_| lab.pair(&ends("ldk_swap"))).collect();
        let traffic = Traffic::begin(pairs);
        let stops = AtomicBool::new(false);
        let choices = std::thread::scope(|scope| {
            let choosing = scope.spawn(|| choose_until(lab, &stops, "ldk_swap"));
            for number in 0..UPGRADES {
                let keep = 900 + number % 2;
                let said = stdout(&run(0, &format!("upgrade ldk_swap --set keep_avoidance={keep}")));
                let [before, now] = [number + 1, number + 2];
                assert!(said.starts_with(&format!("\"ldk_swap\": generation {now} (was {before}): ")), "{said}");
                if number == 0 {
                    let new: Vec<Pair> = (0..3).map(|_| lab.pair(&ends("ldk_swap"))).collect();
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
        poll_until(SOON, "only the code in use stays: of the first, the last two", || codes() == 3);
        drop(pairs);
        poll_until(SOON, "code goes with its last socket", || codes() == 2);
        run(0, "unload ldk_swap");
        poll_until(SOON, "no code is left", || codes() == 0);
    });
}

#[test]
fn listener_gives_the_new_code_to_what_it_accepts() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        run(0, "load dtcp --as ldk_listen");
        let listener = lab.inside(|| listen_at(address("127.0.0.3"), false, Some("ldk_listen")));
        let accept = || lab.inside(|| join(address("127.0.0.1"), &listener));
        let mut before = accept();
        run(0, "upgrade ldk_listen").stdout_has("\n1 listening sockets and 0 open connections have it now\n");
        let after = accept();
        assert_eq!(by_generation("ldk_listen"), [(1, 1), (2, 1)]);
        before.exchange(100_000);
        // Open connections too, where that is asked for.
        run(0, "upgrade ldk_listen --sockets").stdout_has("\n1 listening sockets and 2 open connections have it now\n");
        assert_eq!(by_generation("ldk_listen"), [(2, 0), (3, 2)]);
        before.exchange(100_000);
        run(0, "rollback ldk_listen --sockets")
            .stdout_has("\n1 listening sockets and 2 open connections have it now\n");
        assert_eq!(by_generation("ldk_listen"), [(2, 2), (3, 0)]);
        before.exchange(100_000);
        drop((before, after, listener));
        run(0, "unload ldk_listen");
    });
}

#[test]
fn rollback_puts_the_code_before_back_and_a_second_one_undoes_it() {
    with_lab(host_has!(root, struct_ops, bpffs), |lab| {
        run(0, "load dtcp --as ldk_back --set keep_avoidance=901");
        run(1, "rollback ldk_back").stderr_has("cannot roll back \"ldk_back\": no earlier code is kept");
        run(0, "upgrade ldk_back --set keep_avoidance=902");
        let check = |generation: u64, before: u64, tunable: u64| {
            let instance = instance("ldk_back");
            let numbers =
                [&instance["generation"], &instance["previous_generation"], &instance["tunables"]["keep_avoidance"]];
            assert_eq!(numbers.map(|it| it.as_u64()), [Some(generation), Some(before), Some(tunable)], "{instance}");
            assert_eq!(instance["drift"].as_array().map(Vec::len), Some(0), "{instance}");
            let pair = lab.pair(&ends("ldk_back"));
            let expected =
                if generation < before { [(generation, 2), (before, 0)] } else { [(before, 0), (generation, 2)] };
            assert_eq!(by_generation("ldk_back"), expected);
            drop(pair);
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
    });
}

/// Without another algorithm the tunables stay; they once were forgotten without a word.
#[test]
fn upgrade_keeps_tunables_unless_the_algorithm_is_given() {
    with_lab(host_has!(root, struct_ops, bpffs), |_| {
        run(0, "load dtcp --as ldk_tuned --set keep_avoidance=901 --set keep_timeout=77");
        let tunables = || instance("ldk_tuned")["tunables"].to_string();
        run(0, "upgrade ldk_tuned");
        assert_eq!(tunables(), "{\"keep_avoidance\":901,\"keep_timeout\":77}");
        run(0, "upgrade ldk_tuned --set keep_timeout=78");
        assert_eq!(tunables(), "{\"keep_avoidance\":901,\"keep_timeout\":78}");
        run(0, "upgrade ldk_tuned dtcp --set keep_timeout=79");
        assert_eq!(tunables(), "{\"keep_timeout\":79}");
        run(0, "upgrade ldk_tuned tahoe");
        assert_eq!((tunables(), instance("ldk_tuned")["algorithm"].as_str()), ("{}".into(), Some("tahoe")));
        run(0, "unload ldk_tuned");
    });
}

/// The path of an object file means the same to whoever upgrades later from another folder.
#[test]
fn object_file_is_found_again_from_anywhere() {
    with_lab(host_has!(root, struct_ops, bpffs, clang), |lab| {
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
    });
}

#[test]
fn policy_gives_the_new_code_after_an_upgrade() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        lab.apply("[[rule]]\nname = \"all\"\nnetns = \"ldk_lab\"\nuse = \"dtcp\"\n");
        let plain = Ends::new("127.0.0.1", "127.0.0.2");
        let before = lab.pair(&plain);
        run(0, "upgrade dtcp --dry-run").stdout_has("; policy generation 1 stays\n");
        run(0, "upgrade dtcp --accept-risk --set keep_avoidance=901");
        let after = lab.pair(&plain);
        assert_eq!(after.algorithms(), ["dtcp", "dtcp"]);
        assert_eq!(by_generation("dtcp"), [(1, 2), (2, 2)]);
        assert_eq!(instance("dtcp")["with_policy"], true);
        // What was loaded with the policy goes with it, whatever became of its code.
        remove().stdout_has("\"dtcp\" unloaded");
        drop((before, after));
    });
}
