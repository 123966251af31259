//! Rules over words: short sentences in READMEs, plain phrases, short subjects of commits.

use super::Fault;
use super::tree::{SourceFile, Tree};
use crate::process;

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

/// Lines `PHRASE: REPLACEMENT` with phrases to avoid.
const PHRASES: &str = include_str!("phrases.txt");

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

/// Documents, comments and literals contain no phrase to avoid.
pub fn phrases_are_plain(tree: &Tree) -> Vec<(String, Fault)> {
    let found = tree.files.iter().flat_map(|file| phrases(file).into_iter().map(|found| (file.path.clone(), found)));
    let finding = |(path, (line, phrase, instead))| {
        (path, Fault::hard(line, format!("\"{phrase}\" has to be read twice; better {instead}")))
    };
    found.map(finding).collect()
}

/// Phrases in a document, or in the comments and literals of code.
fn phrases(file: &SourceFile) -> Vec<(usize, &'static str, &'static str)> {
    let is_document = [".md", ".toml"].iter().any(|ending| file.path.ends_with(ending));
    let scanned = file.scanned();
    let whole = file.lines().filter(|_| is_document);
    let comments = scanned.comments.iter().enumerate().map(|(index, text)| (index + 1, text.as_str()));
    let literals = scanned.literals.iter().map(|(line, text)| (*line, text.as_str()));
    let texts = whole.chain(comments).chain(literals).map(|(line, text)| (line, text.to_lowercase()));
    let found = |(line, text): (usize, String)| {
        let phrases = PHRASES.lines().filter_map(|line| line.split_once(": "));
        phrases
            .filter(|(phrase, _)| has_phrase(&text, phrase))
            .map(|(phrase, instead)| (line, phrase, instead))
            .collect::<Vec<_>>()
    };
    texts.flat_map(found).collect()
}

/// Whether the text contains the phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, found)| {
        !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + found.len()..].chars().next())
    })
}

pub fn commit_subjects_are_short(_: &Tree) -> Vec<(String, Fault)> {
    let mut git = process::program("git");
    git.args(["-c", "safe.directory=*", "log", "--format=%h %s", &format!("{BEFORE}..HEAD")]);
    // A shallow clone lacks the commit before the rule; CI has all commits.
    let log = process::output("list commits", &mut git).unwrap_or_default();
    long_subjects(&log)
}

/// Findings in lines `hash subject`.
fn long_subjects(log: &str) -> Vec<(String, Fault)> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let lengths = commits.map(|(hash, subject)| (hash, subject.chars().count()));
    let long = lengths.filter(|(_, length)| *length > SUBJECT);
    let finding = |(hash, length)| {
        (format!("commit {hash}"), Fault::hard(0, format!("a subject of {length} characters, at most {SUBJECT}")))
    };
    long.map(finding).collect()
}

/// State while reading a document line by line.
#[derive(Default)]
struct ProseReader {
    is_code: bool,
    is_made: bool,
    is_references: bool,
    /// First line and number of words of the unfinished sentence.
    open: Option<(usize, usize)>,
    is_code_span: bool,
    sentences: Vec<(usize, usize)>,
}

/// First line and number of words of each sentence in prose.
fn sentences(text: &str) -> Vec<(usize, usize)> {
    let mut reader = ProseReader::default();
    for (index, line) in text.lines().enumerate() {
        reader.take(index + 1, line.trim());
    }
    reader.end_sentence();
    reader.sentences
}

impl ProseReader {
    fn take(&mut self, number: usize, line: &str) {
        if line.starts_with("```") {
            self.is_code = !self.is_code;
        }
        if line.starts_with("<!-- ") {
            self.is_made = line.starts_with("<!-- made by");
        }
        if line.starts_with('#') && !self.is_code {
            self.is_references = line.ends_with("# References");
        }
        let is_left_out = self.is_code || self.is_made || self.is_references;
        if is_left_out || line.is_empty() || line.starts_with(['#', '|', '<']) || line.starts_with("```") {
            self.end_sentence();
            return;
        }
        if is_item(line) {
            self.end_sentence();
        }
        line.split_whitespace().for_each(|word| self.take_word(number, word));
    }

    /// Counts a code span as one word.
    fn take_word(&mut self, line: usize, word: &str) {
        let was_code_span = self.is_code_span;
        self.is_code_span ^= word.matches('`').count() % 2 == 1;
        if !was_code_span && is_word(word) {
            let (begin, words) = self.open.unwrap_or((line, 0));
            self.open = Some((begin, words + 1));
        }
        if !self.is_code_span && ends_sentence(word) {
            self.end_sentence();
        }
    }

    fn end_sentence(&mut self) {
        self.is_code_span = false;
        self.sentences.extend(self.open.take());
    }
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
    use crate::tidy::sample::check;

    #[test]
    fn long_sentences_readmes_and_subjects_are_refused() {
        let words = |number: usize| "word ".repeat(number) + "end.\n";
        check(sentences_are_short, "README.md", &words(25), &words(24));
        check(sentences_are_short, "a/README.md", &words(30), &format!("| {} |\n```\n{}\n```\n", words(30), words(30)));
        assert_eq!(sentences_are_short(&SourceFile::new("a.md", &words(30))), []);
        check(readme_is_short, "README.md", &"a ".repeat(README + 1), &"a | ".repeat(README));
        let log = format!("ab {}\ncd {}\n", "a".repeat(73), "a".repeat(72));
        assert_eq!(long_subjects(&log).len(), 1);
    }

    #[test]
    fn sentences_end_at_stops_items_and_paragraphs() {
        let text = "# A heading. Of two\nOne two. Three\nfour `a b. c` by B. Six!\n\n- One\n- Two three:\n## References\nA b.\n";
        assert_eq!(sentences(text), [(2, 2), (2, 6), (5, 1), (6, 2)]);
    }

    #[test]
    fn phrase_is_found_in_documents_comments_and_literals() {
        let tree = |path: &str, text: &str| Tree { files: vec![SourceFile::new(path, text)] };
        assert_eq!(phrases_are_plain(&tree("a.md", concat!("what is Sent", " again\n")))[0].1.line, 1);
        assert_eq!(phrases_are_plain(&tree("a.md", "what is present again\n")), []);
        let code = concat!("let sent_again = 1; // sent", " again\nlet a = \"by the", " clock\";\n");
        assert_eq!(phrases_are_plain(&tree("xtask/src/a.rs", code)).len(), 2);
    }
}
