//! The real kernel as a witness of the worst cells.

use anyhow::Result;

use super::place::{Part, Place};
use super::{Args, planned};
use crate::cli::output::note;
use crate::cli::verbs::run;
use crate::cli::verbs::stop::Stop;
use lab::evaluation::{self, JudgedCell, JudgedCriterion, Measured, OfAlgorithms, Question, QuestionFigures, Witness};
use lab::runner;
use shared::failure::Failure;
use shared::kernel::congestion;
use shared::model::run::Engine;

/// Runs of each cell: the fewest that give an interval.
const RUNS: u32 = 3;

/// # Errors
/// This host cannot run experiments; the candidate is a file and nothing of its name is loaded.
pub fn check(place: &Place) -> Result<()> {
    runner::check_host()?;
    let name = place.loaded();
    if place.source.is_some() && (!place.has_defaults() || place.baselines().any(|baseline| baseline == name)) {
        let what = format!("the loaded \"{name}\" is no witness of a file with `--set` or with the name of a baseline");
        return Err(Failure::usage(what).hint("leave out `--witness`").into());
    }
    if place.source.is_some() && !congestion::available()?.iter().any(|one| one == name) {
        let what = format!("no algorithm \"{name}\" is loaded, and a real kernel cannot run a source file");
        return Err(Failure::unmet(what).hint(format!("`tccc load {name}.bpf.o` first")).into());
    }
    Ok(())
}

impl Args {
    /// Repeats the worst cell of each criterion on this kernel. A cell that it cannot run has the reason instead.
    ///
    /// Shape: by the criterion's name.
    ///
    /// # Errors
    /// A folder cannot be written or read.
    pub fn ask_witness(
        &self,
        place: &Place,
        questions: &[Question],
        criteria: Vec<JudgedCriterion>,
        stop: &Stop,
    ) -> Result<Vec<(String, Witness)>> {
        let mut witnessed = Vec::new();
        for criterion in criteria {
            let Some(worst) = &criterion.worst else { continue };
            let Some(question) = questions.iter().find(|question| question.name == worst.question) else { continue };
            if stop.is_asked() {
                break;
            }
            note(&format!("this kernel as a witness: {}", worst.name()));
            let (cell, why) = match self.witnessed(place, question, worst, stop) {
                Ok(cell) => (cell, String::new()),
                Err(error) => (None, format!("{error:#}")),
            };
            witnessed.push((criterion.name, Witness { cell, why }));
        }
        Ok(witnessed)
    }

    fn witnessed(
        &self,
        place: &Place,
        question: &Question,
        worst: &JudgedCell,
        stop: &Stop,
    ) -> Result<Option<JudgedCell>> {
        let algorithms: Vec<&str> = std::iter::once(place.loaded()).chain(place.baselines()).collect();
        let parts: Vec<Part<'_>> = algorithms.iter().map(|algorithm| Part { question, algorithm }).collect();
        let folder = place.out.join("witness");
        place.write(&folder, &parts)?;
        let call = run::Args {
            seed: Some(self.seeds()[1]),
            runs: Some(RUNS),
            only: worst.at.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            engine: Engine::Kernel,
            ..self.call(place, &folder, &parts)
        };
        let planned = planned(&call, &parts, |part| place.witness(part))?;
        run::measure(&planned, stop, &call)?;
        let directories: Vec<_> = parts.iter().map(|part| place.witness(part)).collect();
        let Some(report) = lab::report::load_variants(&question.over(&algorithms)?, &directories)? else {
            return Ok(None);
        };
        let of = |algorithm: &str| QuestionFigures::of(&report, algorithm, question, String::new());
        let others = place.baselines().map(|name| (name.to_owned(), Some(of(name)))).collect();
        let first = OfAlgorithms { own: Some(of(place.loaded())), others };
        let measured = Measured { question, first, again: None, checks: Vec::new() };
        let cells = evaluation::criteria(&[measured], Vec::new()).into_iter().flat_map(|criterion| criterion.cells);
        Ok(cells.into_iter().find(|cell| cell.metric == worst.metric && cell.at == worst.at))
    }
}
