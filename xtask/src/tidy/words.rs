//! Rules over words: short sentences in READMEs, short subjects of commits.

use super::Fault;
use super::tree::SourceFile;

/// Names of the documents whose sentences are short.
const FOR_READERS: [&str; 2] = ["README.md", "PORTING.md"];
/// Most words of a sentence in such a document.
const SENTENCE: usize = 25;
/// Most words of the top README, with code and tables.
const README: usize = 1400;
/// Most characters of a commit's subject.
const SUBJECT: usize = 72;
/// Last commit before the rule about subjects.
const BEFORE: &str = "33baef5";
/// Abbreviations that do not end a sentence.
const ABBREVIATIONS: [&str; 3] = ["al.", "e.g.", "i.e."];

/// Sentences of a document for readers are short. Code, tables, generated parts and references do not count.
pub fn sentences_are_short(file: &SourceFile) -> Vec<Fault> {
    if !file.path.rsplit('/').next().is_some_and(|name| FOR_READERS.contains(&name)) {
        return Vec::new();
    }
    let long = sentences(&file.text).into_iter().filter(|(_, words)| *words > SENTENCE);
    long.map(|(line, words)| Fault::hard(line, format!("a sentence of {words} words, at most {SENTENCE}"))).collect()
}

pub fn readme_is_short(file: &SourceFile) -> Vec<Fault> {
    let words = file.text.split_whitespace().filter(|word| is_word(word)).count();
    Fault::unless(file.path != "README.md" || words <= README, 0, || format!("{words} words, at most {README}"))
}

/// Lines `hash subject`. A shallow clone lacks the commit before the rule; CI has all commits.
pub fn commits() -> String {
    super::git(&["log", "--format=%h %s", &format!("{BEFORE}..HEAD")])
}

pub fn long_subjects(log: &str) -> Vec<(&'static str, String, Fault)> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long = commits.filter(|(_, subject)| subject.chars().count() > SUBJECT);
    let fault = || Fault::hard(0, format!("a subject of more than {SUBJECT} characters"));
    long.map(|(hash, _)| ("short subjects", format!("commit {hash}"), fault())).collect()
}

/// First line and number of words of each sentence in prose.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let (mut sentences, mut open) = (Vec::new(), None);
    let [mut is_code, mut is_made, mut is_references, mut is_code_span] = [false; 4];
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if line.starts_with("<!-- ") {
            is_made = line.starts_with("<!-- made by");
        }
        if line.starts_with('#') && !is_code {
            is_references = line.ends_with("# References");
        }
        let is_prose = !(line.is_empty() || is_fence || line.starts_with(['#', '|', '<']));
        let is_read = is_prose && !is_code && !is_made && !is_references;
        if !is_read || is_item(line) {
            is_code_span = false;
            sentences.extend(open.take());
        }
        for word in line.split_whitespace().filter(|_| is_read) {
            // A code span counts as one word.
            if !is_code_span && is_word(word) {
                open.get_or_insert((number, 0)).1 += 1;
            }
            is_code_span ^= word.matches('`').count() % 2 == 1;
            if !is_code_span && ends_sentence(word) {
                sentences.extend(open.take());
            }
        }
    }
    sentences.extend(open);
    sentences
}

/// Whether a line begins a list item.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || number.len() < line.len() && number.starts_with(". ")
}

fn is_word(word: &str) -> bool {
    word.contains(char::is_alphanumeric)
}

fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches([')', '"', '*', '_']);
    let is_initial = bare.len() == 2 && bare.starts_with(|c: char| c.is_ascii_uppercase());
    bare.ends_with(['.', '?', '!']) && !is_initial && !ABBREVIATIONS.contains(&bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_subjects_are_refused() {
        assert_eq!(long_subjects(&format!("ab {}\ncd {}\n", "a".repeat(73), "a".repeat(72))).len(), 1);
    }

    #[test]
    fn sentences_end_at_stops_items_and_paragraphs() {
        let text = "# A heading. Of two\nOne two. Three\nfour `a b. c` by B. Six!\n\n- One\n- Two three:\n## References\nA b.\n";
        assert_eq!(sentences(text), [(2, 2), (2, 6), (5, 1), (6, 2)]);
    }
}
