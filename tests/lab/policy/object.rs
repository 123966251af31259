//! Compiles the smallest possible algorithm, with the flag that requests ECN if wanted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::check;

const SMALL: &str = include_str!("../../fixtures/objects/small.bpf.c.in");

/// The kernel's TCP_CONG_NEEDS_ECN.
pub const NEEDS_ECN: u32 = 2;

/// Compiles an algorithm whose window is constant. Another `ssthresh` makes a different object.
pub fn compile(folder: &Path, name: &str, flags: u32, ssthresh: u32) -> PathBuf {
    small(folder, name, ssthresh, ["", "u32 flags;", &format!(".flags = {flags},")])
}

/// Compiles the smallest algorithm with the body of `cong_avoid`, another member of the ops table, and its value.
pub fn small(folder: &Path, name: &str, ssthresh: u32, [body, member, value]: [&str; 3]) -> PathBuf {
    let text = SMALL.replace("SSTHRESH", &ssthresh.to_string()).replace("NAME", name);
    compile_text(folder, name, &text.replace("BODY", body).replace("MEMBER", member).replace("VALUE", value))
}

pub fn compile_text(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (source, object) = (folder.join(format!("{name}.bpf.c")), folder.join(format!("{name}.bpf.o")));
    std::fs::write(&source, text).unwrap();
    let arguments = ["-target", "bpf", "-g", "-O2", "-mcpu=v3", "-w", "-c", "-o"];
    check(0, Command::new("clang").args(arguments).args([&object, &source]));
    object
}
