//! An algorithm as small as one can be, compiled here; with the flag that asks for ECN if wanted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::lab::sandbox::check;

const SOURCE: &str = r#"
typedef unsigned int u32;
struct sock { int unused; };
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 flags;
	char name[16];
};
#define SEC(name) __attribute__((section(name), used))
char LICENSE[] SEC("license") = "GPL";
SEC("struct_ops") u32 small_ssthresh(unsigned long long *ctx) { return SSTHRESH; }
SEC("struct_ops") u32 small_undo_cwnd(unsigned long long *ctx) { return 10; }
SEC("struct_ops") void small_cong_avoid(unsigned long long *ctx) { }
SEC(".struct_ops.link") struct tcp_congestion_ops NAME = {
	.ssthresh = (void *)small_ssthresh, .cong_avoid = (void *)small_cong_avoid,
	.undo_cwnd = (void *)small_undo_cwnd, .flags = FLAGS, .name = "NAME",
};
"#;

/// The kernel's TCP_CONG_NEEDS_ECN.
pub const NEEDS_ECN: u32 = 2;

/// Compiles an algorithm whose window is constant; objects with another `ssthresh` are other code.
pub fn compile(folder: &Path, name: &str, flags: u32, ssthresh: u32) -> PathBuf {
    let (source, object) = (folder.join(format!("{name}.bpf.c")), folder.join(format!("{name}.bpf.o")));
    let text = SOURCE.replace("NAME", name).replace("FLAGS", &flags.to_string());
    std::fs::write(&source, text.replace("SSTHRESH", &ssthresh.to_string())).unwrap();
    let arguments = ["-target", "bpf", "-g", "-O2", "-mcpu=v3", "-c", "-o"];
    check(0, Command::new("clang").args(arguments).args([&object, &source]));
    object
}
