//! Rules over any text: open ends, names of hosts and machines, the top level, scenarios, the licence.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// The entries of the top level besides dot files.
const TOP_LEVEL: [&str; 9] =
    ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "bpf", "scenarios", "src", "tests", "xtask"];
/// Scenarios that show the program at work or compare what the papers did not, and repeat nobody's experiment.
const OURS: [&str; 3] = ["scenarios/smoke/", "scenarios/compare/", "scenarios/safety/"];
/// Policies say what connections get; they measure nothing.
const POLICIES: &str = "scenarios/policy/";
/// The generated lock file names the registry; nobody writes it by hand.
const GENERATED: &str = "Cargo.lock";

/// Words of unfinished work, written apart so that this file passes.
fn open_end_words() -> [String; 3] {
    [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["XX", "X"].concat()]
}

/// Unfinished work has an issue number on the same line.
pub fn open_ends_have_an_issue(file: &SourceFile) -> Vec<Finding> {
    if file.path == "LICENSE" || is_binary(file) {
        return Vec::new();
    }
    let words = open_end_words();
    let has_issue = |line: &str| line.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let lines =
        file.lines().filter_map(|(line, text)| Some((line, text, words.iter().find(|word| has_word(text, word))?)));
    let loose = lines.filter(|(_, text, _)| !has_issue(text));
    loose.map(|(line, _, word)| Finding::hard(line, format!("{word} without an issue number (#12)"))).collect()
}

/// Bytes of data spell words by chance.
fn is_binary(file: &SourceFile) -> bool {
    file.text.contains('\0')
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

/// No host of a package registry: the ordinary clients know where to look.
pub fn no_registry_host_is_named(file: &SourceFile) -> Vec<Finding> {
    if file.path == GENERATED {
        return Vec::new();
    }
    let dotted = |parts: &[&str]| parts.join(".");
    let hosts = [
        dotted(&["crates", "io"]),
        dotted(&["pypi", "org"]),
        dotted(&["pythonhosted", "org"]),
        dotted(&["npmjs", "org"]),
        dotted(&["golang", "org"]),
        dotted(&["maven", "org"]),
        dotted(&["maven", "apache", "org"]),
        dotted(&["deb", "debian", "org"]),
        dotted(&["security", "debian", "org"]),
    ];
    let hits = file.lines().filter(|(_, text)| hosts.iter().any(|host| text.contains(host.as_str())));
    hits.map(|(line, _)| Finding::hard(line, "a package registry is named")).collect()
}

/// No path that exists on one machine only.
pub fn no_path_of_one_machine(file: &SourceFile) -> Vec<Finding> {
    let folders = ["work", "farm", "home", "root", "Users", "tmp/wt"].map(|folder| format!("/{folder}/"));
    // A path begins a word; `/` after a name is a relative path.
    let begins = |text: &str, at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.".contains(c));
    let is_absolute =
        |text: &str| folders.iter().any(|path| text.match_indices(path.as_str()).any(|(at, _)| begins(text, at)));
    let lines = file.lines().filter(|(_, text)| is_absolute(text));
    lines.map(|(line, _)| Finding::hard(line, "a path of one machine is named")).collect()
}

/// A scenario says what it shows and, smoke tests aside, who published it.
pub fn scenario_has_title_and_source(file: &SourceFile) -> Vec<Finding> {
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
    missing.map(|key| Finding::hard(0, format!("the scenario has no `{key}`"))).collect()
}

/// Text ends in a line end, and no line in blanks.
pub fn lines_end_cleanly(file: &SourceFile) -> Vec<Finding> {
    // In a patch a line that is empty in the source begins with a blank.
    let is_foreign = [".snap", ".patch"].iter().any(|ending| file.path.ends_with(ending));
    let is_data = is_foreign || file.path.contains("/fixtures/") || is_binary(file);
    if is_data || file.path == "LICENSE" {
        return Vec::new();
    }
    let trailing = file.lines().filter(|(_, text)| text.ends_with([' ', '\t', '\r']));
    let mut findings: Vec<_> = trailing.map(|(line, _)| Finding::hard(line, "blanks at the end of the line")).collect();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::hard(file.text.lines().count(), "no line end at the end of the file"));
    }
    findings
}

/// The top level holds the entries of the architecture.
pub fn top_level_is_known(file: &SourceFile) -> Vec<Finding> {
    let top = file.path.split('/').next().unwrap_or_default();
    let is_known = top.starts_with('.') || TOP_LEVEL.contains(&top);
    Finding::unless(is_known, 0, || format!("\"{top}\" is not one of {TOP_LEVEL:?}"))
}

/// The licence's text and the manifests' word for it agree.
pub fn licence_is_there(tree: &Tree) -> Vec<(String, Finding)> {
    let content = |path: &str| tree.files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let mut findings = Vec::new();
    let text = content("LICENSE").unwrap_or_default();
    if !(text.contains("GNU GENERAL PUBLIC LICENSE") && text.contains("Version 2, June 1991")) {
        findings.push((
            "LICENSE".to_owned(),
            Finding::hard(0, "not the text of the GNU General Public License, version 2"),
        ));
    }
    for manifest in ["Cargo.toml", "xtask/Cargo.toml"] {
        if !content(manifest).unwrap_or_default().contains("license = \"GPL-2.0-only\"") {
            findings.push((manifest.to_owned(), Finding::hard(0, "the manifest's licence is not GPL-2.0-only")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn open_end_without_an_issue_is_refused() {
        let word = &open_end_words()[0];
        check(open_ends_have_an_issue, "src/a.rs", &format!("// {word}: later\n"), &format!("// {word}(#12): later\n"));
        check(open_ends_have_an_issue, "a.bin", &format!("{word}\n"), &format!("\0{word}\n"));
    }

    #[test]
    fn host_of_a_registry_is_refused() {
        check(no_registry_host_is_named, "a.md", &["https://crates", "io/x\n"].join("."), "https://kernel.org\n");
    }

    #[test]
    fn path_of_one_machine_is_refused() {
        check(no_path_of_one_machine, "a.md", &["see /ho", "me/me/a\n"].concat(), "see src/home/a and /proc/self\n");
    }

    #[test]
    fn scenario_without_a_source_is_refused() {
        let good = "title = \"a\"\n[source]\npaper = \"b\"\n";
        check(scenario_has_title_and_source, "scenarios/a/b.toml", "title = \"a\"\n", good);
        check(scenario_has_title_and_source, "scenarios/smoke/b.toml", "runs = 1\n", "title = \"a\"\n");
        let policy = SourceFile::new("scenarios/policy/b.toml", "version = 1\n");
        assert_eq!(scenario_has_title_and_source(&policy), []);
    }

    #[test]
    fn unclean_line_end_is_refused() {
        check(lines_end_cleanly, "src/a.rs", "a \nb\n", "a\nb\n");
        check(lines_end_cleanly, "src/a.rs", "a", "");
    }

    #[test]
    fn unknown_entry_of_the_top_level_is_refused() {
        assert_eq!(top_level_is_known(&SourceFile::new("scripts/a.sh", "")).len(), 1);
        assert_eq!(top_level_is_known(&SourceFile::new(".ci/run", "")), []);
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
