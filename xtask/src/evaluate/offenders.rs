//! The suite tested by algorithms of which the literature, or a planted mistake, says what it must find.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use super::pages;
use crate::made::GeneratedTable;
use crate::process;

const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/evaluate/README.md", command: "cargo xtask evaluate --tables --bless" };
/// The algorithm that planted mistakes change.
const BASE: &str = "bpf_reno";
/// Runs of each cell of a planted algorithm: the fewest that give an interval.
const RUNS: &str = "3";

/// What an evaluation must say of an algorithm.
struct Fact {
    algorithm: &'static str,
    /// Section of its criterion.
    section: &'static str,
    word: &'static str,
    fact: &'static str,
    source: &'static str,
}

const fn fact(
    algorithm: &'static str,
    section: &'static str,
    word: &'static str,
    fact: &'static str,
    source: &'static str,
) -> Fact {
    Fact { algorithm, section, word, fact, source }
}

const FACTS: [Fact; 8] = [
    fact("bbr", "5.1.3", "worse", "loses many packets where buffers are shallow", "RFC 9743, section 5.1.3"),
    fact("bbr", "5.2.1", "worse", "takes from CUBIC in shallow buffers", "Hock, Bless and Zitterbart 2017"),
    fact(
        "bbr",
        "5.1.2",
        "better",
        "keeps queues shorter than Reno and CUBIC, which fill them",
        "Cardwell and others 2016",
    ),
    fact("vegas", "5.2", "worse", "starves beside Reno", "Mo, La, Anantharam and Walrand 1999"),
    fact("bpf_scalable", "5.2.1", "worse", "takes from Reno and CUBIC", "Ha and others 2008"),
    fact("deaf", "5.1.1", "worse", "does not reduce its window at losses", "planted"),
    fact("blind", "7.1", "worse", "does not reduce its window at marks", "planted"),
    fact("bpf_reno", "", "no worse", "is Reno, so every ratio to `reno` is 1.00", "exact twin"),
];

/// Changes of [`BASE`]: name, text, and what replaces it.
const PLANTED: [[&str; 3]; 2] = [
    ["deaf", "return reno_ssthresh(tcp_sk(sk));", "return tcp_sk(sk)->snd_cwnd;"],
    [
        "blind",
        "return reno_ssthresh(tcp_sk(sk));",
        "return tcp_sk(sk)->lost_out || tcp_sk(sk)->sacked_out ? reno_ssthresh(tcp_sk(sk)) : tcp_sk(sk)->snd_cwnd;",
    ],
];

/// Words by algorithm: criterion and word.
type Words = BTreeMap<String, Vec<(String, String)>>;

/// Evaluates the planted algorithms in the sections of their facts.
pub fn planted() -> Result<Words> {
    let folder = process::target().join("planted");
    fs::create_dir_all(&folder)?;
    let text = fs::read_to_string(process::workspace().join(format!("bpf/cc/{BASE}.bpf.c")))?;
    let mut words = Words::new();
    for [name, from, to] in PLANTED {
        ensure!(text.contains(from), "{BASE}.bpf.c has no `{from}` to change");
        let file = folder.join(format!("{name}.bpf.c"));
        fs::write(&file, text.replace(from, to).replace(BASE, name))?;
        let section = FACTS.iter().find(|fact| fact.algorithm == name).context("find the fact of a planted mistake")?;
        let file = file.to_str().context("name a file")?.to_owned();
        let evaluated = super::evaluate(&file, &["--runs", RUNS, "--only", section.section])?;
        let table = fs::read_to_string(evaluated.join("overview.md"))?;
        words.insert(name.to_owned(), pages::words_of(&table));
    }
    Ok(words)
}

/// Writes or compares the table of facts.
///
/// # Errors
/// A fact is not found.
pub fn settle(planted: &Words, is_written: bool) -> Result<()> {
    let mut table = String::from(
        "| algorithm | what is known | source | criterion | must be | is |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut missed = Vec::new();
    for Fact { algorithm, section, word, fact, source } in FACTS {
        let words = match planted.get(algorithm) {
            Some(words) => words.clone(),
            None => pages::words(algorithm).with_context(|| format!("read the page of {algorithm}"))?,
        };
        let said = said(section, &words);
        if !is_found(section, word, &said) {
            missed.push(format!("{algorithm} must be {word} in {section}, and is {}", said.join(", ")));
        }
        let criterion = if section.is_empty() { "all" } else { section };
        table += &format!("| `{algorithm}` | {fact} | {source} | {criterion} | {word} | {} |\n", said.join(", "));
    }
    TABLE.settle(&table, is_written)?;
    ensure!(missed.is_empty(), "the suite misses what is known: {}", missed.join("; "));
    Ok(())
}

/// The different words of the criteria in a section; without one, of all.
pub fn said<'w>(section: &str, words: &'w [(String, String)]) -> Vec<&'w str> {
    let is_in = |name: &str| section.is_empty() || name.starts_with(&format!("{section}:"));
    let mut said: Vec<&str> = words.iter().filter(|(name, _)| is_in(name)).map(|(_, word)| word.as_str()).collect();
    said.sort_unstable();
    said.dedup();
    said
}

fn is_found(section: &str, word: &str, said: &[&str]) -> bool {
    if section.is_empty() { said == [word] } else { said.contains(&word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_the_catalogue_come_out_of_the_pages() {
        let is_planted = |name: &str| PLANTED.iter().any(|[planted, ..]| *planted == name);
        for Fact { algorithm, section, word, .. } in FACTS.into_iter().filter(|fact| !is_planted(fact.algorithm)) {
            let words = pages::words(algorithm).unwrap();
            let said = said(section, &words);
            assert!(is_found(section, word, &said), "{algorithm} in {section}: {said:?}");
        }
    }
}
