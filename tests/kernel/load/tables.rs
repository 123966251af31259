//! Objects with several ops tables: `FILE:TABLE` names one.

use super::*;
use crate::load::refused::compile;

/// Completes the first table and adds two more. The verifier refuses `cong_avoid` of the second.
const SECOND: &str = r#".name = "ldk_first",
};
SEC("struct_ops") void small_refused(unsigned long long *ctx) { *(volatile u32 *)(unsigned long)ctx[1] = 1; }
SEC(".struct_ops.link") struct tcp_congestion_ops ldk_refused = {
	.ssthresh = (void *)small_ssthresh, .cong_avoid = (void *)small_refused, .undo_cwnd = (void *)small_undo_cwnd,
	.name = "ldk_other",
};
SEC(".struct_ops") struct tcp_congestion_ops ldk_third = {
	.ssthresh = (void *)small_ssthresh, .cong_avoid = (void *)small_cong_avoid, .undo_cwnd = (void *)small_undo_cwnd,
"#;

#[test]
fn one_of_several_tables_is_loaded_by_its_name() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), "", "", SECOND);
    let named = |table: &str| format!("{}:{table}", object.display());
    check(2, tccc().arg("load").arg(&object))
        .stderr_has("it has 3 ops tables (ldk_third, ldk_small, ldk_refused): name one, as in FILE:TABLE");
    check(2, tccc().arg("load").arg(named("ldk_none")))
        .stderr_has("it has no ops table \"ldk_none\", only ldk_third, ldk_small, ldk_refused");
    check(0, tccc().arg("show").arg(named("ldk_refused"))).stdout_has("small_refused").stdout_lacks("small_cong_avoid");

    check(0, tccc().arg("load").arg(named("ldk_small"))); // a refused program of another table does not matter
    check(0, tccc().arg("load").arg(named("ldk_third"))); // a table without a link gets one
    assert_eq!(registered(), ["ldk_first", "ldk_small"].map(String::from));
    check(1, tccc().arg("load").arg(named("ldk_refused")).current_dir(folder.path()))
        .stderr_has("the verifier refused small_refused: it uses a number as a pointer");
    run(0, "unload --all");
}

#[test]
fn file_whose_name_has_a_colon_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.o:b");
    std::fs::write(&path, &catalog::find("dtcp").unwrap().object).unwrap();
    assert_eq!(catalog::open(&path).unwrap().id, "dtcp");
    let table = folder.path().join("a.o:b:dtcp");
    assert_eq!(catalog::open(&table).unwrap().ops_table, "dtcp");
    let none = catalog::open(&folder.path().join("a.o:b:")).unwrap_err();
    assert!(none.what.ends_with("it has no ops table \"\", only dtcp"), "{}", none.what);
}
