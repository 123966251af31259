//! Thousands of cycles of load and unload, apply and remove leave nothing in the kernel or in `/run`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

use libbpf_rs::MapType;
use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use tccc::gate;
use tccc::kernel::probe::Features;
use tccc::loader::LoadOptions;
use tccc::policy::file;
use tccc::policy::record::PolicyOrigin;

use super::*;

const CYCLES: &str = "TCCC_TRIAL_CYCLES";
const CYCLES_USUAL: u32 = 200;

fn objects() -> BTreeSet<(&'static str, u32, String)> {
    let name = |name: OsString| name.to_string_lossy().into_owned();
    let programs = ProgInfoIter::default().map(|program| ("program", program.id, name(program.name)));
    let maps = MapInfoIter::default().map(|map| {
        let kind = if map.ty == MapType::ProgArray { PROGRAM_ARRAY } else { "map" };
        (kind, map.id, name(map.name))
    });
    let links = LinkInfoIter::default().map(|link| ("link", link.id, String::new()));
    programs.chain(maps).chain(links).collect()
}

fn memory_kb() -> u64 {
    procfs::process::Process::myself().and_then(|process| process.status()).unwrap().vmrss.unwrap()
}

#[test]
fn a_few_cycles_leave_nothing() {
    needs!(root, struct_ops, bpffs, cgroup2);
    cycle(20);
}

#[test]
#[ignore = "a campaign: TCCC_TRIAL_CYCLES=10000 cargo test --release --test kernel -- --ignored many_cycles"]
fn many_cycles_leave_nothing() {
    needs!(root, struct_ops, bpffs, cgroup2);
    cycle(std::env::var(CYCLES).map_or(CYCLES_USUAL, |text| text.parse().unwrap()));
}

/// The kernel sometimes leaks an array of programs if a process opens it by its id, to list maps, while the kernel
/// clears it. An object that tccc leaks is left at every attempt.
const PROGRAM_ARRAY: &str = "array of programs";
const ATTEMPTS: u32 = 3;

fn cycle(cycles: u32) {
    let lab = TrialLab::enter();
    let path = lab.policy("split = { cubic = 50, keep = 50 }\nguard = \"retransmitted<1.2x\"");
    let before = objects();
    let left = || &objects() - &before;
    let mut leaked = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        load_apply_remove_unload(cycles, &path);
        if holds_within(SOON, || left().is_subset(&leaked)) {
            return assert_eq!(lab.given(), DEFAULT);
        }
        leaked = left();
        assert!(leaked.iter().all(|(kind, ..)| *kind == PROGRAM_ARRAY), "left: {leaked:?}");
    }
    panic!("each of {ATTEMPTS} attempts left one more array of programs: {leaked:?}");
}

fn load_apply_remove_unload(cycles: u32, path: &Path) {
    let features = Features::probe().unwrap();
    let request = dtcp_as("ldk_cycle");
    let mut policy = file::read(path).unwrap();
    policy.rules[0].trial = None;
    let (begin, mut first_kb) = (Instant::now(), 0);
    for number in 0..cycles {
        gate::load(&request, LoadOptions::default(), &features).unwrap();
        gate::unload("ldk_cycle", &features).unwrap();
        gate::apply_policy(&policy, &PolicyOrigin::command(Some(path)), false).unwrap();
        gate::remove_policy(false, gate::removed()).unwrap();
        assert!(!Path::new("/run/tccc").exists() && !Path::new("/sys/fs/bpf/tccc").exists(), "cycle {number}");
        if number == cycles / 10 {
            first_kb = memory_kb();
        }
    }
    println!("{cycles} cycles in {:?}, {first_kb} kB then {} kB", begin.elapsed(), memory_kb());
    assert!(memory_kb() < first_kb + 20_000, "this process grew");
}
