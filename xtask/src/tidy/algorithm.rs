//! Rules over C files: the licence, and the form of an algorithm's file.

#[path = "../../../src/author/header.rs"]
mod header;

use super::Fault;
use super::tree::SourceFile;

const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only";
/// The kernel's names have 16 bytes with the terminating zero (`TCP_CA_NAME_MAX`).
const NAME_LENGTH: usize = 15;
const HEADER: &str = "#include \"tccc.bpf.h\"";
/// Headers that families of algorithms share. A new one is a decision made here.
const FAMILY_CORES: [&str; 10] =
    ["cubic", "delay", "dfr", "fast", "pacing", "pair", "phase", "reduction", "repair", "swift"];

/// The first line is the licence in the kernel's form of comment.
pub fn licence_comes_first(file: &SourceFile) -> Vec<Fault> {
    let first = file.text.lines().next().unwrap_or_default();
    let wanted = if file.path.ends_with(".h") { format!("/* {LICENCE} */") } else { format!("// {LICENCE}") };
    Fault::unless(first == wanted, 1, || format!("the first line is not `{wanted}`"))
}

/// One sentence, then all headings in order, none empty, and `Differs` numbered or "none".
pub fn header_has_headings(file: &SourceFile) -> Vec<Fault> {
    let faults = file.algorithm().map(|_| header::faults(&file.text)).unwrap_or_default();
    faults.into_iter().map(|(line, text)| Fault::hard(line, text)).collect()
}

/// The file's stem is the id given to `ALGORITHM` and fits the kernel's name.
pub fn stem_is_the_id(file: &SourceFile) -> Vec<Fault> {
    let Some(stem) = file.algorithm() else { return Vec::new() };
    let mut findings = Vec::new();
    if stem.len() > NAME_LENGTH {
        findings.push(Fault::hard(0, format!("the stem \"{stem}\" is longer than {NAME_LENGTH} characters")));
    }
    let id = file.text.lines().find_map(|line| line.strip_prefix("ALGORITHM(")?.split([',', ')']).next());
    if id.map(str::trim) != Some(stem) {
        findings.push(Fault::hard(0, format!("no `ALGORITHM({stem}, ...)`: the id is the file's stem")));
    }
    findings
}

/// An algorithm includes `tccc.bpf.h`, the core of its family, and files of a folder with its own name.
pub fn only_the_one_header_is_included(file: &SourceFile) -> Vec<Fault> {
    let Some(stem) = file.algorithm() else { return Vec::new() };
    let own = format!("#include \"{stem}/");
    let is_core = |line: &str| FAMILY_CORES.iter().any(|core| line == format!("#include \"{core}.bpf.h\""));
    let is_known = |line: &str| line.starts_with(HEADER) || line.starts_with(&own) || is_core(line);
    let foreign = file.lines().filter(|(_, line)| line.starts_with("#include") && !is_known(line));
    foreign.map(|(line, text)| Fault::hard(line, format!("`{text}`: only `{HEADER}` and its own folder"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    const FILE: &str = "bpf/cc/a.bpf.c";

    fn header(differs: &str) -> String {
        let section = |heading: &str| {
            let content = if heading == "Differs" { differs } else { "Something." };
            format!(" *\n * {heading}\n *   {content}\n")
        };
        let sections: String = header::HEADINGS.iter().map(|heading| section(heading)).collect();
        format!("// SPDX\n/*\n * Halves after a loss.\n{sections} */\n")
    }

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        check(licence_comes_first, "bpf/a.c", "int a;\n", &format!("// {LICENCE}\n"));
        check(licence_comes_first, "bpf/a.h", &format!("// {LICENCE}\n"), &format!("/* {LICENCE} */\n"));
        check(stem_is_the_id, FILE, "ALGORITHM(b, \"x\", \"y\");\n", "ALGORITHM(a, \"x\", \"y\");\n");
        let long = "ALGORITHM(abcdefghijklmnop, 1);\n";
        assert_eq!(stem_is_the_id(&SourceFile::new("bpf/cc/abcdefghijklmnop.bpf.c", long)).len(), 1);
        let good = format!("{HEADER}\n#include \"cubic.bpf.h\"\n#include \"a/table.h\"\n");
        check(only_the_one_header_is_included, FILE, "#include \"b.bpf.c\"\n", &good);
    }

    #[test]
    fn header_needs_one_sentence_and_all_headings_in_order() {
        let good = header("none");
        check(header_has_headings, FILE, &header("1. Something.").replace(" * Units\n", ""), &header("1. Something."));
        check(header_has_headings, FILE, &header(""), &header("None."));
        check(header_has_headings, FILE, &header("Some."), &good);
        check(header_has_headings, FILE, &good.replace("Halves after a loss.", "Halves. And more"), &good);
        let swapped = good.replace("Source", "swap").replace("Idea", "Source").replace("swap", "Idea");
        check(header_has_headings, FILE, &swapped, &good);
    }
}
