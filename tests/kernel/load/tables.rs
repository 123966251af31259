//! Objects with several ops tables, as other people write them: `FILE:TABLE` names one.

use tccc::catalog;

use crate::common::{host_has, tccc};
use crate::lab::sandbox::{check, in_sandbox, registered, run, stderr};
use crate::load::refused::compile;

/// After the last callback of the first table: its name, and a second table. The verifier refuses its `cong_avoid`.
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
    in_sandbox(host_has!(root, struct_ops, bpffs, clang), || {
        let folder = tempfile::tempdir().unwrap();
        let object = compile(folder.path(), "", "", SECOND);
        let named = |table: &str| format!("{}:{table}", object.display());
        let said = stderr(&check(2, tccc().arg("load").arg(&object)));
        let tables = "it has 3 ops tables (ldk_third, ldk_small, ldk_refused): name one, as in FILE:TABLE";
        assert!(said.contains(tables), "{said}");
        check(2, tccc().arg("load").arg(named("ldk_none")))
            .stderr_has("it has no ops table \"ldk_none\", only ldk_third, ldk_small, ldk_refused");
        check(0, tccc().arg("show").arg(named("ldk_refused")))
            .stdout_has("small_refused")
            .stdout_lacks("small_cong_avoid");

        check(0, tccc().arg("load").arg(named("ldk_small"))); // the refused program of another table is not in the way
        check(0, tccc().arg("load").arg(named("ldk_third"))); // a table without a link gets one
        assert_eq!(registered(), ["ldk_first", "ldk_small"].map(String::from));
        check(1, tccc().arg("load").arg(named("ldk_refused")).current_dir(folder.path()))
            .stderr_has("the verifier refused small_refused: it uses a number as a pointer");
        run(0, "unload --all");
    });
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
