//! The level, its sentence, and what counts as not measured.

use super::*;
use crate::catalog;

fn finding(criterion: &str, verdict: &str, level: Level) -> Finding {
    Finding {
        criterion: criterion.to_owned(),
        verdict: verdict.to_owned(),
        level,
        why: "goodput_bps is 0.50".to_owned(),
        cell: "e10, queue 1bdp".to_owned(),
        ratio: Some(0.5),
        ci95: Some([0.4, 0.6]),
        harm: Some(1.6),
        n: 10,
    }
}

fn findings(criteria: &[Finding]) -> Findings {
    Findings { schema: RISK_SCHEMA, code: None, kernel: "7.3".to_owned(), criteria: criteria.to_vec() }
}

fn risk(criteria: &[Finding]) -> Risk {
    Risk::from(&findings(criteria), true)
}

#[test]
fn worst_criterion_decides_the_word_and_is_named() {
    let good = || finding("5.1.1: congestion collapse", "no worse", Level::Low);
    let low = risk(&[good(), good()]);
    let none = "in none of 2 criteria worse than Reno and CUBIC";
    assert_eq!((low.level, low.sentence.as_str()), (Level::Low, none));
    let unclear = risk(&[good(), finding("7.8: transient events", "cannot tell", Level::Medium)]);
    let said = format!("{none}; cannot tell in 7.8: transient events: goodput_bps is 0.50 (e10, queue 1bdp)");
    assert_eq!((unclear.level, unclear.sentence), (Level::Medium, said));
    let worse = finding("5.2.1: harm", "worse", Level::Medium);
    let worst = Finding { harm: Some(9.0), ..finding("7.1: queues", "worse", Level::High) };
    let both = risk(&[worst.clone(), good(), Finding { harm: Some(30.0), ..worse }]);
    assert_eq!(both.level, Level::High);
    assert!(both.sentence.starts_with("in 2 of 3 criteria") && both.sentence.contains("most in 7.1: "), "{both:?}");
    let broken = Finding { harm: None, cell: String::new(), ..finding("5.1.1: collapse", "worse", Level::High) };
    let sentence = risk(&[broken, worst]).sentence;
    assert!(sentence.ends_with("most in 5.1.1: collapse: goodput_bps is 0.50"), "a property comes first: {sentence}");
}

#[test]
fn criterion_without_a_measurement_counts_as_high() {
    let missing = finding("6.4: wireless paths", "not measured", Level::NotMeasured);
    let risk = risk(&[missing, finding("7.1: queues", "worse", Level::High)]);
    assert!(risk.level.counts_as_high() && risk.level == Level::NotMeasured, "{risk:?}");
    assert_eq!(Risk::from(&findings(&[]), true).level, Level::NotMeasured);
}

#[test]
fn own_object_has_the_risk_of_the_file_beside_it_and_of_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let [object, file] = ["mine.bpf.o", "mine.risk.json"].map(|name| folder.path().join(name));
    let mut bytes = catalog::find("dtcp").unwrap().object.to_vec();
    bytes.push(0);
    std::fs::write(&object, &bytes).unwrap();
    let risk = || Risk::of(&catalog::open(&object).unwrap());
    let put = |findings: &Findings| std::fs::write(&file, serde_json::to_string(findings).unwrap()).unwrap();
    let refused = |why: &str| {
        let risk = risk();
        assert!(risk.level == Level::NotMeasured && risk.sentence.contains(why), "{risk:?}");
    };
    refused("nobody has evaluated it");
    let code = Some(catalog::open(&object).unwrap().digest());
    let mut good = Findings { code, ..evaluated()["bpf_reno"].clone() };
    good.criteria[0].why = "\u{1b}[2J".to_owned();
    put(&good);
    assert_eq!((risk().level, risk().of_this_code), (Level::Low, true));
    assert!(!risk().criteria[0].why.contains('\u{1b}') && risk().sentence.contains("mine.risk.json"));
    put(&Findings { criteria: good.criteria[1..].to_vec(), ..good.clone() });
    refused("it has no criterion");
    put(&Findings {
        criteria: good.criteria.iter().map(|one| Finding { n: 1, ..one.clone() }).collect(),
        ..good.clone()
    });
    refused("fewer than 3 runs");
    std::fs::write(&file, "{\"\\u001b[2J\": 1}").unwrap();
    assert!(!risk().sentence.contains('\u{1b}'), "{:?}", risk().sentence);
    put(&Findings { schema: 9, ..good.clone() });
    refused("its schema is 9");
    std::fs::write(&file, "{").unwrap();
    refused("cannot read");
    put(&Findings { code: None, ..good.clone() });
    refused("another version");
    put(&good);
    bytes.push(0);
    std::fs::write(&object, &bytes).unwrap();
    refused("another version");
}

#[test]
fn set_tunables_are_not_measured() {
    let carried = catalog::find("dtcp").unwrap();
    let default = carried.tunables[0].default;
    let set = |value: i128| carried.settings(&[format!("{}={value}", carried.tunables[0].name)]).unwrap();
    let tuned = Risk::of_tuned(carried, &set(default - 1));
    assert_eq!((tuned.level, tuned.criteria.len()), (Level::NotMeasured, 0));
    assert_eq!(Risk::of_tuned(carried, &set(default)), Risk::of(carried));
}

#[test]
fn every_evaluation_in_the_tree_is_of_an_algorithm_and_has_all_criteria() {
    for (id, findings) in evaluated() {
        assert!(catalog::find(id).is_ok(), "{id}");
        assert_eq!(findings.clone().checked().as_ref(), Ok(findings), "{id}");
    }
}
