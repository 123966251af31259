//! Registered algorithms carry traffic, have the tunables that were set, and are removed completely.

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tccc::gate;
use tccc::kernel::struct_ops;

use super::*;

#[test]
fn loaded_algorithm_carries_traffic_and_is_unloaded() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_go");
    let network = loopback_netns();
    let mut connection = HeldConnection::open(&network, "ldk_go");
    connection.send(1 << 20);
    assert_eq!(algorithm_of(&connection.client), "ldk_go");
    run(0, "unload ldk_go")
        .stdout_has(std::process::id().to_string())
        .stderr_has("note: 1 socket still with \"ldk_go\" until closed");
    assert!(!is_available("ldk_go"));
    connection.send(1 << 20); // the socket keeps the code
    assert_eq!(algorithm_of(&connection.client), "ldk_go");
}

#[test]
fn patented_algorithm_is_loaded_with_a_note() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let folder = tempfile::tempdir().unwrap();
    let object = patented_object(folder.path());
    run(0, &format!("load {} --as ldk_owned --dry-run", object.display()))
        .stderr_has("note: \"ldk_owned\" is patented, for research only: 1. The text says");
    let as_default = format!("load {} --as ldk_owned --default --dry-run", object.display());
    run(2, &format!("{as_default} --confirm 10m"))
        .stderr_has("cannot make \"ldk_owned\" the default: it is patented, for research only");
    run(0, &format!("{as_default} --accept-risk"));
    run(0, "load dtcp --as ldk_owned --dry-run").stderr_lacks("patented");
}

#[test]
fn drain_waits_until_sockets_close() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_drain");
    let network = loopback_netns();
    let connection = HeldConnection::open(&network, "ldk_drain");
    std::thread::scope(|scope| {
        let unload = scope.spawn(|| run(0, "unload ldk_drain --drain 30s"));
        poll_until(SOON, "the name is unregistered", || !is_available("ldk_drain"));
        drop(connection);
        unload.join().unwrap().stderr_has("waiting up to 30s for sockets to close").stderr_lacks("until closed");
    });
    run(0, "load dtcp --as ldk_drain");
    let connection = HeldConnection::open(&network, "ldk_drain");
    run(1, "unload ldk_drain --drain 200ms").stderr_has("time ran out after 200ms: 1 socket still with \"ldk_drain\"");
    drop(connection);
}

#[test]
fn two_names_of_one_algorithm_have_their_own_tunables() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_mild --set keep_avoidance=900");
    run(0, "load dtcp --as ldk_hard --set keep_avoidance=400 --set keep_timeout=77");
    let names: Vec<String> = status().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["ldk_hard", "ldk_mild"], "sorted by name");
    assert_eq!(instance("ldk_hard")["tunables"], serde_json::json!({"keep_avoidance": 400, "keep_timeout": 77}));
    assert_eq!(instance("ldk_mild")["tunables"], serde_json::json!({"keep_avoidance": 900}));
    assert_eq!(in_kernel("ldk_mild"), [512, 900, 512]);
    let shown = run(0, "show ldk_mild");
    shown.stderr_has("\"ldk_mild\" is \"dtcp\" loaded under another name");
    assert!(shown.stdout().starts_with("dtcp: "), "{}", shown.stdout());
    assert_eq!(in_kernel("ldk_hard"), [512, 400, 77]);
    run(0, "unload --all");
}

/// Values of dtcp's tunables in the read-only data of the registered programs.
fn in_kernel(name: &str) -> [i128; 3] {
    let features = Features::probe().unwrap();
    let tables = struct_ops::tables(&features).unwrap();
    // The kernel may also hold earlier code under the same name.
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
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_swap");
    let network = loopback_netns();
    let mut earlier = HeldConnection::open(&network, "ldk_swap");
    run(1, "load dtcp --as ldk_swap").stderr_has("\"ldk_swap\" is loaded already");
    run(0, "load dtcp --as ldk_swap --replace --set keep_avoidance=901");
    assert_eq!(status()[0]["generation"], 2);
    earlier.send(1 << 20);
    HeldConnection::open(&network, "ldk_swap").send(1 << 20);
    drop(earlier);
    assert_eq!(in_kernel("ldk_swap")[1], 901);
    run(0, "unload ldk_swap");
}

#[test]
fn default_is_restored_unless_another_program_changed_it() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = default();
    run(0, "load dtcp --as ldk_one --default");
    assert_eq!(default(), "ldk_one");
    run(0, "load dtcp --as ldk_two --default");
    assert_eq!(default(), "ldk_two");
    run(0, "unload ldk_one"); // the later load takes over the original default
    run(0, "unload ldk_two");
    assert_eq!(default(), before);
    run(0, "load dtcp --as ldk_left --default");
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
    assert!(drift("ldk_left")[0].contains("it was made the default, but the default is now \"reno\""));
    run(0, "unload ldk_left").stderr_has("the default has since been changed to \"reno\", and stays");
    assert_eq!(default(), "reno");
    fs::write("/proc/sys/net/ipv4/tcp_congestion_control", before).unwrap();
}

/// Connections that chose no algorithm once got a risky one without acceptance.
#[test]
fn high_risk_needs_acceptance_for_connections_that_choose_nothing() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let before = default();
    let tuned = "--set keep_avoidance=896"; // the risk of this value is not measured
    let refused = |verb: &str| _ = run(2, verb).stderr_has("its risk is not measured, which counts as high: ");
    run(0, &format!("load dtcp --as ldk_risk {tuned}")); // only programs that choose it get it
    run(0, "unload ldk_risk");
    refused(&format!("load dtcp --as ldk_risk --default {tuned}"));
    assert!(!is_available("ldk_risk") && default() == before);
    run(0, &format!("load dtcp --as ldk_risk --default --accept-risk {tuned}"))
        .stderr_has("note: risk of \"ldk_risk\": ");
    assert_eq!(default(), "ldk_risk");
    refused(&format!("load dtcp --as ldk_risk --replace {tuned}"));
    refused(&format!("upgrade ldk_risk {tuned}"));
    refused("upgrade ldk_risk --dry-run");
    run(0, "upgrade ldk_risk --accept-risk");
    run(0, "unload ldk_risk");
    assert_eq!(default(), before);
}

#[test]
fn lost_records_are_replaced_by_what_the_pins_show() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_lost");
    fs::remove_dir_all("/run/tccc").unwrap();
    let instance = &status()[0];
    assert_eq!((instance["name"].as_str(), instance["algorithm"].as_str()), (Some("ldk_lost"), Some("dtcp")));
    assert_eq!(instance["standing"], "pinned");
    run(0, "unload ldk_lost");
}

#[test]
fn dry_runs_change_nothing() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_dry --default --dry-run")
        .stdout_has("register \"ldk_dry\" with the kernel and pin it at /sys/fs/bpf/tccc/links/ldk_dry")
        .stdout_has("set net.ipv4.tcp_congestion_control from");
    assert_nothing_left();
    run(0, "load dtcp --as ldk_dry");
    run(0, "unload ldk_dry --dry-run").stdout_has("remove the pin /sys/fs/bpf/tccc/links/ldk_dry");
    assert!(is_available("ldk_dry"));
    run(0, "unload ldk_dry");
}

#[test]
fn kernel_without_links_registers_by_the_map() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs);
    let (features, request) = (without_links(), dtcp_as("ldk_map"));
    gate::load(&request, LoadOptions::default(), &features).unwrap();
    let table = struct_ops::tables(&features).unwrap();
    assert!(!table.iter().find(|table| table.name == "ldk_map").unwrap().by_link);
    let network = loopback_netns();
    let mut connection = HeldConnection::open(&network, "ldk_map");
    connection.send(1 << 20);
    assert_eq!(status()[0]["standing"], "pinned");
    let replace = LoadOptions { replace: true, ..LoadOptions::default() };
    let refusal = gate::load(&request, replace, &features).unwrap_err().to_string();
    assert_eq!(refusal, "cannot replace \"ldk_map\": this kernel cannot swap code under a registered name");
    run(0, "unload ldk_map");
    assert_eq!(algorithm_of(&connection.client), "ldk_map");
    let run = loader::register(&request, &features).unwrap();
    assert_eq!((run.name(), status()[0]["standing"].as_str()), ("ldk_map", Some("run")));
    drop(run);
}
