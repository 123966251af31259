//! Generates the README's table of algorithms from the catalogue, the measured risk and `algorithms.json`.

use fs_err as fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::made::{self, GeneratedTable};
use crate::process;

pub const TABLE: GeneratedTable = GeneratedTable { document: "README.md", command: "cargo xtask readme --bless" };
/// Each algorithm's idea, and the verdict on its paper's claims in `scenarios/claims.md`.
const WORDS: &str = include_str!("algorithms.json");
/// Compares each port with the kernel's module.
const PORTS: &str = "bpf/README.md";
/// Largest RMS difference of the windows at which a port is close to the kernel's module, percent.
const CLOSE: f64 = 5.0;

/// One row for each algorithm of tccc; `lines` come from `tccc list -o json`.
pub fn rows(lines: &[Value]) -> Result<String> {
    let words: Value = serde_json::from_str(WORDS).context("read the words of the README's table")?;
    let ports = fs::read_to_string(process::workspace().join(PORTS))?;
    let rows = lines.iter().filter(|line| line["from"] == "tccc").map(|line| {
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let id = text("id");
        let title = text("title").split_once(": ").map_or(text("title"), |(_, idea)| idea);
        let idea = words[id]["idea"].as_str().unwrap_or(title);
        let verdict = words[id]["verdict"].as_str().or_else(|| verdict_of_port(&ports, id)).unwrap_or("-");
        format!("`{id}` | {idea} | {} | {verdict} | {}", short(text("source")), text("risk"))
    });
    Ok(made::table("algorithm | idea | source | verdict | risk", rows))
}

/// Authors and year of the first source: `Ahmad 2017, thesis, chapters 3 and 4` gives `Ahmad 2017`.
fn short(source: &str) -> String {
    let first = source.split([';', ',']).next().unwrap_or(source);
    let with_authors = source.split(';').next().unwrap_or(source);
    let is_year = |word: &&str| word.len() >= 4 && word.bytes().take(4).all(|byte| byte.is_ascii_digit());
    let year = with_authors.split_whitespace().find(is_year).map(|word| &word[..4]);
    match year.and_then(|year| with_authors.split_once(year).map(|(authors, _)| format!("{authors}{year}"))) {
        Some(short) => short,
        None => first.to_owned(),
    }
}

/// A port's closeness to the kernel's module, from its row in the document; `None` without a row.
fn verdict_of_port(document: &str, id: &str) -> Option<&'static str> {
    let row = document.lines().find_map(|line| line.strip_prefix(&format!("| `{id}` | "))?.strip_suffix(" |"))?;
    let cells: Vec<&str> = row.split(" | ").collect();
    let [first, lossy, full, _] = cells.as_slice() else { return None };
    let is_close = |rms: &str| rms.parse::<f64>().is_ok_and(|rms| rms <= CLOSE);
    Some(match (first.ends_with("identical"), is_close(lossy) && is_close(full)) {
        (true, _) => "identical",
        (false, true) => "close",
        (false, false) => "different",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_is_shortened_to_authors_and_year() {
        let shortened =
            ["Verma, Verma & Kumar 2019, equations 3 to 6", "RFC 9438; Ha, Rhee & Xu 2008", "Khalil, sections 2"];
        assert_eq!(shortened.map(short), ["Verma, Verma & Kumar 2019", "RFC 9438", "Khalil"]);
    }

    #[test]
    fn port_has_the_verdict_of_its_row() {
        let document = "| `bpf_a` | none: identical | 0.00 | 0.00 | - |\n| `bpf_b` | full queue: 2 s | 4.9 | 0.1 | 1 |\n\
                        | `bpf_c` | full queue: 2 s | 0.1 | 5.1 | 1 |\n";
        let verdicts = ["bpf_a", "bpf_b", "bpf_c", "bpf_d"].map(|id| verdict_of_port(document, id));
        assert_eq!(verdicts, [Some("identical"), Some("close"), Some("different"), None]);
    }

    #[test]
    fn ideas_are_short_and_of_algorithms_in_the_tree() {
        let words: Value = serde_json::from_str(WORDS).unwrap();
        for (id, words) in words.as_object().unwrap() {
            assert!(process::workspace().join(format!("bpf/cc/{id}.bpf.c")).exists(), "{id}");
            assert!(words["idea"].as_str().is_some_and(|idea| idea.split(' ').count() <= 6), "{id}: {words}");
        }
    }
}
