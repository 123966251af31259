//! The companion of an algorithm is attached at every moment of an upgrade, and keeps what it knows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter, ProgInfoQueryOptions};
use tccc::kernel::cgroup;

use crate::common::host_has;
use crate::lab::group::Group;
use crate::lab::pair::attached;
use crate::lab::policy::{Ends, with_lab};
use crate::lab::sandbox::{instance, run, stdout};

/// Maps that the attached companion uses.
fn maps() -> BTreeSet<u32> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let attached: BTreeSet<u32> = LinkInfoIter::default().map(|link| link.prog_id).collect();
    let programs = ProgInfoIter::with_query_opts(options);
    let ours = programs.filter(|program| program.name == "pair_delta" && attached.contains(&program.id));
    ours.flat_map(|program| program.map_ids).collect()
}

#[test]
fn companion_is_attached_at_every_moment() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |lab| {
        assert_eq!(attached(), [] as [u64; 0], "nothing else is attached");
        run(0, "load mswift --as ldk_pair");
        let (maps_before, root) = (maps(), attached());
        let stops = AtomicBool::new(false);
        let looks = std::thread::scope(|scope| {
            let looking = scope.spawn(|| {
                let mut looks = 0;
                while !stops.load(Ordering::Relaxed) {
                    // The program may change between its listing and that of its link: what counts is the link.
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
        assert!(maps().is_superset(&maps_before) || !maps().is_disjoint(&maps_before), "what it knew of peers is kept");
        let ends = Ends { client: Some("ldk_pair"), ..Ends::new("127.0.0.1", "127.0.0.2") };
        lab.pair(&ends).exchange(500_000);
        run(0, "unload ldk_pair");
    });
}

/// It once was recorded at the root of the cgroups, while it was attached elsewhere.
#[test]
fn companion_stays_in_its_cgroup_unless_another_is_asked_for() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |_| {
        let [one, other] = ["/ldk_tccc_one", "/ldk_tccc_other"].map(Group::create);
        run(0, "load mswift --as ldk_pair --cgroup /ldk_tccc_one");
        let place = || instance("ldk_pair")["companion"]["cgroup"].as_str().map(str::to_owned);
        let check = |group: &Group| {
            assert_eq!((attached(), place().as_deref()), (vec![group.id()], group.path().to_str()));
            assert_eq!(instance("ldk_pair")["drift"].as_array().map(Vec::len), Some(0));
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
    });
}

/// The code before still needs it: its sockets, and a rollback.
#[test]
fn companion_stays_while_code_without_one_has_the_name() {
    with_lab(host_has!(root, struct_ops, bpffs, cgroup2), |_| {
        let root = cgroup::find(&cgroup::mount_point().unwrap()).unwrap();
        run(0, "load mswift --as ldk_pair");
        run(0, "upgrade ldk_pair dtcp");
        assert_eq!((attached(), instance("ldk_pair")["algorithm"].as_str()), (vec![root], Some("dtcp")));
        assert_eq!(instance("ldk_pair")["companion"]["program"], "pair_delta");
        run(0, "rollback ldk_pair");
        let said = stdout(&run(0, "unload ldk_pair --dry-run"));
        for line in ["detach \"pair_delta\" from the cgroup ", "remove the pin /sys/fs/bpf/tccc/previous/ldk_pair"] {
            assert!(said.contains(line), "{said}");
        }
        run(0, "unload ldk_pair");
        run(0, "load dtcp --as ldk_pair");
        run(0, "upgrade ldk_pair mswift");
        assert_eq!((attached(), instance("ldk_pair")["drift"].as_array().map(Vec::len)), (vec![root], Some(0)));
        run(0, "unload ldk_pair");
    });
}
