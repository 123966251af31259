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
        .stderr_has("the verifier refused small_refused")
        .stderr_has(": it uses a number as a pointer");
    run(0, "unload --all");
}

/// A second table of a flavour with another layout, as CO-RE programs write it for another kernel.
const FLAVOUR: &str = r#".name = "ldk_small",
};
struct tcp_congestion_ops___other {
	char name[16];
	u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*ssthresh)(struct sock *sk);
};
SEC(".struct_ops.link") struct tcp_congestion_ops___other ldk_flavour = {
	.ssthresh = (void *)small_ssthresh, .cong_avoid = (void *)small_cong_avoid, .undo_cwnd = (void *)small_undo_cwnd,
"#;

/// Callbacks were looked up in the layout of the first type of that name, so the second table seemed to lack some.
#[test]
fn table_of_a_flavour_is_read_by_its_own_layout() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), "", "", FLAVOUR);
    for table in ["ldk_small", "ldk_flavour"] {
        let name = format!("{table}_as"); // renamed, which writes into the table
        check(0, tccc().arg("load").arg(format!("{}:{table}", object.display())).args(["--as", &name]));
        assert_eq!(registered(), [name]);
        run(0, "unload --all");
    }
}

/// Programs of other kinds, one of which the verifier refuses, and a callback that no table names.
const OTHERS: &str = r#"
SEC("tc") int on_egress(u32 *skb) { return *(volatile int *)(unsigned long)skb[19]; }
SEC("kprobe/no_such_function") int on_nothing(void *ctx) { return 0; }
SEC("struct_ops") void small_forgotten(unsigned long long *ctx) { }
"#;

/// These programs were loaded with the algorithm and dropped again without a word, or kept it from being loaded.
#[test]
fn programs_that_no_table_names_are_left_out_and_named() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(compile(folder.path(), "", "", "").with_extension("c")).unwrap();
    let object = object::compile_text(folder.path(), "ldk_small", &(text + OTHERS));
    check(0, tccc().arg("load").arg(&object))
        .stdout_has("\"ldk_small\" registered")
        .stderr_has("not loaded, because the ops table \"ldk_small\" does not name them: ")
        .stderr_has("on_egress")
        .stderr_has("on_nothing")
        .stderr_has("small_forgotten");
    run(0, "unload --all");
}

/// libbpf's reason was replaced by the text of the error number.
#[test]
fn refusal_before_the_verifier_is_told_in_libbpfs_words() {
    let _sandbox = enter!(Sandbox; root, struct_ops, bpffs, clang);
    let folder = tempfile::tempdir().unwrap();
    let object = compile(folder.path(), "", "u32 rounds;", ".rounds = 7,");
    check(1, tccc().arg("load").arg(&object).current_dir(folder.path())).stderr_has(
        "cannot load \"ldk_small\": struct_ops init_kern ldk_small: Cannot find member rounds in kernel BTF",
    );
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
