//! What every C file begins with, and the form of an algorithm's file.

#[path = "../../../src/author/header.rs"]
mod header;

use super::Finding;
use super::tree::SourceFile;

const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only";
/// The kernel keeps a name of 16 bytes with its end (`TCP_CA_NAME_MAX`).
const NAME_LENGTH: usize = 15;
const HEADER: &str = "#include \"tccc.bpf.h\"";
/// What a family of algorithms shares beyond the words of the one header; a new one is a decision made here.
const FAMILY_CORES: [&str; 10] = [
    "#include \"cubic.bpf.h\"",
    "#include \"delay.bpf.h\"",
    "#include \"dfr.bpf.h\"",
    "#include \"fast.bpf.h\"",
    "#include \"pacing.bpf.h\"",
    "#include \"pair.bpf.h\"",
    "#include \"phase.bpf.h\"",
    "#include \"reduction.bpf.h\"",
    "#include \"repair.bpf.h\"",
    "#include \"swift.bpf.h\"",
];

/// The licence stands in the first line, in the comment form the kernel asks for.
pub fn licence_comes_first(file: &SourceFile) -> Vec<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let wanted = if file.path.ends_with(".h") { format!("/* {LICENCE} */") } else { format!("// {LICENCE}") };
    Finding::unless(first == wanted, 1, || format!("the first line is not `{wanted}`"))
}

/// One sentence, then the headings in their order, none empty, and `Differs` numbered or "none".
pub fn header_has_headings(file: &SourceFile) -> Vec<Finding> {
    let faults = file.algorithm().map(|_| header::faults(&file.text)).unwrap_or_default();
    faults.into_iter().map(|(line, text)| Finding::hard(line, text)).collect()
}

/// The file's stem is the id given to `ALGORITHM` and fits the kernel's name.
pub fn stem_is_the_id(file: &SourceFile) -> Vec<Finding> {
    let Some(stem) = file.algorithm() else { return Vec::new() };
    let mut findings = Vec::new();
    if stem.len() > NAME_LENGTH {
        findings.push(Finding::hard(0, format!("the stem \"{stem}\" is longer than {NAME_LENGTH} characters")));
    }
    let id = file.text.lines().find_map(|line| line.strip_prefix("ALGORITHM(")?.split([',', ')']).next());
    if id.map(str::trim) != Some(stem) {
        findings.push(Finding::hard(0, format!("no `ALGORITHM({stem}, ...)`: the id is the file's stem")));
    }
    findings
}

/// An algorithm includes `tccc.bpf.h`, the core of its family, and files of a folder with its own name.
pub fn only_the_one_header_is_included(file: &SourceFile) -> Vec<Finding> {
    let Some(stem) = file.algorithm() else { return Vec::new() };
    let own = format!("#include \"{stem}/");
    let is_known = |line: &str| line.starts_with(HEADER) || line.starts_with(&own) || FAMILY_CORES.contains(&line);
    let foreign = file.lines().filter(|(_, line)| line.starts_with("#include") && !is_known(line));
    foreign.map(|(line, text)| Finding::hard(line, format!("`{text}`: only `{HEADER}` and its own folder"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    fn header(differs: &str) -> String {
        let section = |heading: &str| {
            let content = if heading == "Differs" { differs } else { "Something." };
            format!(" *\n * {heading}\n *   {content}\n")
        };
        let sections: String = header::HEADINGS.iter().map(|heading| section(heading)).collect();
        format!("// SPDX\n/*\n * Halves after a loss.\n{sections} */\n")
    }

    #[test]
    fn missing_licence_is_refused() {
        check(licence_comes_first, "bpf/a.c", "int a;\n", &format!("// {LICENCE}\n"));
        check(licence_comes_first, "bpf/a.h", &format!("// {LICENCE}\n"), &format!("/* {LICENCE} */\n"));
    }

    #[test]
    fn missing_heading_is_refused() {
        let bad = header("1. Something.").replace(" * Units\n", "");
        check(header_has_headings, "bpf/cc/a.bpf.c", &bad, &header("1. Something."));
        check(header_has_headings, "bpf/cc/a.bpf.c", &header(""), &header("None."));
        check(header_has_headings, "bpf/cc/a.bpf.c", &header("Some."), &header("none"));
        let two_sentences = header("none").replace("Halves after a loss.", "Halves. And more");
        check(header_has_headings, "bpf/cc/a.bpf.c", &two_sentences, &header("none"));
    }

    #[test]
    fn headings_in_another_order_are_refused() {
        let bad = header("none").replace("Source", "swap").replace("Idea", "Source").replace("swap", "Idea");
        check(header_has_headings, "bpf/cc/a.bpf.c", &bad, &header("none"));
    }

    #[test]
    fn id_other_than_the_stem_is_refused() {
        check(stem_is_the_id, "bpf/cc/a.bpf.c", "ALGORITHM(b, \"x\", \"y\");\n", "ALGORITHM(a, \"x\", \"y\");\n");
        let long = "ALGORITHM(abcdefghijklmnop, 1);\n";
        assert_eq!(stem_is_the_id(&SourceFile::new("bpf/cc/abcdefghijklmnop.bpf.c", long)).len(), 1);
    }

    #[test]
    fn foreign_include_is_refused() {
        let good = format!("{HEADER}\n{}\n#include \"a/table.h\"\n", FAMILY_CORES[0]);
        check(only_the_one_header_is_included, "bpf/cc/a.bpf.c", "#include \"b.bpf.c\"\n", &good);
    }
}
