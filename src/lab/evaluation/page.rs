//! An evaluation as a document: one table of all criteria, then each criterion with its cells.

use super::judge::{JudgedCell, Word};
use super::summary::{Evaluation, JudgedCriterion, JudgedProperty};
use crate::report::drawing::{Caption, Column, Element, Role, Table, TableRow};
use crate::report::{CheckVerdict, Measurement, Scale, Verdict};
use shared::sanitize::count;

/// What the words mean.
const WORDS: [(Word, &str); 6] = [
    (Word::Better, "the whole interval is on the good side of every baseline"),
    (Word::NoWorse, "the whole interval is within the margin of a baseline, or of both"),
    (Word::Worse, "the whole interval is beyond the margin of every baseline"),
    (Word::CannotTell, "the interval contains a margin: more runs may decide, or the algorithm lies on it"),
    (Word::NotMeasured, "this program has no experiment for the question"),
    (Word::DoesNotApply, "the question is not about an algorithm of one TCP connection"),
];

/// The table of all criteria.
pub fn overview(evaluation: &Evaluation) -> Vec<Element> {
    let Evaluation { baselines, criteria, .. } = evaluation;
    let subject = evaluation.subject();
    vec![
        Element::Title(format!("RFC 9743 for {subject}")),
        Element::Claim(format!(
            "{subject} beside {} in the Linux kernel's TCP, in virtual time.",
            baselines.join(" and ")
        )),
        Element::Sentence(tally(criteria)),
        Element::Table(table_of_criteria(evaluation)),
    ]
}

/// The whole evaluation.
pub fn document(evaluation: &Evaluation) -> Vec<Element> {
    let mut parts = overview(evaluation);
    for criterion in evaluation.criteria.iter().filter(|criterion| !criterion.questions.is_empty()) {
        parts.extend(section(evaluation, criterion));
    }
    parts.extend(methods(evaluation));
    parts
}

fn tally(criteria: &[JudgedCriterion]) -> String {
    let counts = [Word::Worse, Word::CannotTell, Word::NoWorse, Word::Better, Word::NotMeasured, Word::DoesNotApply];
    let counts = counts.map(|word| (word, criteria.iter().filter(|criterion| criterion.word == word).count()));
    let said: Vec<String> =
        counts.into_iter().filter(|(_, n)| *n > 0).map(|(word, n)| format!("{word} in {n}")).collect();
    format!(
        "Of {}: {}. Whether an algorithm is fit for the Internet is for the community to say (RFC 9743, section 1).",
        count(criteria.len(), "criterion").replace("criterions", "criteria"),
        said.join(", ")
    )
}

fn table_of_criteria(evaluation: &Evaluation) -> Table {
    let criteria = &evaluation.criteria;
    let worst = |criterion: &JudgedCriterion| criterion.worst.clone();
    let mut columns = vec![
        Column::of("criterion", Role::Name, criteria, |one| Some(one.name.clone())),
        Column::of("verdict", Role::Verdict, criteria, |one| Some(one.word.to_string())),
        Column::of("worst cell", Role::Word, criteria, |one| Some(worst(one)?.name())),
        Column::of("metric", Role::Word, criteria, |one| Some(worst(one)?.metric)),
        Column::of("ratio", Role::Number, criteria, |one| ratio(&worst(one)?)),
        Column::of("allowed", Role::Number, criteria, |one| Some(allowed(&worst(one)?))),
        Column::of(evaluation.candidate.clone(), Role::Number, criteria, |one| own(&worst(one)?)).detail(),
    ];
    for (index, baseline) in evaluation.baselines.iter().enumerate() {
        let value = |one: &JudgedCriterion| others(&worst(one)?, index);
        columns.push(Column::of(baseline.clone(), Role::Number, criteria, value).detail());
    }
    if criteria.iter().any(|one| one.witness.is_some()) {
        columns.push(Column::of("ratio on a real kernel", Role::Number, criteria, |one| {
            ratio(one.witness.as_ref()?.cell.as_ref()?)
        }));
    }
    let rows = criteria.iter().map(|one| TableRow {
        verdict: colour(one.word),
        reason: one.why.clone(),
        starts_group: false,
        link: if one.questions.is_empty() { String::new() } else { anchor(one) },
    });
    let rows = rows.collect();
    Table::new("criteria", Caption::default(), columns, rows)
}

fn section(evaluation: &Evaluation, criterion: &JudgedCriterion) -> Vec<Element> {
    let (cells, all) = (&criterion.cells, criterion.cells.len());
    let mut parts = vec![
        Element::Heading { id: "", text: criterion.name.clone() },
        Element::Conclusion(format!("{}: {}.", criterion.word, criterion.why)),
    ];
    if let Some(worst) = &criterion.worst {
        let worse = match criterion.worse_cells {
            0 => "none is worse".to_owned(),
            some => format!("{some} of them are worse"),
        };
        parts.push(Element::Sentence(format!(
            "The worst of {} was measured again on fresh seeds, and these runs decide: {}. In the first runs {worse}, \
             corrected for their number (Holm).",
            count(all, "cell"),
            worst.name()
        )));
    }
    if let Some(witness) = &criterion.witness {
        parts.push(Element::Sentence(match witness.cell.as_ref().and_then(ratio) {
            Some(ratio) => format!("On the real kernel of this host, three runs of the worst cell give {ratio}."),
            None if witness.why.is_empty() => "The real kernel of this host gives no ratio.".to_owned(),
            None => format!("The real kernel of this host cannot run the worst cell: {}.", witness.why),
        }));
    }
    let mut reasons: Vec<(String, String)> = Vec::new();
    for cell in cells {
        let key = format!("{}, {}", cell.question, cell.metric);
        if reasons.iter().all(|(known, _)| *known != key) {
            reasons.push((key, format!("{}: {}", allowed(cell), cell.margin.why)));
        }
    }
    parts.push(Element::Facts(reasons));
    if !cells.is_empty() {
        parts.push(Element::Table(table(evaluation, criterion)));
    }
    if !criterion.properties.is_empty() {
        parts.push(Element::Table(properties(evaluation, criterion)));
    }
    let pages: Vec<String> = criterion.questions.iter().map(|name| format!("{name}.html")).collect();
    parts.push(Element::Sentence(format!("All runs, with queues and windows over time: {}.", pages.join(", "))));
    parts
}

fn table(evaluation: &Evaluation, criterion: &JudgedCriterion) -> Table {
    let cells = &criterion.cells;
    let mut columns = vec![
        Column::of("cell", Role::Name, cells, |cell| Some(cell.name())),
        Column::of("metric", Role::Word, cells, |cell| Some(cell.metric.clone())),
        Column::of("verdict", Role::Verdict, cells, |cell| Some(cell.word.to_string())),
        Column::of(evaluation.candidate.clone(), Role::Number, cells, own),
    ];
    for (index, baseline) in evaluation.baselines.iter().enumerate() {
        columns.push(Column::of(baseline.clone(), Role::Number, cells, |cell| others(cell, index)));
    }
    columns.push(Column::of("ratio", Role::Number, cells, ratio));
    let row = |cell: &JudgedCell| TableRow { verdict: colour(cell.word), ..TableRow::default() };
    Table::new(&anchor(criterion), Caption::default(), columns, cells.iter().map(row).collect())
}

fn properties(evaluation: &Evaluation, criterion: &JudgedCriterion) -> Table {
    let all = &criterion.properties;
    let columns = vec![
        Column::of("property", Role::Name, all, |one| Some(one.check.title())),
        Column::of("verdict", Role::Verdict, all, |one| Some(one.check.verdict.name().to_owned())),
        Column::of("runs", Role::Number, all, |one| Some(one.check.runs.to_string())),
        Column::of("reason", Role::Notes, all, |one| Some(one.check.reason.clone())),
        Column::of("also fails for", Role::Word, all, |one| Some(one.fails_for.join(", "))),
    ];
    let row = |one: &JudgedProperty| TableRow {
        verdict: match one.check.verdict {
            CheckVerdict::DoesNotHold if !one.is_broken(evaluation.baselines.len()) => Verdict::NotComparable,
            verdict => verdict.alike(),
        },
        ..TableRow::default()
    };
    let caption = Caption::new("properties", "what must hold at every moment of a run");
    Table::new("", caption, columns, all.iter().map(row).collect())
}

fn methods(evaluation: &Evaluation) -> Vec<Element> {
    let Evaluation { candidate, digest, baselines, runs, runs_again, seeds: [first, second], kernel, tools, .. } =
        evaluation;
    let set: String = evaluation.settings.iter().map(|setting| format!(" --set {setting}")).collect();
    let only: String = evaluation.only.iter().map(|section| format!(" --only {section}")).collect();
    let words = WORDS.map(|(word, meaning)| (word.to_string(), meaning.to_owned()));
    let mut facts = vec![
        ("kernel".to_owned(), kernel.clone()),
        (
            "runs".to_owned(),
            format!("{runs} of each cell with seed {first}, {runs_again} of the worst with seed {second}"),
        ),
    ];
    facts.extend(digest.iter().map(|digest| (candidate.clone(), digest.clone())));
    if !evaluation.shipped.is_empty() {
        let said = "figures that tccc carries, because it would measure the same (`--afresh` does)";
        facts.push((evaluation.shipped.join(", "), said.to_owned()));
    }
    facts.extend(tools.iter().map(|(name, value)| (name.clone(), value.clone())));
    vec![
        Element::Heading { id: "", text: "Methods".to_owned() },
        Element::Facts(words.into()),
        Element::Sentence(
            "Each cell is one path with one load. A run with the candidate and a run with a baseline have the same seed, \
             so the same losses and the same traffic of others. The interval of their ratio is Fieller's, at 95 %."
                .to_owned(),
        ),
        Element::Sentence(
            "Virtual time runs the kernel's own TCP without hosts: no interrupt coalescing, no receive offload, no limit of \
             the processor. Algorithms that pace are measured without their effects."
                .to_owned(),
        ),
        Element::Facts(facts),
        Element::Sentence("The same numbers, to the last digit, on any machine with this program:".to_owned()),
        Element::Code(format!("tccc evaluate {candidate}{set} --against {} --runs {runs}{only}\n", baselines.join(","))),
    ]
}

fn own(cell: &JudgedCell) -> Option<String> {
    cell.measured.as_ref().map(|measured| shown(cell, measured))
}

fn others(cell: &JudgedCell, baseline: usize) -> Option<String> {
    cell.beside[baseline].measured.as_ref().map(|measured| shown(cell, measured))
}

/// A value with its interval: `8.49 (7.87 to 8.92) Mbit/s`.
fn shown(cell: &JudgedCell, measured: &Measurement) -> String {
    let all = cell.beside.iter().filter_map(|beside| beside.measured.as_ref()).chain(cell.measured.as_ref());
    let scale = Scale::of(&cell.unit, all.map(|measured| measured.mean));
    let interval = measured.ci95.map_or(String::new(), |ends| format!(" ({})", scale.between(ends)));
    scale.in_sentence(format!("{}{interval}", scale.show(measured.mean)))
}

/// The ratio to the baseline with which the cell is the least bad: `1.01 (0.97 to 1.05) of cubic`.
fn ratio(cell: &JudgedCell) -> Option<String> {
    let beside = cell.mildest()?;
    let interval = beside.ci95.map_or(String::new(), |ends| format!(" ({})", Scale::Ratio.between(ends)));
    Some(format!("{}{interval} of {}", Scale::Ratio.show(beside.ratio?), beside.baseline))
}

fn allowed(cell: &JudgedCell) -> String {
    if cell.margin.at_most.is_some() { format!("≤ {}", cell.allowed) } else { format!("≥ {}", cell.allowed) }
}

fn colour(word: Word) -> Verdict {
    match word {
        Word::Better | Word::NoWorse => Verdict::Within,
        Word::Worse => Verdict::Outside,
        Word::CannotTell | Word::NotMeasured | Word::DoesNotApply => Verdict::NotComparable,
    }
}

fn anchor(criterion: &JudgedCriterion) -> String {
    let name = criterion.name.to_lowercase();
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
