//! What is registered works, is what was asked, and goes without a trace.

use std::fs;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tccc::catalog;
use tccc::kernel::probe::Features;
use tccc::kernel::{bpf, struct_ops};
use tccc::loader::{self, LoadOptions, Request};

use crate::common::{host_has, patented_object, poll_until};
use crate::lab::sandbox::{assert_nothing_left, available, default, in_sandbox, network, run, status, stderr, stdout};
use crate::lab::trace::Connection;

#[test]
fn loaded_algorithm_carries_traffic_and_goes() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_go");
        let network = network();
        let mut connection = Connection::open(&network, "ldk_go");
        connection.transfer();
        assert_eq!(connection.algorithm(), "ldk_go");
        let unloaded = run(0, "unload ldk_go");
        unloaded.stdout_has(format!("{}", std::process::id()));
        let note = "note: 1 socket still with \"ldk_go\" until closed";
        unloaded.stderr_has(note);
        assert!(!available().contains(&"ldk_go".to_owned()));
        connection.transfer(); // the socket keeps the code
        assert_eq!(connection.algorithm(), "ldk_go");
    });
}

#[test]
fn patented_algorithm_is_loaded_with_a_note() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let folder = tempfile::tempdir().unwrap();
        let object = patented_object(folder.path());
        run(0, &format!("load {} --as ldk_owned --dry-run", object.display()))
            .stderr_has("note: \"ldk_owned\" is patented, for research alone: 1. The text says");
        let as_default = format!("load {} --as ldk_owned --default --dry-run", object.display());
        run(2, &format!("{as_default} --confirm 10m"))
            .stderr_has("cannot make \"ldk_owned\" the default: it is patented, for research alone");
        run(0, &format!("{as_default} --accept-risk"));
        run(0, "load dtcp --as ldk_owned --dry-run").stderr_lacks("patented");
    });
}

#[test]
fn drain_waits_until_sockets_close() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_drain");
        let network = network();
        let connection = Connection::open(&network, "ldk_drain");
        std::thread::scope(|scope| {
            let unload = scope.spawn(|| run(0, "unload ldk_drain --drain 30s"));
            poll_until(std::time::Duration::from_secs(20), "it is unregistered", || {
                !available().contains(&"ldk_drain".to_owned())
            });
            drop(connection);
            let said = stderr(&unload.join().unwrap());
            assert!(said.contains("waiting up to 30s for sockets to close"), "{said}");
            assert!(!said.contains("until closed"), "{said}");
        });
        run(0, "load dtcp --as ldk_drain");
        let connection = Connection::open(&network, "ldk_drain");
        run(1, "unload ldk_drain --drain 200ms")
            .stderr_has("time ran out after 200ms: 1 socket still with \"ldk_drain\"");
        drop(connection);
    });
}

#[test]
fn two_names_of_one_algorithm_have_their_own_tunables() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_mild --set keep_avoidance=900");
        run(0, "load dtcp --as ldk_hard --set keep_avoidance=400 --set keep_timeout=77");
        let instances = status();
        let tunables: Vec<_> = instances.iter().map(|it| (it["name"].as_str().unwrap(), &it["tunables"])).collect();
        assert_eq!(tunables[0].0, "ldk_hard");
        assert_eq!(*tunables[0].1, serde_json::json!({"keep_avoidance": 400, "keep_timeout": 77}));
        assert_eq!(*tunables[1].1, serde_json::json!({"keep_avoidance": 900}));
        assert_eq!(in_kernel("ldk_mild"), [512, 900, 512]);
        let shown = run(0, "show ldk_mild");
        shown.stderr_has("\"ldk_mild\" is \"dtcp\" loaded under another name");
        assert!(stdout(&shown).starts_with("dtcp: "), "{}", stdout(&shown));
        assert_eq!(in_kernel("ldk_hard"), [512, 400, 77]);
        run(0, "unload --all");
    });
}

/// Values of dtcp's tunables in the read-only data that the registered programs use.
fn in_kernel(name: &str) -> [i128; 3] {
    let features = Features::probe().unwrap();
    let tables = struct_ops::tables(&features).unwrap();
    // The kernel also has the code that a replacement keeps, under the same name.
    let link = bpf::open_pin(format!("/sys/fs/bpf/tccc/links/{name}").as_ref()).unwrap();
    let registered = struct_ops::link_target(&link).unwrap().map_id;
    let table = tables.iter().find(|table| table.map_id == registered).unwrap();
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut programs = ProgInfoIter::with_query_opts(options);
    let program = programs.find(|program| program.id == table.programs["ssthresh"]).unwrap();
    let maps = program.map_ids.iter().map(|&id| MapHandle::from_map_id(id).unwrap());
    let rodata = maps.into_iter().find(|map| map.name().to_string_lossy().ends_with(".rodata")).unwrap();
    let bytes = rodata.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let tunables = &catalog::find("dtcp").unwrap().tunables;
    let names = ["keep_slow_start", "keep_avoidance", "keep_timeout"];
    names.map(|name| tunables.iter().find(|tunable| tunable.name == name).unwrap().value_in(&bytes).unwrap())
}

#[test]
fn replace_gives_new_sockets_the_new_code() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_swap");
        let network = network();
        let mut earlier = Connection::open(&network, "ldk_swap");
        run(1, "load dtcp --as ldk_swap").stderr_has("\"ldk_swap\" is loaded already");
        run(0, "load dtcp --as ldk_swap --replace --set keep_avoidance=901");
        assert_eq!(status()[0]["generation"], 2);
        earlier.transfer();
        Connection::open(&network, "ldk_swap").transfer();
        drop(earlier);
        assert_eq!(in_kernel("ldk_swap")[1], 901);
        run(0, "unload ldk_swap");
    });
}

#[test]
fn default_is_remembered_and_restored() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let before = default();
        run(0, "load dtcp --as ldk_one --default");
        assert_eq!(default(), "ldk_one");
        run(0, "load dtcp --as ldk_two --default");
        assert_eq!(default(), "ldk_two");
        run(0, "unload ldk_one"); // who came later remembers what was before the first
        run(0, "unload ldk_two");
        assert_eq!(default(), before);
    });
}

/// Whoever chose nothing got it, whatever it did to the neighbours.
#[test]
fn high_risk_needs_acceptance_wherever_connections_get_it_unasked() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let before = default();
        let tuned = "--set keep_avoidance=896"; // nobody measured that
        let refused = |verb: &str| {
            run(2, verb).stderr_has("its risk is not measured, which counts as high: ");
        };
        run(0, &format!("load dtcp --as ldk_risk {tuned}")); // programs that want it choose it
        run(0, "unload ldk_risk");
        refused(&format!("load dtcp --as ldk_risk --default {tuned}"));
        assert!(!available().contains(&"ldk_risk".to_owned()) && default() == before);
        run(0, &format!("load dtcp --as ldk_risk --default --accept-risk {tuned}"))
            .stderr_has("note: risk of \"ldk_risk\": ");
        assert_eq!(default(), "ldk_risk");
        refused(&format!("load dtcp --as ldk_risk --replace {tuned}"));
        refused(&format!("upgrade ldk_risk {tuned}"));
        refused("upgrade ldk_risk --dry-run");
        run(0, "upgrade ldk_risk --accept-risk");
        run(0, "unload ldk_risk");
        assert_eq!(default(), before);
    });
}

#[test]
fn default_that_somebody_changed_since_is_left() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let before = default();
        run(0, "load dtcp --as ldk_left --default");
        fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
        let drift = status()[0]["drift"].to_string();
        assert!(drift.contains("it was made the default, which now is \\\"reno\\\""), "{drift}");
        run(0, "unload ldk_left").stderr_has("the default was changed to \"reno\" since, and is left so");
        assert_eq!(default(), "reno");
        fs::write("/proc/sys/net/ipv4/tcp_congestion_control", before).unwrap();
    });
}

#[test]
fn lost_records_are_made_up_for_by_pins() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_lost");
        fs::remove_dir_all("/run/tccc").unwrap();
        let instance = &status()[0];
        assert_eq!((instance["name"].as_str(), instance["algorithm"].as_str()), (Some("ldk_lost"), Some("dtcp")));
        assert_eq!(instance["standing"], "pinned");
        run(0, "unload ldk_lost");
    });
}

#[test]
fn dry_runs_change_nothing() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        run(0, "load dtcp --as ldk_dry --default --dry-run")
            .stdout_has("register \"ldk_dry\" with the kernel and pin it at /sys/fs/bpf/tccc/links/ldk_dry")
            .stdout_has("set net.ipv4.tcp_congestion_control from");
        assert_nothing_left();
        run(0, "load dtcp --as ldk_dry");
        run(0, "unload ldk_dry --dry-run").stdout_has("remove the pin /sys/fs/bpf/tccc/links/ldk_dry");
        assert!(available().contains(&"ldk_dry".to_owned()));
        run(0, "unload ldk_dry");
    });
}

#[test]
fn kernel_without_links_registers_by_the_map() {
    in_sandbox(host_has!(root, struct_ops, bpffs), || {
        let features = Features { links: false, link_update: false, ..Features::probe().unwrap() };
        let request = Request { name: "ldk_map", ..Request::of(catalog::find("dtcp").unwrap()) };
        loader::load(&request, LoadOptions::default(), &features).unwrap();
        let table = struct_ops::tables(&features).unwrap();
        assert!(!table.iter().find(|table| table.name == "ldk_map").unwrap().by_link);
        let mut connection = Connection::open(&network(), "ldk_map");
        connection.transfer();
        assert_eq!(status()[0]["standing"], "pinned");
        let replace = LoadOptions { replace: true, ..LoadOptions::default() };
        let refusal = loader::load(&request, replace, &features).unwrap_err().to_string();
        assert_eq!(refusal, "cannot replace \"ldk_map\": this kernel cannot swap code under a registered name");
        run(0, "unload ldk_map");
        assert_eq!(connection.algorithm(), "ldk_map");
        let run = loader::register(&request, &features).unwrap();
        assert_eq!((run.name(), status()[0]["standing"].as_str()), ("ldk_map", Some("run")));
        drop(run);
    });
}
