//! Refused upgrades: each has its message and leaves the earlier code.

use tccc::gate;
use tccc::loader;

use super::*;

#[test]
fn upgrades_that_are_impossible_are_refused() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, cgroup2);
    run(0, "load dtcp --as ldk_up --set keep_avoidance=901");
    run(0, "load mswift --as ldk_end --receiver");
    let text = lab.file("text.bpf.o", "no object");
    let before = state::lines();
    for dry in ["", " --dry-run"] {
        let refuse = |code, words: &str, says: &str| _ = run(code, &format!("{words}{dry}")).stderr_has(says);
        refuse(1, "upgrade ldk_no", "cannot upgrade or roll back \"ldk_no\": it is not loaded");
        refuse(1, "upgrade dtcp", "cannot upgrade or roll back \"dtcp\": it is not loaded");
        refuse(1, "upgrade reno", "cannot upgrade or roll back \"reno\": it is not loaded");
        refuse(1, "upgrade ../ldk_up", "it is not loaded");
        refuse(2, "upgrade ldk_end", "cannot upgrade or roll back \"ldk_end\": it is loaded with `--receiver` only");
        refuse(2, "upgrade ldk_up nothing", "unknown algorithm \"nothing\"");
        refuse(2, "upgrade ldk_up cubic", "\"cubic\" is the kernel's own");
        refuse(2, "upgrade ldk_up --set keep=1", "unknown tunable");
        refuse(2, "upgrade ldk_up --set keep_avoidance=99999", "keep_avoidance = 99999");
        refuse(2, "upgrade ldk_up --percent 5", "`--percent` and `--guard` are for a trial");
        refuse(2, &format!("upgrade ldk_up {}", text.display()), "text.bpf.o");
        refuse(1, "rollback ldk_up", "cannot roll back \"ldk_up\": no earlier code is kept");
        refuse(1, "rollback ldk_no", "cannot upgrade or roll back \"ldk_no\": it is not loaded");
    }
    assert_eq!((state::lines(), generation("ldk_up").0), (before, Some(1)));
    run(0, "unload --all");
}

#[test]
fn code_that_the_kernel_refuses_leaves_the_earlier_code() {
    let lab = &enter!(PolicyLab; root, struct_ops, bpffs, clang);
    let good = compile(lab.folder(), "ldk_file", 0, 10);
    check(0, tccc().arg("load").arg(&good));
    let lines = state::lines();
    // The kernel refuses unknown flags when the table is registered.
    let bad = compile(lab.folder(), "ldk_file", 64, 10);
    check(1, tccc().args(["upgrade", "ldk_file"]).arg(&bad).current_dir(lab.folder()))
        .stderr_has("the kernel refuses the registration");
    assert_eq!((state::lines(), generation("ldk_file").0, drift("ldk_file")), (lines, Some(1), vec![]));
    run(0, "unload ldk_file");
}

#[test]
fn dry_runs_list_the_steps_and_do_nothing() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    run(0, "load dtcp --as ldk_dry");
    run(0, "upgrade ldk_dry");
    let (lines, before) = (state::lines(), instance("ldk_dry"));
    let said = stdout(&run(0, "upgrade ldk_dry tahoe --sockets --dry-run"));
    assert!(said.starts_with("the new code passes the verifier; upgrading \"ldk_dry\" would\n"), "{said}");
    assert!(said.ends_with("\n  give listening sockets and open connections with \"ldk_dry\" that code\n"), "{said}");
    run(0, "upgrade ldk_dry --trial 10m --percent 5 --dry-run")
        .stdout_has("\n  give it to 5 % of the new connections that would get \"ldk_dry\", for 600s\n");
    let said = stdout(&run(0, "rollback ldk_dry --dry-run"));
    assert!(
        said.starts_with("rolling back \"ldk_dry\" would\n  point the name \"ldk_dry\" to the code before\n"),
        "{said}"
    );
    assert_eq!((state::lines(), instance("ldk_dry")), (lines, before));
    run(0, "unload ldk_dry");
}

#[test]
fn code_that_was_registered_without_a_link_cannot_be_swapped() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let (features, request) = (without_links(), dtcp_as("ldk_old"));
    gate::load(&request, loader::LoadOptions::default(), &features).unwrap();
    let refused = "cannot swap code under the name \"ldk_old\": it is not registered by a pinned link";
    assert_eq!(loader::upgrade::check("ldk_old", &features, false).unwrap().generation, 1);
    // A registration by its map has no link even where the kernel has links.
    run(4, "upgrade ldk_old").stderr_has(refused);
    run(0, "unload ldk_old");
}
