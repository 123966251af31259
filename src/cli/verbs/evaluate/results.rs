//! What an evaluation leaves: the reports, the figures, and the risk.

use std::io::Write;

use anyhow::Result;

use super::place::{FirstAndAgain, Place};
use super::{AGAIN, Args};
use crate::cli::output::{OutputFormat, note, results};
use lab::evaluation::{
    self, AlgorithmFigures, EVALUATION_SCHEMA, Evaluation, FIGURES_SCHEMA, Measured, Question, Witness, Word,
};
use lab::report::{self, Report, ReportFormat, drawing};
use shared::failure::Failure;

/// Those of `--against`, without which an evaluation says nothing of the risk.
const BASELINES: [&str; 2] = ["reno", "cubic"];

impl Args {
    /// Writes the reports and prints the table of criteria.
    pub(super) fn finish(
        &self,
        place: &Place,
        questions: &[Question],
        first: Vec<Option<Report>>,
        witnessed: Vec<(String, Witness)>,
    ) -> Result<Evaluation> {
        let again =
            questions.iter().map(|question| place.report(question, Place::again)).collect::<Result<Vec<_>>>()?;
        let both: Vec<FirstAndAgain<'_>> =
            first.iter().zip(&again).map(|(first, again)| [first.as_ref(), again.as_ref()]).collect();
        let measured = self.measured(place, questions, &both)?;
        let host = both.iter().flatten().flatten().next().map(|report| report.host.clone());
        for ((question, first), again) in questions.iter().zip(first).zip(again) {
            let reports: Vec<Report> = first.into_iter().chain(again).collect();
            if !reports.is_empty() {
                let page = report::render_all(&reports, ReportFormat::Html)?;
                place.put(&format!("{}.html", question.name), &page)?;
            }
        }
        let mut evaluation = self.evaluation(place, questions, &measured, host)?;
        for (name, witness) in witnessed {
            let criterion = evaluation.criteria.iter_mut().find(|criterion| criterion.name == name);
            criterion.into_iter().for_each(|criterion| criterion.witness = Some(witness.clone()));
        }
        let documents = || std::iter::once(evaluation::document(&evaluation, questions));
        let title = format!("RFC 9743 for {}", place.candidate);
        let json = serde_json::to_string_pretty(&evaluation)? + "\n";
        place.put("report.html", &drawing::html::written(&title, documents()))?;
        place.put("report.md", &drawing::markdown::written(documents()))?;
        place.put("overview.md", &drawing::markdown::written(std::iter::once(evaluation::overview(&evaluation))))?;
        place.put("report.json", &json)?;
        place.put("figures.json", &self.own_figures(place, &measured, &evaluation.kernel)?)?;
        match self.output {
            OutputFormat::Json => write!(results(), "{json}")?,
            OutputFormat::Table => {
                let overview = std::iter::once(evaluation::overview(&evaluation));
                write!(results(), "{}", drawing::text::written(overview))?;
                writeln!(results(), "\nreport: {}", place.out.join("report.html").display())?;
            }
        }
        Ok(evaluation)
    }

    /// Writes the risk. Last, because an error about the object must not hide the result.
    ///
    /// # Errors
    /// A file cannot be written; the candidate breaks a property (outside).
    pub(super) fn conclude(&self, place: &Place, evaluation: &Evaluation, is_complete: bool) -> Result<()> {
        match self.is_whole(place) {
            true if is_complete => place.put_findings(evaluation)?,
            true => note("the risk is not written, because runs are missing"),
            false => (),
        }
        broken(evaluation).map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn evaluation(
        &self,
        place: &Place,
        questions: &[Question],
        measured: &[Measured<'_>],
        host: Option<report::ReportHost>,
    ) -> Result<Evaluation> {
        let others = if self.only.is_empty() { evaluation::not_measured()? } else { Vec::new() };
        let (kernel, tools, algorithms) =
            host.map_or_else(Default::default, |host| (host.kernel, host.tools, host.algorithms));
        let mut shipped = Vec::new();
        for baseline in &self.against {
            let is_shipped = |question| Ok(self.shipped(question, baseline)?.is_some());
            let of_questions = questions.iter().map(is_shipped).collect::<Result<Vec<bool>>>()?;
            shipped.extend(of_questions.contains(&true).then(|| baseline.clone()));
        }
        Ok(Evaluation {
            schema: EVALUATION_SCHEMA,
            candidate: place.candidate.clone(),
            digest: algorithms.get(&place.candidate).cloned(),
            settings: self.settings.clone(),
            baselines: self.against.clone(),
            only: self.only.clone(),
            runs: self.number(),
            runs_again: AGAIN * self.number(),
            seeds: self.seeds(),
            shipped,
            kernel,
            tools,
            criteria: evaluation::criteria(measured, others),
        })
    }

    /// Whether the evaluation says something of the algorithm as others load it: all criteria, beside the usual baselines.
    pub(super) fn is_whole(&self, place: &Place) -> bool {
        let usual: Vec<&str> = BASELINES.into_iter().filter(|name| *name != place.candidate).collect();
        let is_usual =
            self.against.len() == usual.len() && self.against.iter().all(|name| usual.contains(&name.as_str()));
        self.only.is_empty() && self.shard.is_none() && place.has_defaults() && is_usual
    }

    /// The candidate's figures, in the form in which this program carries those of others.
    fn own_figures(&self, place: &Place, measured: &[Measured<'_>], kernel: &str) -> Result<String> {
        let questions = measured.iter().filter_map(|one| Some((one.question.name.to_owned(), one.first.own.clone()?)));
        let figures = AlgorithmFigures {
            schema: FIGURES_SCHEMA,
            algorithm: place.candidate.clone(),
            kernel: kernel.to_owned(),
            runs: self.number(),
            questions: questions.collect(),
        };
        figures.written()
    }
}

/// The properties of traces that do not hold.
fn broken(evaluation: &Evaluation) -> Option<Failure> {
    let properties = evaluation.criteria.iter().filter(|criterion| criterion.word == Word::Worse);
    let properties = properties.flat_map(|criterion| &criterion.properties);
    let broken: Vec<String> = properties
        .filter(|property| property.is_broken())
        .map(|property| format!("{} ({})", property.check.title(), property.check.reason))
        .collect();
    let first = broken.first()?;
    let what = match broken.len() {
        1 => format!("a property of the candidate does not hold: {first}"),
        many => format!("{many} properties of the candidate do not hold, first: {first}"),
    };
    Some(Failure::outside(what).hint("report.html has every run"))
}
