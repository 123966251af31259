//! Rules over any text.

use super::Fault;
use super::tree::{SourceFile, Tree};

/// Entries of the top level, except dot files.
const TOP_LEVEL: [&str; 9] =
    ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "bpf", "scenarios", "src", "tests", "xtask"];
/// Scenarios that repeat no published experiment.
const OURS: [&str; 3] = ["scenarios/smoke/", "scenarios/compare/", "scenarios/safety/"];
const POLICIES: &str = "scenarios/policy/";
/// The generated lock file, which names the registry.
const GENERATED: &str = "Cargo.lock";

/// Words of unfinished work, split so that this file passes.
fn open_end_words() -> [String; 3] {
    [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()]
}

/// Unfinished work names an issue number on the same line.
pub fn open_ends_have_an_issue(file: &SourceFile) -> Vec<Fault> {
    if file.path == "LICENSE" || is_binary(file) {
        return Vec::new();
    }
    let words = open_end_words();
    let has_issue = |line: &str| line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let lines =
        file.lines().filter_map(|(line, text)| Some((line, text, words.iter().find(|word| has_word(text, word))?)));
    let loose = lines.filter(|(_, text, _)| !has_issue(text));
    loose.map(|(line, _, word)| Fault::hard(line, format!("{word} without an issue number (#12)"))).collect()
}

/// Binary data may contain any word by chance.
fn is_binary(file: &SourceFile) -> bool {
    file.text.contains('\0')
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

pub fn no_registry_host_is_named(file: &SourceFile) -> Vec<Fault> {
    if file.path == GENERATED {
        return Vec::new();
    }
    // Blanks instead of dots let this file pass.
    let hosts = "crates io,pypi org,pythonhosted org,npmjs org,golang org,maven org,maven apache org,deb debian org,\
                 security debian org"
        .replace(' ', ".");
    let hits = file.lines().filter(|(_, text)| hosts.split(',').any(|host| text.contains(host)));
    hits.map(|(line, _)| Fault::hard(line, "a package registry is named")).collect()
}

pub fn no_path_of_one_machine(file: &SourceFile) -> Vec<Fault> {
    let folders = ["work", "farm", "home", "root", "Users", "tmp/wt"].map(|folder| format!("/{folder}/"));
    // A path begins a word; `/` after a name is a relative path.
    let begins = |text: &str, at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
    let is_absolute =
        |text: &str| folders.iter().any(|path| text.match_indices(path.as_str()).any(|(at, _)| begins(text, at)));
    let lines = file.lines().filter(|(_, text)| is_absolute(text));
    lines.map(|(line, _)| Fault::hard(line, "a path of one machine is named")).collect()
}

/// A scenario has a title and, if it repeats a paper, a source.
pub fn scenario_has_title_and_source(file: &SourceFile) -> Vec<Fault> {
    let is_toml = file.path.starts_with("scenarios/") && file.path.ends_with(".toml");
    if !is_toml || file.path.starts_with(POLICIES) {
        return Vec::new();
    }
    let has_key = |key: &str| {
        let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
        file.text.lines().any(|line| is_key(line) || line.trim() == format!("[{key}]"))
    };
    let wanted =
        if OURS.iter().any(|folder| file.path.starts_with(folder)) { &["title"][..] } else { &["title", "source"][..] };
    let missing = wanted.iter().filter(|key| !has_key(key));
    missing.map(|key| Fault::hard(0, format!("the scenario has no `{key}`"))).collect()
}

/// Text ends with a line end, and no line ends with blanks.
pub fn lines_end_cleanly(file: &SourceFile) -> Vec<Fault> {
    // In a patch an empty line of the source is a blank.
    let is_foreign = [".snap", ".patch"].iter().any(|ending| file.path.ends_with(ending));
    let is_data = is_foreign || file.path.contains("/fixtures/") || is_binary(file);
    if is_data || file.path == "LICENSE" {
        return Vec::new();
    }
    let trailing = file.lines().filter(|(_, text)| text.ends_with([' ', '\t', '\r']));
    let mut findings: Vec<_> = trailing.map(|(line, _)| Fault::hard(line, "blanks at the end of the line")).collect();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Fault::hard(file.text.lines().count(), "no line end at the end of the file"));
    }
    findings
}

pub fn top_level_is_known(file: &SourceFile) -> Vec<Fault> {
    let top = file.path.split('/').next().unwrap_or_default();
    let is_known = top.starts_with('.') || TOP_LEVEL.contains(&top);
    Fault::unless(is_known, 0, || format!("\"{top}\" is not one of {TOP_LEVEL:?}"))
}

/// The text of the licence and the manifests agree.
pub fn licence_is_there(tree: &Tree) -> Vec<(String, Fault)> {
    let content = |path: &str| tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let mut findings = Vec::new();
    let text = content("LICENSE").unwrap_or_default();
    if !(text.contains("GNU GENERAL PUBLIC LICENSE") && text.contains("Version 2, June 1991")) {
        findings
            .push(("LICENSE".to_owned(), Fault::hard(0, "not the text of the GNU General Public License, version 2")));
    }
    for manifest in ["Cargo.toml", "xtask/Cargo.toml"] {
        if !content(manifest).unwrap_or_default().contains("license = \"GPL-2.0-only\"") {
            findings.push((manifest.to_owned(), Fault::hard(0, "the manifest's licence is not GPL-2.0-only")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        let word = &open_end_words()[0];
        check(open_ends_have_an_issue, "src/a.rs", &format!("// {word}: later\n"), &format!("// {word}(#12): later\n"));
        check(open_ends_have_an_issue, "a.bin", &format!("{word}\n"), &format!("\0{word}\n"));
        check(no_registry_host_is_named, "a.md", &["https://crates", "io/x\n"].join("."), "https://kernel.org\n");
        check(no_path_of_one_machine, "a.md", &["see /ho", "me/me/a\n"].concat(), "see src/home/a and /proc/self\n");
        let good = "title = \"a\"\n[source]\npaper = \"b\"\n";
        check(scenario_has_title_and_source, "scenarios/a/b.toml", "title = \"a\"\n", good);
        check(scenario_has_title_and_source, "scenarios/smoke/b.toml", "runs = 1\n", "title = \"a\"\n");
        let policy = SourceFile::new("scenarios/policy/b.toml", "version = 1\n");
        assert_eq!(scenario_has_title_and_source(&policy), []);
        check(lines_end_cleanly, "src/a.rs", "a \nb\n", "a\nb\n");
        check(lines_end_cleanly, "src/a.rs", "a", "");
        let found = |path| top_level_is_known(&SourceFile::new(path, "")).len();
        assert_eq!(["scripts/a.sh", ".ci/run"].map(found), [1, 0]);
    }

    #[test]
    fn missing_licence_is_refused() {
        assert_eq!(licence_is_there(&Tree { files: Vec::new() }).len(), 3);
        let licence = SourceFile::new("LICENSE", "GNU GENERAL PUBLIC LICENSE\n Version 2, June 1991\n");
        let manifest = |path| SourceFile::new(path, "license = \"GPL-2.0-only\"\n");
        let files = vec![licence, manifest("Cargo.toml"), manifest("xtask/Cargo.toml")];
        assert_eq!(licence_is_there(&Tree { files }), []);
    }
}
