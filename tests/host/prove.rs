//! Proves properties of every callback, for any arguments and earlier calls, and that every statement is reached.
//!
//! No callback divides by zero, overflows, shifts or reads out of bounds, or sets a threshold below 2 or an empty window. The
//! assumptions are in bpf/host/prove.c. `cargo xtask prove` runs these tests.

use tccc::author::proof::{Proof, prove};

#[test]
#[ignore = "run by `cargo xtask prove`: takes a minute or two"]
fn every_algorithm_is_proved() {
    let subjects = crate::subject::chosen();
    let mut findings = Vec::new();
    let mut table =
        String::from("| algorithm | alarms | asserts proved | statements reached |\n| --- | ---: | ---: | ---: |\n");
    println!("algorithm        alarms  asserts proved  statements reached   time");
    let work = |subject: &crate::subject::Subject| {
        prove(subject).expect("frama-c starts; `cargo xtask setup --for prove` installs it")
    };
    crate::subject::for_each(&subjects, work, |subject, proof| {
        println!("{}", line(&subject.id, proof));
        table.push_str(&row(&subject.id, proof));
        findings.extend(proof.findings.iter().map(|finding| format!("{}: {finding}", subject.id)));
    });
    if let Some(path) = std::env::var_os("TCCC_PROVE_TABLE") {
        std::fs::write(path, table).expect("the table is written");
    }
    assert!(findings.is_empty(), "not proved:\n  {}\n", findings.join("\n  "));
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
