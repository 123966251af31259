//! bpftool beside tccc: it registers the objects of the package, and shows every part of what tccc loads.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{host_has, poll_until, tccc};
use crate::lab::policy::with_lab;
use crate::lab::sandbox::{available, check, in_sandbox, network, run, stdout};
use crate::lab::trace::Connection;
use crate::load::refused::compile;
use libbpf_rs::{MapCore as _, ObjectBuilder};
use serde_json::Value;
use tccc::catalog;

/// How long the tracer may take to begin.
const SOON: Duration = Duration::from_secs(30);

/// What bpftool shows as JSON.
fn shown(words: &str) -> Value {
    let output = check(0, Command::new("bpftool").arg("-j").args(words.split_whitespace()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// The names in a list of bpftool, by number.
fn names(what: &str) -> BTreeSet<(u64, String)> {
    let list = shown(&format!("{what} show"));
    let entries = list.as_array().cloned().unwrap_or_default();
    let named = entries.iter().filter_map(|entry| Some((entry["id"].as_u64()?, entry["name"].as_str()?.to_owned())));
    named.collect()
}

fn foreign() -> Vec<Value> {
    let status: Value = run(0, "status -o json").json();
    status["foreign"].as_array().unwrap().clone()
}

#[test]
fn bpftool_registers_every_object_of_the_package() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang, bpftool), || {
        let folder = tempfile::tempdir().unwrap();
        check(0, tccc().arg("assets").arg(folder.path()));
        let taken = available();
        for algorithm in catalog::all().iter().filter(|algorithm| !taken.contains(&algorithm.id)) {
            let id = &algorithm.id;
            let object = folder.path().join(format!("objects/{id}.bpf.o"));
            let said = stdout(&check(0, Command::new("bpftool").args(["struct_ops", "register"]).arg(object)));
            assert!(available().contains(id), "{id}: {said}");
            Connection::open(&network(), id).transfer();
            let others = foreign();
            let found = others.iter().find(|other| other["name"] == id.as_str()).unwrap();
            let words: Vec<&str> = found["remove"].as_str().unwrap().split(' ').collect();
            assert_eq!(words[..4], ["bpftool", "struct_ops", "unregister", "id"], "{found}");
            let table = stdout(&run(0, "status"));
            let line = format!("registered by others: \"{id}\" (map {}", found["map_id"]);
            assert!(table.contains(&line) && table.contains(&words.join(" ")), "{table}");
            check(0, Command::new(words[0]).args(&words[1..]));
            assert!(!available().contains(id), "{id} is still registered");
            assert!(foreign().iter().all(|other| other["name"] != id.as_str()), "{id} is still listed");
        }
    });
}

/// A program of others that registers by a link, as scx or a test of the kernel does.
#[test]
fn link_of_another_program_is_detached_as_status_says() {
    in_sandbox(host_has!(root, struct_ops, bpffs, clang, bpftool), || {
        let folder = tempfile::tempdir().unwrap();
        let object = compile(folder.path(), "", "", "");
        let mut loaded = ObjectBuilder::default().open_file(object).unwrap().load().unwrap();
        let _link = loaded.maps_mut().find(|map| map.name() == "ldk_small").unwrap().attach_struct_ops().unwrap();
        let others = foreign();
        let found = others.iter().find(|other| other["name"] == "ldk_small").unwrap();
        assert_eq!(found["pid"], std::process::id(), "{found}");
        let words: Vec<&str> = found["remove"].as_str().unwrap().split(' ').collect();
        assert_eq!(words, ["bpftool", "link", "detach", "id", &found["link_id"].to_string()]);
        check(0, Command::new(words[0]).args(&words[1..]));
        assert!(!available().iter().any(|name| name == "ldk_small"), "it is still registered");
        assert!(foreign().iter().all(|other| other["name"] != "ldk_small"), "it is still listed");
    });
}

#[test]
fn bpftool_shows_every_part_of_a_load() {
    in_sandbox(host_has!(root, struct_ops, bpffs, bpftool), || {
        let before = ["map", "prog"].map(names);
        run(0, "load dtcp --as ldk_bpftool");
        assert!(foreign().iter().all(|other| other["name"] != "ldk_bpftool"), "it counts as foreign");
        let after = ["map", "prog"].map(names);
        let new = |n: usize| after[n].difference(&before[n]).map(|(_, name)| name.clone()).collect::<BTreeSet<_>>();
        let (maps, programs) = (new(0), new(1));
        assert!(maps.contains("dtcp") && maps.contains("dtcp.rodata"), "{maps:?}");
        for callback in &catalog::find("dtcp").unwrap().callbacks {
            // Newer versions of bpftool show what the kernel's name cuts off.
            let is_there = programs.iter().any(|name| callback.program.starts_with(name.as_str()));
            assert!(is_there || callback.member == "cwnd_event_tx_start", "{callback:?} is not in {programs:?}");
        }
        let id = after[0].difference(&before[0]).find(|(_, name)| name == "dtcp").unwrap().0;
        // What it prints for one table as JSON is no JSON.
        let dump = ["struct_ops", "dump", "id", &id.to_string()];
        check(0, Command::new("bpftool").args(dump)).stdout_has("ldk_bpftool").stdout_has("dtcp_cong_avoid/prog_id:");
        let table = shown("struct_ops show").to_string();
        assert!(table.contains(&format!("\"id\":{id}")), "{table}");
        let links = shown("link show");
        let links = links.as_array().unwrap();
        let is_ours =
            |link: &&Value| link["type"] == "struct_ops" || link["type"] == "unspec" || link["type"].is_number();
        assert!(links.iter().any(|link| is_ours(&link)), "{links:?}");
        run(0, "unload ldk_bpftool");
    });
}

/// Every program and map that appears says whose it is.
#[test]
fn names_of_policy_and_tracer_say_whose_they_are() {
    with_lab(host_has!(root, btf, bpffs, cgroup2, bpftool), |lab| {
        let before = ["map", "prog"].map(names);
        lab.apply("[[rule]]\nname = \"all\"\nuse = \"bbr\"\n");
        let mut trace = tccc();
        trace.args(["trace", "--duration", "60s", "-o", "jsonl"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut trace = trace.spawn().unwrap();
        let is_traced = || names("prog").iter().any(|(_, name)| name == "tccc_retransmit");
        poll_until(SOON, "the tracer's programs are loaded", is_traced);
        let after = ["map", "prog"].map(names);
        let root = tccc::kernel::cgroup::mount_point().unwrap();
        let attached = shown(&format!("cgroup show {}", root.display())).to_string();
        assert!(attached.contains("tccc_select"), "{attached}");
        for n in 0..2 {
            for (_, name) in after[n].difference(&before[n]) {
                // libbpf itself names what holds a program's variables: the file's name and the section's.
                let is_section = [".rodata", ".bss", ".data"].iter().any(|section| name.contains(section));
                assert!(name.starts_with("tccc_") || is_section || name.starts_with("libbpf"), "{name}");
            }
        }
        trace.kill().unwrap();
        trace.wait().unwrap();
        crate::lab::policy::remove();
    });
}
