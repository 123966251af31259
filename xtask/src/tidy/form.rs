//! The form of files: what they begin with, what they name, how they end.

use super::Fault;
use super::tree::SourceFile;

#[path = "../../../src/author/header.rs"]
mod header;

#[cfg(test)]
pub use header::HEADINGS;

/// Programs that `cargo xtask setup` installs or every Debian has.
const KNOWN_PROGRAMS: &str = "cargo make bpftool setpriv frama-c perf clang iperf3 nmap ns prometheus promtool ip ss \
    git node patch apt-get gcc ld strip tar dpkg-query clang-format cc sh sleep cat flock unshare systemd-analyze env \
    /proc/self/exe /usr/bin/python3 \
    bash kill munged mungekey python3 shellcheck slurmctld slurmd \
    haproxy nginx ssh ssh-keygen systemctl systemd-socket-activate wrk";
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "helpers", "common", "misc"];
const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only";
/// Headers that families of algorithms share. A new one is a decision made here.
const FAMILY_CORES: &str = "cubic delay dfr fast pacing pair phase reduction repair swift";
/// Entries of the top level, except dot files.
const TOP_LEVEL: &str = "Cargo.toml Cargo.lock LICENSE README.md bpf scenarios src tests xtask";
/// Scenarios that repeat no published experiment.
const OURS: [&str; 3] = ["scenarios/smoke/", "scenarios/compare/", "scenarios/evaluate/"];

pub fn file_says_what_it_is_for(file: &SourceFile) -> Vec<Fault> {
    let holds = !file.path.ends_with(".rs") || file.text.starts_with("//! ");
    Fault::unless(holds, 1, || "the file does not begin with `//!` and what it is for".to_owned())
}

/// Commented-out code is deleted; git keeps it.
pub fn no_code_in_comments(file: &SourceFile) -> Vec<Fault> {
    let is_code = |line: &str| {
        let comment = line.trim_start().strip_prefix("// ").unwrap_or_default();
        comment.starts_with("#[") || [");", "?;", " {"].iter().any(|end| comment.ends_with(end))
    };
    let lines = file.lines().filter(|(_, text)| file.path.ends_with(".rs") && is_code(text));
    lines.map(|(line, _)| Fault::hard(line, "code in a comment")).collect()
}

/// Programs started by name are installed by `cargo xtask setup`.
pub fn started_programs_are_installed(file: &SourceFile) -> Vec<Fault> {
    let started = |(line, text): (usize, &str)| {
        let name = text.split_once("Command::new(\"").and_then(|(_, rest)| rest.split_once("\")"))?.0.to_owned();
        (!KNOWN_PROGRAMS.split_whitespace().any(|known| known == name)).then_some((line, name))
    };
    let unknown = file.lines().filter(|_| file.path.ends_with(".rs")).filter_map(started);
    let message = |name| format!("starts \"{name}\", which `cargo xtask setup` does not install");
    unknown.map(|(line, name)| Fault::hard(line, message(name))).collect()
}

/// A module's name says what it holds.
pub fn modules_name_a_thing(file: &SourceFile) -> Vec<Fault> {
    let is_empty = |name: &str| EMPTY_NAMES.contains(&name.trim_end_matches(".rs"));
    let says_nothing = file.is_product_rust() && file.path.split('/').any(is_empty);
    Fault::unless(!says_nothing, 0, || format!("{EMPTY_NAMES:?} say nothing: name the thing"))
}

/// The first line of C is the licence in the kernel's form of comment.
pub fn licence_comes_first(file: &SourceFile) -> Vec<Fault> {
    let wanted = match file.path.rsplit_once('.') {
        Some((_, "h")) => format!("/* {LICENCE} */"),
        Some((_, "c")) => format!("// {LICENCE}"),
        _ => return Vec::new(),
    };
    Fault::unless(file.text.lines().next() == Some(&wanted), 1, || format!("the first line is not `{wanted}`"))
}

/// The text of the licence and the manifests agree.
pub fn licence_is_there(file: &SourceFile) -> Vec<Fault> {
    let wanted: &[&str] = match file.path.as_str() {
        "LICENSE" => &["GNU GENERAL PUBLIC LICENSE", "Version 2, June 1991"],
        "Cargo.toml" | "xtask/Cargo.toml" => &["license = \"GPL-2.0-only\""],
        _ => &[],
    };
    Fault::unless(wanted.iter().all(|part| file.text.contains(part)), 0, || format!("{wanted:?} is missing"))
}

/// One sentence, then all headings in order, none empty, and `Differs` numbered or "none".
pub fn header_has_headings(file: &SourceFile) -> Vec<Fault> {
    let faults = file.algorithm().map(|_| header::faults(&file.text)).unwrap_or_default();
    faults.into_iter().map(|(line, text)| Fault::hard(line, text)).collect()
}

/// An algorithm includes `tccc.bpf.h`, the core of its family, and parts whose names begin with its own.
pub fn only_the_one_header_is_included(file: &SourceFile) -> Vec<Fault> {
    let Some(stem) = file.algorithm() else { return Vec::new() };
    let is_known = |line: &str| {
        let name = line.trim_start_matches("#include \"").trim_end_matches('"').trim_end_matches(".bpf.h");
        name == "tccc" || name.starts_with(&format!("{stem}_")) || FAMILY_CORES.split(' ').any(|core| core == name)
    };
    let foreign = file.lines().filter(|(_, line)| line.starts_with("#include") && !is_known(line));
    foreign
        .map(|(line, text)| Fault::hard(line, format!("`{text}`: only `tccc.bpf.h`, family cores and its own parts")))
        .collect()
}

/// A scenario has a title and, if it repeats a paper, a source.
pub fn scenario_has_title_and_source(file: &SourceFile) -> Vec<Fault> {
    if !file.is_in(&["scenarios/"]) || !file.path.ends_with(".toml") || file.is_in(&["scenarios/policy/"]) {
        return Vec::new();
    }
    let has_key = |key: &str| {
        let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
        file.text.lines().any(|line| is_key(line) || line.trim() == format!("[{key}]"))
    };
    let wanted = if file.is_in(&OURS) { &["title"][..] } else { &["title", "source"] };
    let missing = wanted.iter().filter(|key| !has_key(key));
    missing.map(|key| Fault::hard(0, format!("the scenario has no `{key}`"))).collect()
}

/// Text ends with a line end, and no line ends with blanks.
pub fn lines_end_cleanly(file: &SourceFile) -> Vec<Fault> {
    // In a patch an empty line of the source is a blank.
    let is_foreign = file.ends_with(&[".snap", ".patch", "LICENSE"]) || file.path.contains("/fixtures/");
    if is_foreign || file.is_binary() {
        return Vec::new();
    }
    let trailing = file.lines().filter(|(_, text)| text.ends_with([' ', '\t', '\r']));
    let end = file.lines().last().filter(|_| !file.text.ends_with('\n'));
    trailing.chain(end).map(|(line, _)| Fault::hard(line, "blanks at the end of the line, or no line end")).collect()
}

pub fn top_level_is_known(file: &SourceFile) -> Vec<Fault> {
    let top = file.path.split('/').next().unwrap_or_default();
    let is_known = top.starts_with('.') || TOP_LEVEL.split(' ').any(|known| known == top);
    Fault::unless(is_known, 0, || format!("\"{top}\" is not one of {TOP_LEVEL}"))
}
