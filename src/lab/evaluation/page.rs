//! An evaluation as a document: one table of all criteria, then each criterion with its cells.

use super::judge::{JudgedCell, Word};
use super::questions::Question;
use super::summary::{Evaluation, JudgedCriterion, JudgedProperty};
use crate::report::drawing::{Caption, Column, Element, Role, Table, TableRow};
use crate::report::{CheckVerdict, Measurement, Scale, Verdict};
use crate::scenario::Scenario;
use shared::sanitize::count;

const INTERVAL: &str = "95 % interval";

/// What the words mean.
const WORDS: [(Word, &str); 6] = [
    (Word::Better, "the whole interval is on the good side of every baseline"),
    (Word::NoWorse, "the whole interval is within the margin of a baseline, or of both"),
    (Word::Worse, "the whole interval is beyond the margin of every baseline"),
    (Word::CannotTell, "the interval contains a margin: more runs may decide, or the algorithm lies on it"),
    (Word::NotMeasured, "this program has no experiment for the question"),
    (Word::DoesNotApply, "the question is not about an algorithm of one TCP connection"),
];

/// How much the table of all criteria has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Columns {
    Ratios,
    /// Also the values behind them.
    All,
}

/// The table of all criteria.
pub fn overview(evaluation: &Evaluation) -> Vec<Element> {
    first_page(evaluation, Columns::Ratios)
}

fn first_page(evaluation: &Evaluation, columns: Columns) -> Vec<Element> {
    let Evaluation { baselines, criteria, .. } = evaluation;
    let subject = evaluation.subject();
    let of_baselines = match baselines.as_slice() {
        [only] => format!("within the margin of {only}, and worse if it is beyond it"),
        all => format!("within the margin of one of {}, and worse if it is beyond all", all.join(" and ")),
    };
    vec![
        Element::Title(format!("RFC 9743 for {subject}")),
        Element::Claim(format!(
            "Its criteria, by section: {subject} beside {} in the Linux kernel's TCP, in virtual time.",
            baselines.join(" and ")
        )),
        Element::Sentence(tally(criteria)),
        Element::Sentence(format!(
            "A criterion is no worse if its worst cell is {of_baselines}. The RFC sets no margins: they are those of this \
             program, with their reasons."
        )),
        Element::Table(table_of_criteria(evaluation, columns)),
    ]
}

/// The whole evaluation.
pub fn document(evaluation: &Evaluation, questions: &[Question]) -> Vec<Element> {
    let mut parts = first_page(evaluation, Columns::All);
    for criterion in evaluation.criteria.iter().filter(|criterion| !criterion.questions.is_empty()) {
        parts.extend(section(evaluation, criterion, questions));
    }
    let others = evaluation.criteria.iter().filter(|criterion| criterion.questions.is_empty());
    let others: Vec<(String, String)> =
        others.map(|one| (short(&one.name).to_owned(), format!("{}. {}", one.word, one.why))).collect();
    if !others.is_empty() {
        parts.push(Element::Heading { id: "", text: "Without a measurement".to_owned() });
        parts.push(Element::Facts(others));
    }
    parts.extend(methods(evaluation));
    parts
}

/// A criterion without the document that most are from.
pub fn short(criterion: &str) -> &str {
    criterion.strip_prefix("RFC 9743, ").unwrap_or(criterion)
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

fn table_of_criteria(evaluation: &Evaluation, shown: Columns) -> Table {
    let criteria = &evaluation.criteria;
    let worst = |criterion: &JudgedCriterion| criterion.worst.clone();
    let mut columns = vec![
        Column::of("criterion", Role::Name, criteria, |one| Some(short(&one.name).to_owned())),
        Column::of("verdict", Role::Verdict, criteria, |one| Some(one.word.to_string())),
        Column::of("worst cell", Role::Word, criteria, |one| Some(worst(one)?.name())),
        Column::of("metric", Role::Word, criteria, |one| Some(metric(&worst(one)?))),
        Column::of("allowed", Role::Number, criteria, |one| Some(allowed(&worst(one)?))),
    ];
    for (index, name) in evaluation.baselines.iter().enumerate() {
        columns.push(Column::of(format!("ratio to {name}"), Role::Number, criteria, |one| ratio(&worst(one)?, index)));
        columns.push(Column::of(INTERVAL, Role::Interval, criteria, |one| interval_of_ratio(&worst(one)?, index)));
    }
    for (algorithm, name) in evaluation.algorithms().into_iter().filter(|_| shown == Columns::All) {
        let value = |one: &JudgedCriterion| value(&worst(one)?, algorithm);
        let interval = |one: &JudgedCriterion| interval(&worst(one)?, algorithm);
        columns.push(Column::of(name, Role::Number, criteria, value).detail());
        columns.push(Column::of(INTERVAL, Role::Interval, criteria, interval).detail());
    }
    if criteria.iter().any(|one| one.witness.is_some()) {
        columns.push(Column::of("ratio on a real kernel", Role::Number, criteria, |one| {
            mildest_ratio(one.witness.as_ref()?.cell.as_ref()?)
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

fn section(evaluation: &Evaluation, criterion: &JudgedCriterion, questions: &[Question]) -> Vec<Element> {
    let (cells, all) = (&criterion.cells, criterion.cells.len());
    let asked = questions.iter().filter(|question| criterion.questions.iter().any(|name| name == question.name));
    let mut parts = vec![
        Element::Heading { id: "", text: criterion.name.clone() },
        Element::Conclusion(format!("{}: {}.", criterion.word, criterion.why)),
    ];
    parts.push(Element::Facts(asked.map(|question| (question.name.to_owned(), asks(question))).collect()));
    if let Some(worst) = &criterion.worst {
        let of = |word: Word| cells.iter().filter(|cell| cell.word == word).count();
        let again = if criterion.is_repeated {
            " It was measured again on fresh seeds. These runs decide; the first row shows them."
        } else {
            ""
        };
        parts.push(Element::Sentence(format!(
            "First runs of {}: worse in {} ({} after Holm's correction for the number of cells), cannot tell in {}. The worst, \
             by its verdict and then by its mean as a multiple of what is allowed, is {}.{again}",
            count(all, "cell"),
            of(Word::Worse),
            criterion.worse_cells,
            of(Word::CannotTell),
            worst.name()
        )));
    }
    if let Some(witness) = &criterion.witness {
        parts.push(Element::Sentence(match witness.cell.as_ref().and_then(mildest_ratio) {
            Some(ratio) => format!("On the real kernel of this host, three runs of the worst cell give {ratio}."),
            None if witness.why.is_empty() => "The real kernel of this host gives no ratio.".to_owned(),
            None => format!("The real kernel of this host cannot run the worst cell: {}.", witness.why),
        }));
    }
    let mut reasons: Vec<(String, String)> = Vec::new();
    for cell in cells {
        let key = format!("{}, {}", cell.question, cell.metric);
        if reasons.iter().all(|(known, _)| *known != key) {
            let negligible = cell.margin.negligible.map_or(String::new(), |most| {
                let scale = Scale::of(&cell.unit, std::iter::once(most));
                format!(", and no value up to {} is worse", scale.in_sentence(scale.show(most)))
            });
            reasons.push((key, format!("{}{negligible}: {}", allowed(cell), cell.margin.why)));
        }
    }
    parts.push(Element::Facts(reasons));
    if !cells.is_empty() {
        parts.push(Element::Table(table(evaluation, criterion)));
    }
    if !criterion.properties.is_empty() {
        parts.push(Element::Sentence("Properties, which must hold at every moment of a run:".to_owned()));
        parts.push(Element::Table(properties(criterion)));
    }
    let pages: Vec<String> = criterion.questions.iter().map(|name| format!("{name}.html")).collect();
    parts.push(Element::Sentence(format!(
        "The runs made here, with queues and windows over time: {}.",
        pages.join(", ")
    )));
    parts
}

fn table(evaluation: &Evaluation, criterion: &JudgedCriterion) -> Table {
    let again = criterion.worst.iter().filter(|_| criterion.is_repeated).cloned();
    let cells: &[JudgedCell] = &again.chain(criterion.cells.iter().cloned()).collect::<Vec<JudgedCell>>();
    let runs = |cell: &JudgedCell| Some(cell.measured.as_ref()?.n.to_string());
    let mut columns = vec![
        Column::of("cell", Role::Name, cells, |cell| Some(cell.name())),
        Column::of("runs", Role::Number, cells, runs),
        Column::of("metric", Role::Word, cells, |cell| Some(metric(cell))),
        Column::of("verdict", Role::Verdict, cells, |cell| Some(cell.word.to_string())),
    ];
    for (index, name) in evaluation.baselines.iter().enumerate() {
        columns.push(Column::of(format!("ratio to {name}"), Role::Number, cells, |cell| ratio(cell, index)));
        columns.push(Column::of(INTERVAL, Role::Interval, cells, |cell| interval_of_ratio(cell, index)));
    }
    for (algorithm, name) in evaluation.algorithms() {
        columns.push(Column::of(name, Role::Number, cells, |cell| value(cell, algorithm)));
        columns.push(Column::of(INTERVAL, Role::Interval, cells, |cell| interval(cell, algorithm)));
    }
    let row = |cell: &JudgedCell| TableRow { verdict: colour(cell.word), ..TableRow::default() };
    Table::new(&anchor(criterion), Caption::default(), columns, cells.iter().map(row).collect())
}

fn properties(criterion: &JudgedCriterion) -> Table {
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
            CheckVerdict::DoesNotHold if !one.is_broken() => Verdict::NotComparable,
            verdict => verdict.alike(),
        },
        ..TableRow::default()
    };
    Table::new("", Caption::default(), columns, all.iter().map(row).collect())
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
    facts.extend(digest.iter().map(|digest| (format!("SHA-256 of {candidate} in the guest"), digest.clone())));
    if !evaluation.shipped.is_empty() {
        let said = "in the first runs figures that tccc carries, because it would measure the same; --afresh does";
        facts.push((evaluation.shipped.join(", "), said.to_owned()));
    }
    facts.extend(tools.iter().map(|(name, value)| (name.clone(), value.clone())));
    vec![
        Element::Heading { id: "", text: "Methods".to_owned() },
        Element::Facts(words.into()),
        Element::Sentence(
            "Each cell is one path with one load. A run with the candidate and a run with a baseline have the same seed, \
             so the same losses and the same traffic of others. The interval of their ratio is Fieller's, at 95 %, and that of \
             a value is bootstrapped (expanded percentiles, Hesterberg 2015; with few runs Student's). Equal values in all \
             runs give an interval without width. \
             If runs cluster around two values, no run has the mean: the page of the experiment shows each run."
                .to_owned(),
        ),
        Element::Sentence(
            "Virtual time runs the kernel's own TCP without hosts: no interrupt coalescing, no receive offload, no limit of \
             the processor. Algorithms that pace are measured without their effects."
                .to_owned(),
        ),
        Element::Facts(facts),
        Element::Sentence("The same numbers, to the last digit, on any machine with this program and this guest:".to_owned()),
        Element::Code(format!("tccc evaluate {candidate}{set} --against {} --runs {runs} --seed {first}{only}\n", baselines.join(","))),
    ]
}

/// Of the candidate with `None`, else of a baseline.
fn measured(cell: &JudgedCell, algorithm: Option<usize>) -> Option<&Measurement> {
    algorithm.map_or(cell.measured.as_ref(), |baseline| cell.beside[baseline].measured.as_ref())
}

/// The scale of all algorithms in a cell.
fn scale(cell: &JudgedCell) -> Scale {
    let all = cell.beside.iter().filter_map(|beside| beside.measured.as_ref()).chain(cell.measured.as_ref());
    Scale::of(&cell.unit, all.map(|measured| measured.mean))
}

/// A mean: `8.49 Mbit/s`.
fn value(cell: &JudgedCell, algorithm: Option<usize>) -> Option<String> {
    let scale = scale(cell);
    Some(scale.in_sentence(scale.show(measured(cell, algorithm)?.mean)))
}

fn interval(cell: &JudgedCell, algorithm: Option<usize>) -> Option<String> {
    Some(scale(cell).between(measured(cell, algorithm)?.ci95?))
}

/// The ratio to a baseline.
fn ratio(cell: &JudgedCell, baseline: usize) -> Option<String> {
    Some(Scale::Ratio.show(cell.beside.get(baseline)?.ratio?))
}

fn interval_of_ratio(cell: &JudgedCell, baseline: usize) -> Option<String> {
    Some(Scale::Ratio.between(cell.beside.get(baseline)?.ci95?))
}

/// The ratio to the baseline with which the cell is the least bad: `1.01 of cubic (0.99 to 1.03)`.
fn mildest_ratio(cell: &JudgedCell) -> Option<String> {
    let beside = cell.mildest()?;
    let interval = beside.ci95.map_or(String::new(), |ends| format!(" ({})", Scale::Ratio.between(ends)));
    Some(format!("{} of {}{interval}", Scale::Ratio.show(beside.ratio?), beside.baseline))
}

/// The metric, and whose it is if not the algorithm's.
fn metric(cell: &JudgedCell) -> String {
    if cell.of.is_empty() { cell.metric.clone() } else { format!("{} of {}", cell.metric, cell.of) }
}

/// What a question claims, and whose figures it compares.
fn asks(question: &Question) -> String {
    let Scenario { title, claim, .. } = &question.scenario;
    let others = question.others();
    let whose = match others.is_empty() {
        true => String::new(),
        false => format!(" The figures are those of {}, beside which the algorithm runs.", others.join(" and ")),
    };
    format!("{title}. {claim}{whose}")
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
