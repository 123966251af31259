//! Words that some files must not contain.

use std::sync::LazyLock;

use super::Fault;
use super::tree::SourceFile;
use crate::process;

/// Words that are banned from the lines of some files.
struct Ban {
    /// Separated by blanks.
    words: &'static str,
    /// Whether the ban covers a file.
    covers: fn(&SourceFile) -> bool,
    /// What to do instead.
    instead: &'static str,
}

/// Modules of `src/shared` without input, output, clock or randomness.
const PURE: [&str; 7] = ["units", "failure", "sanitize", "suggest", "event", "arrival", "model"];
/// Its writer never fails a verb that changes something.
const WRITES_STDOUT: &str = "src/cli/output/stdout.rs";
const USES_STDERR: [&str; 2] = ["src/cli", "src/lab/virtual_time"];
/// The only file of the tests that may sleep.
const WAITING_PLACE: &str = "tests/common/mod.rs";
/// Lines `PHRASE: REPLACEMENT` with phrases to avoid.
const PHRASES: &str = include_str!("phrases.txt");

const IN_CODE: [Ban; 3] = [
    Ban {
        words: "std::fs std::net::TcpStream std::net::TcpListener std::process std::env Instant::now SystemTime::now \
                rand_pcg std::thread",
        covers: |file| file.is_product_rust() && is_pure(file),
        instead: "the module is pure: plain data in, plain data out",
    },
    Ban {
        words: "println! print! stdout() dbg!",
        covers: |file| file.is_product_rust() && file.path != WRITES_STDOUT,
        instead: "print with `cli::output::results()`, because printing must not end a change half-way",
    },
    Ban {
        words: "eprintln! eprint! stderr()",
        covers: |file| file.is_product_rust() && !file.is_in(&USES_STDERR),
        instead: "return it: only `cli` and `virtual_time` write to stderr",
    },
];

/// In pieces, so that this file does not contain them.
const ANYWHERE: [Ban; 3] = [
    Ban {
        words: concat!(
            "crates",
            ".io pypi",
            ".org pythonhosted",
            ".org npmjs",
            ".org golang",
            ".org maven",
            ".org maven.apache",
            ".org deb.debian",
            ".org security.debian",
            ".org"
        ),
        covers: |file| file.path != "Cargo.lock",
        instead: "name no package registry",
    },
    Ban {
        words: concat!("/wo", "rk/ /fa", "rm/ /ho", "me/ /ro", "ot/ /Us", "ers/ /tmp", "/wt/"),
        covers: |_| true,
        instead: "name no path of one machine",
    },
    Ban {
        words: concat!("TO", "DO FIX", "ME XX", "X"),
        covers: |file| file.path != "LICENSE",
        instead: "name the issue (#12)",
    },
];

fn is_pure(file: &SourceFile) -> bool {
    let module = file.path.strip_prefix("src/shared/").and_then(|path| path.split(['/', '.']).next());
    module.is_some_and(|module| PURE.contains(&module))
}

pub fn words_are_allowed(file: &SourceFile) -> Vec<Fault> {
    if file.is_binary() {
        return Vec::new();
    }
    let product: Vec<_> = file.product().collect();
    let in_code = IN_CODE.iter().filter(|ban| (ban.covers)(file)).flat_map(|ban| ban.faults(&product));
    let all: Vec<_> = file.lines().collect();
    let anywhere = ANYWHERE.iter().filter(|ban| (ban.covers)(file)).flat_map(|ban| ban.faults(&all));
    in_code.chain(anywhere).chain(phrases(file)).collect()
}

impl Ban {
    fn faults<'a>(&self, lines: &'a [(usize, &str)]) -> impl Iterator<Item = Fault> + use<'a> {
        let (words, instead) = (self.words, self.instead);
        let found = move |text: &str| words.split_whitespace().find(|word| has(text, word) && !has_issue(text));
        lines
            .iter()
            .filter_map(move |(line, text)| found(text).map(|word| Fault::hard(*line, format!("`{word}`: {instead}"))))
    }
}

/// Whether the text names an issue, as unfinished work has to.
fn has_issue(text: &str) -> bool {
    text.split('#').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether the text contains these words, which nothing continues on either side.
fn has(text: &str, words: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let continues = |c: Option<char>| is_letter(c) || c.is_some_and(|c| "_-.".contains(c));
    let is_whole = |at: usize| {
        let [before, last] = [&text[..at], words].map(|part| part.chars().next_back());
        let after = text[at + words.len()..].chars().next();
        !(continues(before) || is_letter(last) && is_letter(after))
    };
    text.match_indices(words).any(|(at, _)| is_whole(at))
}

/// Phrases that have to be read twice, in a document or in code.
fn phrases(file: &SourceFile) -> Vec<Fault> {
    if !file.ends_with(&[".md", ".toml", ".rs", ".c", ".h"]) {
        return Vec::new();
    }
    let banned = |line: usize, text: &str| -> Vec<Fault> {
        let text = text.to_lowercase();
        let found = PHRASES.lines().filter_map(|line| line.split_once(": ")).filter(|(phrase, _)| has(&text, phrase));
        found.map(|(phrase, instead)| Fault::hard(line, format!("\"{phrase}\": better {instead}"))).collect()
    };
    file.lines().flat_map(|(line, text)| banned(line, text)).collect()
}

/// Tests wait for conditions, not for time. A measurement that needs time says so on the line or above it.
pub fn tests_do_not_sleep(file: &SourceFile) -> Vec<Fault> {
    if !file.path.ends_with(".rs") || file.path == WAITING_PLACE {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let says_why = |line: usize| lines[line.saturating_sub(2)..line].iter().any(|text| text.contains("//"));
    let tests = file.tests();
    let sleeping = file.lines().filter(|(line, text)| *line > tests && text.contains("sleep(") && !says_why(*line));
    let message = "a test that sleeps: `poll_until` waits for a condition; a comment says why time itself must pass";
    sleeping.map(|(line, _)| Fault::hard(line, message)).collect()
}

/// The catalogue finds algorithms by their files, so product code must not name one.
pub fn no_algorithm_is_named(file: &SourceFile) -> Vec<Fault> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let names = process::names_in(&process::workspace().join("bpf/cc"), ".bpf.c");
        names.iter().map(|name| format!("\"{name}\"")).collect()
    });
    if !file.is_product_rust() {
        return Vec::new();
    }
    let named = file.product().filter_map(|(line, text)| Some((line, NAMES.iter().find(|name| text.contains(*name))?)));
    named.map(|(line, name)| Fault::hard(line, format!("names the algorithm {name}: ask the catalogue"))).collect()
}
