//! The companion of an algorithm stays attached during an upgrade and keeps its state.

use std::collections::BTreeSet;

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};

use super::*;

fn maps() -> BTreeSet<u32> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let attached: BTreeSet<u32> = LinkInfoIter::default().map(|link| link.prog_id).collect();
    let programs = ProgInfoIter::with_query_opts(options);
    let ours = programs.filter(|program| program.name == "pair_delta" && attached.contains(&program.id));
    ours.flat_map(|program| program.map_ids).collect()
}

#[test]
fn companion_is_attached_at_every_moment() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    assert_eq!(attached(), [] as [u64; 0], "nothing else is attached");
    run(0, "load mswift --as ldk_pair");
    let (maps_before, root) = (maps(), attached());
    let stops = AtomicBool::new(false);
    let looks = std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut looks = 0;
            while !stops.load(Ordering::Relaxed) {
                // Counts links, because the program may change while both are listed.
                let links = LinkInfoIter::default().filter(
                    |link| matches!(&link.info, LinkTypeInfo::Cgroup(cgroup) if root.contains(&cgroup.cgroup_id)),
                );
                assert_eq!(links.count(), 1, "look {looks}");
                looks += 1;
            }
            looks
        });
        for number in 0..10 {
            run(0, &format!("upgrade ldk_pair --set estimate_divisor={}", 1 + number % 2));
        }
        run(0, "rollback ldk_pair");
        run(0, "load mswift --as ldk_pair --replace");
        stops.store(true, Ordering::Relaxed);
        looking.join().unwrap()
    });
    println!("{looks} looks");
    assert_eq!(attached(), root);
    assert!(maps().is_superset(&maps_before) || !maps().is_disjoint(&maps_before), "its state of peers is kept");
    let ends = Endpoints { client: Some("ldk_pair"), ..Endpoints::loopback() };
    lab.pair(&ends).exchange(500_000);
    run(0, "unload ldk_pair");
}

/// The record once named the root cgroup while the companion was attached elsewhere.
#[test]
fn companion_stays_in_its_cgroup_unless_another_is_asked_for() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let [one, other] = ["/ldk_tccc_one", "/ldk_tccc_other"].map(TestCgroup::create);
    run(0, "load mswift --as ldk_pair --cgroup /ldk_tccc_one");
    let place = || instance("ldk_pair")["companion"]["cgroup"].as_str().map(str::to_owned);
    let check = |group: &TestCgroup| {
        assert_eq!((attached(), place().as_deref()), (vec![group.id()], group.path().to_str()));
        assert_eq!(drift("ldk_pair"), [] as [String; 0]);
    };
    check(&one);
    run(0, "upgrade ldk_pair");
    check(&one);
    run(0, "load mswift --as ldk_pair --replace --cgroup /ldk_tccc_other");
    check(&other);
    run(0, "rollback ldk_pair");
    check(&other);
    run(0, "unload ldk_pair");
    assert_eq!(attached(), [] as [u64; 0]);
}

/// Sockets with the earlier code and a rollback still need the companion.
#[test]
fn companion_stays_after_an_upgrade_to_code_without_one() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    let root = cgroup::find(&cgroup::mount_point().unwrap()).unwrap();
    run(0, "load mswift --as ldk_pair");
    run(0, "upgrade ldk_pair dtcp");
    assert_eq!((attached(), instance("ldk_pair")["algorithm"].as_str()), (vec![root], Some("dtcp")));
    assert_eq!(instance("ldk_pair")["companion"]["program"], "pair_delta");
    run(0, "rollback ldk_pair");
    run(0, "unload ldk_pair --dry-run")
        .stdout_has("detach \"pair_delta\" from the cgroup ")
        .stdout_has("remove the pin /sys/fs/bpf/tccc/previous/ldk_pair");
    run(0, "unload ldk_pair");
    run(0, "load dtcp --as ldk_pair");
    run(0, "upgrade ldk_pair mswift");
    assert_eq!((attached(), drift("ldk_pair")), (vec![root], vec![]));
    run(0, "unload ldk_pair");
}
