//! bpftool registers the objects of the package, and shows every part of what tccc loads.

use libbpf_rs::{MapCore as _, ObjectBuilder};

use super::*;
use crate::lab::policy::all;
use crate::load::refused::compile;

fn shown(words: &str) -> Value {
    let output = check(0, Command::new("bpftool").arg("-j").args(words.split_whitespace()));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Ids and names of all objects of a kind: `map` or `prog`.
fn names(what: &str) -> BTreeSet<(u64, String)> {
    let list = shown(&format!("{what} show"));
    let entries = list.as_array().cloned().unwrap_or_default();
    let named = entries.iter().filter_map(|entry| Some((entry["id"].as_u64()?, entry["name"].as_str()?.to_owned())));
    named.collect()
}

fn foreign() -> Vec<Value> {
    run(0, "status -o json").json()["foreign"].as_array().unwrap().clone()
}

/// The entry of a foreign algorithm, and the command that removes it, by words.
fn foreign_named(name: &str) -> (Value, Vec<String>) {
    let found = foreign().into_iter().find(|other| other["name"] == name).unwrap();
    let words = found["remove"].as_str().unwrap().split(' ').map(str::to_owned).collect();
    (found, words)
}

#[track_caller]
fn assert_removed(name: &str) {
    assert!(!is_available(name), "{name} is still registered");
    assert!(foreign().iter().all(|other| other["name"] != name), "{name} is still listed");
}

#[test]
fn bpftool_registers_every_object_of_the_package() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang, bpftool);
    let folder = tempfile::tempdir().unwrap();
    check(0, tccc().arg("assets").arg(folder.path()));
    let taken = available();
    for algorithm in
        crate::common::need::loadable("bpftool").into_iter().filter(|algorithm| !taken.contains(&algorithm.id))
    {
        let id = &algorithm.id;
        let object = folder.path().join(format!("objects/{id}.bpf.o"));
        let said = check(0, Command::new("bpftool").args(["struct_ops", "register"]).arg(object)).stdout();
        assert!(is_available(id), "{id}: {said}");
        HeldConnection::open(&loopback_netns(), id).send(1 << 20);
        let (found, words) = foreign_named(id);
        assert_eq!(words[..4], ["bpftool", "struct_ops", "unregister", "id"], "{found}");
        run(0, "status")
            .stdout_has(format!("registered by others: \"{id}\" (map {}", found["map_id"]))
            .stdout_has(words.join(" "));
        check(0, Command::new(&words[0]).args(&words[1..]));
        assert_removed(id);
    }
}

/// Registers by a link without tccc, as scx and the kernel's selftests do.
#[test]
fn link_of_another_program_is_detached_as_status_says() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang, bpftool);
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), "", "", "");
    let mut loaded = ObjectBuilder::default().open_file(object).unwrap().load().unwrap();
    let _link = loaded.maps_mut().find(|map| map.name() == "ldk_small").unwrap().attach_struct_ops().unwrap();
    let (found, words) = foreign_named("ldk_small");
    assert_eq!(found["pid"], std::process::id(), "{found}");
    run(0, "list").stdout_has("congestion control by BPF").stdout_has("another program");
    assert_eq!(words, ["bpftool", "link", "detach", "id", &found["link_id"].to_string()]);
    check(0, Command::new(&words[0]).args(&words[1..]));
    assert_removed("ldk_small");
}

#[test]
fn bpftool_shows_every_part_of_a_load() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, bpftool);
    let before = ["map", "prog"].map(names);
    run(0, "load dtcp --as ldk_bpftool");
    assert!(foreign().iter().all(|other| other["name"] != "ldk_bpftool"), "it counts as foreign");
    let after = ["map", "prog"].map(names);
    let new = |n: usize| after[n].difference(&before[n]).map(|(_, name)| name.clone()).collect::<BTreeSet<_>>();
    let (maps, programs) = (new(0), new(1));
    assert!(maps.contains("dtcp") && maps.contains("dtcp.rodata"), "{maps:?}");
    for callback in &catalog::find("dtcp").unwrap().callbacks {
        // Newer versions of bpftool show the whole name, which the kernel truncates.
        let is_there = programs.iter().any(|name| callback.program.starts_with(name.as_str()));
        assert!(is_there || callback.member == "cwnd_event_tx_start", "{callback:?} is not in {programs:?}");
    }
    let id = after[0].difference(&before[0]).find(|(_, name)| name == "dtcp").unwrap().0;
    // The JSON that bpftool prints for one table is invalid.
    let dump = ["struct_ops", "dump", "id", &id.to_string()];
    check(0, Command::new("bpftool").args(dump)).stdout_has("ldk_bpftool").stdout_has("dtcp_cong_avoid/prog_id:");
    let table = shown("struct_ops show").to_string();
    assert!(table.contains(&format!("\"id\":{id}")), "{table}");
    let links = shown("link show");
    let kinds: Vec<&Value> = links.as_array().unwrap().iter().map(|link| &link["type"]).collect();
    let is_ours = |kind: &&Value| **kind == "struct_ops" || **kind == "unspec" || kind.is_number();
    assert!(kinds.iter().any(is_ours), "{links}");
    run(0, "unload ldk_bpftool");
}

#[test]
fn programs_and_maps_of_policy_and_tracer_have_the_prefix_of_tccc() {
    let lab = &enter!(PolicyLab; root, btf, bpffs, cgroup2, bpftool);
    let before = ["map", "prog"].map(names);
    lab.apply(&all("bbr"));
    let _trace = begin_quietly(tccc().args(["trace", "--duration", "60s", "-o", "jsonl"]));
    let is_traced = || names("prog").iter().any(|(_, name)| name == "tccc_retransmit");
    poll_until(SOON, "the tracer's programs are loaded", is_traced);
    let after = ["map", "prog"].map(names);
    let root = tccc::kernel::cgroup::mount_point().unwrap();
    let attached = shown(&format!("cgroup show {}", root.display())).to_string();
    assert!(attached.contains("tccc_select"), "{attached}");
    for n in 0..2 {
        for (_, name) in after[n].difference(&before[n]) {
            // libbpf names the maps of a program's variables by file and section.
            let is_section = [".rodata", ".bss", ".data"].iter().any(|section| name.contains(section));
            assert!(name.starts_with("tccc_") || is_section || name.starts_with("libbpf"), "{name}");
        }
    }
}
