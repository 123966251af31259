//! Proves properties of every callback, for any arguments and earlier calls, and that every statement is reached.
//!
//! No callback divides by zero, overflows, shifts or reads out of bounds, or sets a threshold below 2 or an empty window.
//! The assumptions are in bpf/host/prove.c. `cargo xtask prove` runs these tests.

use std::collections::BTreeMap;
use std::fs;

use tccc::author::proof::{self, Proof, prove};

use crate::compile::in_tree;
use crate::subject::Subject;

#[test]
#[ignore = "run by `cargo xtask prove`: takes a minute or two"]
fn every_algorithm_is_proved() {
    let (subjects, others) = subjects();
    let recorded = recorded();
    let mut findings = Vec::new();
    let mut record = String::new();
    let mut table =
        String::from("| algorithm | alarms | asserts proved | statements reached |\n| --- | ---: | ---: | ---: |\n");
    println!("algorithm        alarms  asserts proved  statements reached   time");
    let work = |subject: &Subject| {
        let needs = "frama-c starts; `cargo xtask setup --for prove` installs it";
        let digest = proof::digest(subject).expect(needs);
        let known = recorded.get(&digest).cloned();
        let proof = known.is_none().then(|| prove(subject).expect(needs));
        (digest, known, proof)
    };
    crate::subject::for_each(&subjects, work, |subject, (digest, known, proof)| {
        let row = match (known, proof) {
            (None, Some(proof)) => {
                println!("{}", line(&subject.id, proof));
                findings.extend(proof.findings.iter().map(|finding| format!("{}: {finding}", subject.id)));
                row(&subject.id, proof)
            }
            (known, _) => {
                println!("{:16} proved before: its digest is {}", subject.id, &digest[..12]);
                known.clone().unwrap_or_default()
            }
        };
        table.push_str(&row);
        record.push_str(&format!("{digest} {row}"));
    });
    for (id, why) in &others {
        println!("{id:16} {why}");
        table.push_str(&format!("| `{id}` | {why} | - | - |\n"));
    }
    if let Some(path) = std::env::var_os("TCCC_PROVE_TABLE") {
        fs::write(path, table).expect("the table is written");
    }
    assert!(findings.is_empty(), "not proved:\n  {}\n", findings.join("\n  "));
    if let Some(path) = std::env::var_os("TCCC_PROVE_RECORD") {
        fs::write(path, record).expect("the record is written");
    }
}

/// The rows of earlier proofs by their digests, from the file that `TCCC_PROVED` names.
fn recorded() -> BTreeMap<String, String> {
    let Some(path) = std::env::var_os("TCCC_PROVED") else { return BTreeMap::new() };
    let text = fs::read_to_string(path).expect("the record of proofs can be read");
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(digest, row)| (digest.to_owned(), format!("{row}\n")))
        .collect()
}

/// The subjects to prove, and rows of the others: those whose source says `/* unproved: REASON */`, and those that differ
/// from another one in the defaults of tunables alone, which a proof leaves open.
///
/// A subject that is named is proved in any case.
fn subjects() -> (Vec<Subject<'static>>, Vec<(String, String)>) {
    let named = std::env::var("TCCC_ALGORITHMS").is_ok_and(|named| !named.trim().is_empty());
    let (mut proved, mut others, mut first_of) = (Vec::new(), Vec::new(), BTreeMap::new());
    for subject in crate::subject::chosen() {
        let source = fs::read_to_string(&subject.source).expect("a source is a text");
        let unproved = source.split_once("/* unproved: ").and_then(|(_, rest)| rest.split_once(" */"));
        let unproved = unproved.map(|(why, _)| format!("not proved: {why}"));
        let first = without_defaults(&source).map(|code| &*first_of.entry(code).or_insert(subject.id.clone()));
        let first =
            first.filter(|first| **first != subject.id).map(|first| format!("as `{first}`, with other defaults"));
        match unproved.or(first).filter(|_| !named) {
            Some(why) => others.push((subject.id, why)),
            None => proved.push(subject),
        }
    }
    (proved, others)
}

/// The code of an algorithm that only gives defaults to its family's tunables, without these, its title and its name.
///
/// None: it has code of its own, or a definition that is more than the default of a tunable.
fn without_defaults(source: &str) -> Option<String> {
    let code = source.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect::<String>();
    let (head, table) = code.split_once("ALGORITHM(")?;
    let lines = || head.lines().skip(1).filter(|line| !line.trim().is_empty());
    let included = |line: &str| Some(line.strip_prefix("#include \"")?.strip_suffix('"')?.to_owned());
    let headers: Vec<String> = lines().filter_map(included).collect();
    let defined: Vec<&str> = lines().filter_map(|line| line.strip_prefix("#define ")?.split(' ').next()).collect();
    let family = in_tree(&format!("bpf/include/{}", headers.last()?));
    let family = fs::read_to_string(family).expect("a header is a text");
    let is_default = |name: &&str| {
        let uses = || {
            family.lines().filter(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|it| it == *name))
        };
        uses().count() == 3 && uses().all(|line| line.starts_with('#') || line.split(", ").nth(2) == Some(*name))
    };
    let is_all = headers.len() + defined.len() == lines().count() && defined.iter().all(is_default);
    let (_, table) = table.split_once('{')?;
    let table: String = table.lines().filter(|line| !line.trim().starts_with(".name")).collect();
    (is_all && headers.len() > 1).then(|| format!("{headers:?}{table}"))
}

#[test]
fn family_of_cubic_is_one_code() {
    let code = |id: &str| without_defaults(&fs::read_to_string(in_tree(&format!("bpf/cc/{id}.bpf.c"))).unwrap());
    assert!(code("bpf_cubic").is_some());
    assert!(["cct", "cct_lo", "cct_ss", "erfc"].iter().all(|id| code(id) == code("bpf_cubic")));
    assert!(["bpf_reno", "fast", "fastfit", "dfr", "msack"].iter().all(|id| code(id).is_none()));
}

fn line(id: &str, proof: &Proof) -> String {
    let Proof { alarms, proved, asserts, reached, statements, .. } = proof;
    let seconds = proof.time.as_secs_f64();
    format!("{id:16} {alarms:6}  {proved:7} of {asserts:3}  {reached:8} of {statements:6}  {seconds:5.1} s")
}

/// A row of the document's table, without numbers that change with every edit of an algorithm.
fn row(id: &str, proof: &Proof) -> String {
    let reached = match proof.statements - proof.reached {
        0 => "all".to_owned(),
        missing => format!("all but {missing}"),
    };
    format!("| `{id}` | {} | {} of {} | {reached} |\n", proof.alarms, proof.proved, proof.asserts)
}

#[test]
#[ignore = "run by `cargo xtask prove`"]
fn every_kind_of_defect_is_found() {
    let proof = prove(&crate::subject::broken("each_defect")).unwrap();
    let findings = proof.findings.join("\n");
    let check = |what: &str| assert!(findings.contains(what), "{what} is not found, only\n{findings}");
    check("defect_shift: shift: ");
    check("defect_overflow: signed_overflow: ");
    check("defect_bounds: index_bound: ");
    check("defect_division: division_by_zero: ");
    check("defect_uninitialised: initialization: ");
    check("defect_unreached: 3 of 6 statements are reached");
    check("user assertion: 2 ≤ window ≤ ");
    check("user assertion: host->tp.snd_cwnd ≥ 1");
    check("user assertion: host.tp.snd_ssthresh ≥ 2");
}
