//! Services that restart: the policy knows the id of each new cgroup before a process is in it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::*;

const UNIT: &str = "ldk_tccc.service";
const RULE: &str = "[[rule]]\nname = \"unit\"\nunit = \"ldk_tccc.service\"\nuse = \"cubic\"\n";

/// The map of cgroups of the deciding generation.
fn known() -> MapHandle {
    let number = show()["generation"].as_u64().expect("a policy decides");
    MapHandle::from_pinned_path(format!("/sys/fs/bpf/tccc/policy/v2/generations/{number}/cgroups")).unwrap()
}

fn known_ids() -> BTreeSet<u64> {
    known().keys().map(|key| u64::from_ne_bytes(key.try_into().unwrap())).collect()
}

#[test]
fn hundred_restarts_miss_no_rule_and_leave_no_id() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(RULE);
    let begin = known_ids();
    let slice = TestCgroup::create("/ldk_tccc.slice");
    for start in 0..100 {
        // Removed by hand, so that the name is free again at once.
        let worker = TestCgroup::create(&format!("/ldk_tccc.slice/{UNIT}/worker"));
        let pair = worker.inside(|| lab.plain());
        assert_eq!(pair.algorithms(), ["cubic", "cubic"], "start {start}");
        std::mem::forget(worker);
        drop(pair);
        group::remove(&slice.path().join(UNIT));
    }
    assert_eq!(count(&show(), 0, 0, "set"), 200);
    poll_until(SOON, "ids of cgroups that are gone are forgotten", || known_ids() == begin);
    assert_eq!(show()["counts"]["missed_cgroups"], 0);
}

/// The parts of a path are created after the policy, and in another order than the rule names them.
#[test]
fn path_that_is_created_after_the_policy_matches() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply("[[rule]]\nname = \"deep\"\ncgroup = [\"/ldk_tccc/a/b\", \"/ldk_tccc/a\"]\nuse = \"cubic\"\n");
    let hits = |group: &TestCgroup| group.inside(|| lab.algorithms("127.0.0.1", "127.0.0.1"))[0] == "cubic";
    for _ in 0..2 {
        let root = TestCgroup::create("/ldk_tccc");
        assert!(!hits(&root));
        for (path, expected) in [("b", false), ("b/a", false), ("a", true), ("a/c", true), ("a/b", true)] {
            let group = TestCgroup::create(&format!("/ldk_tccc/{path}"));
            assert_eq!(hits(&group), expected, "{path}");
            std::mem::forget(group);
        }
    }
}

/// Names are compared up to the longest name that a rule can have.
#[test]
fn longer_name_with_the_same_beginning_does_not_match() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    let name = format!("ldk_tccc_{}.service", "x".repeat(110));
    assert_eq!(name.len(), 127);
    let rule = |name: &str| format!("[[rule]]\nname = \"long\"\nunit = \"{name}\"\nuse = \"cubic\"\n");
    lab.policy(2, "check", &rule(&name.replace("ldk", "ldkk")));
    let hits = |group: &TestCgroup| group.inside(|| lab.algorithms("127.0.0.1", "127.0.0.1"))[0] == "cubic";
    for is_made_before in [true, false] {
        if !is_made_before {
            lab.apply(&rule(&name));
        }
        let [same, longer] = [name.clone(), format!("{name}x")].map(|name| TestCgroup::create(&format!("/{name}")));
        if is_made_before {
            lab.apply(&rule(&name));
        }
        assert_eq!([hits(&same), hits(&longer)], [true, false], "made before: {is_made_before}");
        remove();
    }
}

#[test]
fn cgroups_beyond_the_size_of_the_map_are_counted() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(RULE);
    let known = known();
    let is_full = (1u64..1 << 20).any(|n| {
        let key = (u64::MAX - n).to_ne_bytes();
        known.update(&key, &[0; 16], MapFlags::ANY).is_err()
    });
    assert!(is_full, "the map has room for a million cgroups");
    let group = TestCgroup::create(&format!("/{UNIT}"));
    assert_eq!(group.inside(|| lab.algorithms("127.0.0.1", "127.0.0.1")), ["reno", "reno"]);
    assert_eq!(show()["counts"]["missed_cgroups"], 1);
    run(0, "policy show").stdout_has("\n1 cgroups did not fit in the table: rules by cgroup did not match in them");
    // The next generation has a new map.
    lab.apply(RULE);
    assert_eq!(group.inside(|| lab.algorithms("127.0.0.1", "127.0.0.1")), ["cubic", "cubic"]);
}

/// Starts [`restless_service`] in a process of its own, in the lab's namespace. It ends when its input is closed.
fn restless(lab: &PolicyLab) -> Child {
    let netns = lab.netns.try_clone().unwrap();
    let mut command = test_alone(module_path!(), "restless_service");
    command.arg("--nocapture");
    command.env("LDK_SERVICE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || netns.enter_for_good()) };
    command.spawn().unwrap()
}

#[test]
fn service_that_restarts_while_policies_are_applied_never_misses_its_rule() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2);
    lab.apply(RULE);
    let begin = known_ids();
    let slice = TestCgroup::create("/ldk_tccc.slice");
    let mut service = restless(lab);
    let other = "[[rule]]\nname = \"other\"\nremote_port = 9\nuse = \"bbr\"\n";
    let others = format!("{other}{}", RULE.replace("cubic", "bbr"));
    (0..12).for_each(|apply| drop(lab.apply(if apply % 2 == 0 { RULE } else { &others })));
    drop(service.stdin.take());
    let mut said = String::new();
    service.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(service.wait().unwrap().success(), "{said}");
    let starts = said.lines().find_map(|line| line.strip_prefix("starts: ")).expect("the service reports its starts");
    println!("{starts} starts");
    assert!(starts.parse::<u32>().unwrap() > 20, "{starts}");
    poll_until(SOON, "ids of cgroups that are gone are forgotten", || known_ids() == begin);
    remove();
    drop(slice);
}

#[test]
#[ignore = "started by the test above"]
fn restless_service() {
    if std::env::var_os("LDK_SERVICE").is_none() {
        return;
    }
    let (closed, is_closed) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        closed.send(()).unwrap();
    });
    let slice = cgroup::mount_point().unwrap().join("ldk_tccc.slice");
    let listener = TcpListener::bind("127.0.0.9:0").unwrap();
    let mut starts = 0;
    while is_closed.try_recv().is_err() {
        let unit = slice.join(UNIT);
        std::fs::create_dir(&unit).unwrap();
        group::join(&unit);
        let pair = join(address("127.0.0.1"), &listener);
        group::join(&slice);
        let [client, _] = pair.algorithms();
        assert!(client == "cubic" || client == "bbr", "start {starts}: {client}");
        drop(pair);
        remove_soon(&unit);
        starts += 1;
    }
    group::join(&cgroup::mount_point().unwrap());
    writeln!(std::io::stdout(), "starts: {starts}").unwrap();
}

fn remove_soon(unit: &Path) {
    poll_until(SOON, "the service's cgroup is empty", || std::fs::remove_dir(unit).is_ok());
}
