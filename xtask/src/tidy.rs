//! Checks the rules of style. Each rule is one function over one file, or over all files.
//!
//! A rule returns its findings and prints nothing. Soft findings warn, hard ones fail.

mod algorithm;
mod reach;
mod rust;
mod scan;
mod size;
mod text;
pub mod tree;
mod words;

use anyhow::{Result, bail};

use scan::Language;
use tree::{SourceFile, Tree};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line from 1; 0 for the whole file.
    line: usize,
    /// What is wrong, and what would be right.
    message: String,
    /// A warning instead of an error.
    is_soft: bool,
}

impl Fault {
    fn hard(line: usize, message: impl Into<String>) -> Self {
        Fault { line, message: message.into(), is_soft: false }
    }

    /// One hard finding unless the condition holds.
    fn unless(holds: bool, line: usize, message: impl FnOnce() -> String) -> Vec<Fault> {
        if holds { Vec::new() } else { vec![Fault::hard(line, message())] }
    }

    fn soft(line: usize, message: impl Into<String>) -> Self {
        Fault { line, message: message.into(), is_soft: true }
    }
}

type FileRule = fn(&SourceFile) -> Vec<Fault>;
type TreeRule = fn(&Tree) -> Vec<(String, Fault)>;

const RUST_RULES: [(&str, FileRule); 4] = [
    ("file says what it is for", rust::file_says_what_it_is_for),
    ("no code in comments", rust::no_code_in_comments),
    ("tests do not sleep", rust::tests_do_not_sleep),
    ("started programs are installed", rust::started_programs_are_installed),
];

const C_RULES: [(&str, FileRule); 2] = [
    ("C file begins with its licence", algorithm::licence_comes_first),
    ("C function size", size::c_functions_are_small),
];

const FILE_RULES: [(&str, FileRule); 16] = [
    ("algorithm has its headings", algorithm::header_has_headings),
    ("file stem is the id", algorithm::stem_is_the_id),
    ("algorithm includes one header", algorithm::only_the_one_header_is_included),
    ("pure modules stay pure", reach::pure_modules_reach_nothing),
    ("one file prints", reach::one_file_writes_to_stdout),
    ("file size", size::file_is_not_too_long),
    ("file bytes", size::file_is_not_too_big),
    ("modules name a thing", rust::modules_name_a_thing),
    ("open ends have an issue", text::open_ends_have_an_issue),
    ("no registry host", text::no_registry_host_is_named),
    ("no path of one machine", text::no_path_of_one_machine),
    ("scenario has title and source", text::scenario_has_title_and_source),
    ("lines end cleanly", text::lines_end_cleanly),
    ("top level", text::top_level_is_known),
    ("short sentences", words::sentences_are_short),
    ("short README", words::readme_is_short),
];

const TREE_RULES: [(&str, TreeRule); 4] = [
    ("no Rust file names an algorithm", reach::no_rust_file_names_an_algorithm),
    ("licence", text::licence_is_there),
    ("plain phrases", words::phrases_are_plain),
    ("short subjects", words::commit_subjects_are_short),
];

/// `cargo xtask tidy`: checks every rule over every file of the project.
pub fn run() -> Result<()> {
    let tree = Tree::read()?;
    let findings = check(&tree);
    for (rule, path, finding) in &findings {
        let level = if finding.is_soft { "warning" } else { "error" };
        eprintln!("tidy: {level}: {path}:{}: {} [{rule}]", finding.line, finding.message);
    }
    let hard = findings.iter().filter(|(_, _, finding)| !finding.is_soft).count();
    let rules = RUST_RULES.len() + C_RULES.len() + FILE_RULES.len() + TREE_RULES.len();
    eprintln!("tidy: {} files, {rules} rules, {hard} errors, {} warnings", tree.files.len(), findings.len() - hard);
    if hard > 0 {
        bail!("tidy: {hard} errors");
    }
    Ok(())
}

/// The findings with rule and path.
fn check(tree: &Tree) -> Vec<(&'static str, String, Fault)> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let of_language = match file.language() {
            Some(Language::Rust) => &RUST_RULES[..],
            Some(Language::C) => &C_RULES[..],
            None => &[],
        };
        for (name, rule) in of_language.iter().chain(&FILE_RULES) {
            findings.extend(rule(file).into_iter().map(|finding| (*name, file.path.clone(), finding)));
        }
    }
    for (name, rule) in TREE_RULES {
        findings.extend(rule(tree).into_iter().map(|(path, finding)| (name, path, finding)));
    }
    findings
}

#[cfg(test)]
mod sample {
    use super::{Fault, SourceFile};

    /// Checks that the rule finds something in `bad` and nothing in `good`.
    #[track_caller]
    pub fn check(rule: fn(&SourceFile) -> Vec<Fault>, path: &str, bad: &str, good: &str) {
        assert_ne!(rule(&SourceFile::new(path, bad)), [], "the bad sample passes");
        assert_eq!(rule(&SourceFile::new(path, good)), [], "the good sample is refused");
    }
}
