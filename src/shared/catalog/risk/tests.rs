//! The level, its sentence, and what counts as not measured.

use super::*;

fn figure(question: &str, ratio: f64) -> RiskFigure {
    let ci95 = Some([ratio * 0.9, ratio * 1.1]);
    RiskFigure { question: question.into(), at: String::new(), ratio, ci95, n: 30, engine: "virtual".into() }
}

fn entry(changed: &[RiskFigure]) -> RiskEntry {
    let asked = QUESTIONS.iter().filter(|question| question.id != FOR_COMPANIONS);
    let figures = asked.map(|question| {
        let changed = changed.iter().find(|figure| figure.question == question.id);
        changed.cloned().unwrap_or_else(|| figure(question.id, 1.0))
    });
    RiskEntry { code: None, figures: figures.collect() }
}

#[test]
fn worst_figure_decides_the_word() {
    let check = |question, ratio, expected| {
        let risk = Risk::from(&entry(&[figure(question, ratio)]), "mine", false);
        assert_eq!(risk.level, expected, "{question} {ratio}: {}", risk.sentence);
    };
    check("beside-reno", 0.81, Level::Low);
    check("beside-reno", 0.79, Level::Medium);
    check("beside-reno", 0.51, Level::Medium);
    check("beside-reno", 0.5, Level::High);
    check("beside-reno", 0.0, Level::High);
    check("beside-reno", 3.0, Level::Low);
    check("short-flows", 1.2, Level::Low);
    check("short-flows", 1.3, Level::Medium);
    check("short-flows", 2.0, Level::High);
    check("access-line", 0.2, Level::Low);
}

#[test]
fn sentence_is_of_the_worst_figure_with_its_interval_and_place() {
    let bad = RiskFigure { at: "queue 1bdp".into(), ..figure("beside-reno", 0.2) };
    let risk = Risk::from(&entry(&[bad, figure("short-flows", 1.5)]), "mine", false);
    let expected = "a competing Reno flow gets 20 % (18 to 22) of its share against Reno (queue 1bdp)";
    assert_eq!(risk.sentence, expected);
    let slow = RiskFigure { ci95: None, ..figure("short-flows", 2.5) };
    assert_eq!(slow.sentence(), "short flows beside it take 2.50 times as long as beside Reno");
}

#[test]
fn missing_figure_counts_as_high() {
    let mut lacking = entry(&[]);
    lacking.figures.retain(|figure| figure.question != "ecn");
    let risk = Risk::from(&lacking, "mine", false);
    assert_eq!(risk.level, Level::NotMeasured);
    assert!(risk.level.counts_as_high() && risk.sentence.contains("ECN"), "{}", risk.sentence);
    assert_eq!(Risk::from(&entry(&[]), "mine", false).level, Level::Low);
    assert_eq!(Risk::from(&entry(&[]), "mine", true).level, Level::NotMeasured, "no peer was asked");
}

#[test]
fn figures_of_other_code_are_told() {
    let of = |code: Option<String>| Risk::from(&RiskEntry { code, ..entry(&[]) }, "dtcp", false).of_this_code;
    assert!(of(source::code_digest("dtcp")) && !of(Some("0".into())));
}

#[test]
fn own_object_and_set_tunables_are_not_measured() {
    let carried = crate::catalog::find("dtcp").unwrap();
    let mut own = carried.clone();
    own.object.to_mut().push(0);
    assert_eq!(Risk::of(&own).level, Level::NotMeasured);
    let default = carried.tunables[0].default;
    let set = |value: i128| carried.settings(&[format!("{}={value}", carried.tunables[0].name)]).unwrap();
    let tuned = Risk::of_tuned(carried, &set(default - 1));
    assert_eq!((tuned.level, tuned.figures.len()), (Level::NotMeasured, 0));
    assert_eq!(Risk::of_tuned(carried, &set(default)), Risk::of(carried));
}

#[test]
fn every_figure_in_the_tree_answers_a_question() {
    for (id, entry) in measured() {
        let known = |figure: &&RiskFigure| figure.question().is_some() && figure.ratio >= 0.0 && figure.n > 0;
        assert_eq!(entry.figures.iter().filter(known).count(), entry.figures.len(), "{id}");
    }
}
