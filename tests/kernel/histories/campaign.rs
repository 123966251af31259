//! Runs histories, and shortens those that break a promise.

use super::model::{Model, Promise};
use super::random::Draws;
use super::world::{Difference, World};
use super::*;

/// Time spent on one history to shorten it.
const SHORTENED_WITHIN: Duration = Duration::from_secs(60);

/// A history that breaks a promise.
#[derive(Debug)]
pub struct Broken {
    /// Ends with the step that breaks it.
    pub steps: Vec<Step>,
    pub difference: Difference,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { kind, what } = &self.difference;
        writeln!(f, "broken: {kind}: {what}")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {}", serde_json::to_string(step).unwrap()))?;
        let steps = serde_json::to_string(&self.steps).unwrap();
        writeln!(f, "  replay: cargo xtask histories --replay '{steps}'")
    }
}

/// One host after another, and what the promises say about the present one.
pub struct Histories {
    world: World,
    /// Steps taken, without those that the promises leave open.
    pub taken: usize,
}

impl Histories {
    pub fn enter() -> Self {
        Histories { world: World::enter(), taken: 0 }
    }

    /// Runs a history on a new host.
    pub fn run(&mut self, steps: &[Step]) -> Result<(), Broken> {
        let mut steps = steps.iter().cloned();
        self.run_with(|_| steps.next())
    }

    /// Runs steps on a new host until there is no next one.
    pub fn run_with(&mut self, mut next: impl FnMut(&Model) -> Option<Step>) -> Result<(), Broken> {
        let mut model = Model::new(self.world.base());
        let mut steps = Vec::new();
        let mut outcome = Ok(());
        while let Some(step) = next(&model) {
            let mut after = model.clone();
            let taken = match &step {
                Step::Killed(_, killed) => self.take_killed(&step, killed, &mut after),
                _ => self.take(&step, &mut after),
            };
            steps.push(step);
            match taken {
                Ok(false) => drop(steps.pop()),
                Ok(true) => model = after,
                Err(difference) => {
                    outcome = Err(Broken { steps, difference });
                    break;
                }
            }
        }
        self.world.clear();
        outcome
    }

    /// Takes a step and compares. Returns false if the promises leave the step open.
    fn take(&mut self, step: &Step, model: &mut Model) -> Result<bool, Difference> {
        let Promise::Exit(promised) = model.take(step) else { return Ok(false) };
        self.taken += 1;
        if let Some(output) = self.world.run(step)
            && output.status.code() != Some(promised)
        {
            let said = format!("{}{}", stdout(&output), stderr(&output));
            let what = format!("{step:?} ended with {}, promised {promised}: {said}", output.status);
            return Err(Difference { kind: "how a command ends", what });
        }
        self.world.compare(model).map(|()| true)
    }

    /// Kills a command, compares with the host before and after it, and undoes everything.
    fn take_killed(&mut self, step: &Step, killed: &Step, model: &mut Model) -> Result<bool, Difference> {
        let mut after = model.clone();
        let Promise::Exit(promised) = after.take(killed) else { return Ok(false) };
        self.taken += 1;
        let output = self.world.run(step).expect("it is a command");
        if output.status.code().is_some() {
            // It does not reach the point.
            let what = format!("{killed:?} ended with {}, promised {promised}: {}", output.status, stderr(&output));
            if output.status.code() != Some(promised) {
                return Err(Difference { kind: "how a command ends", what });
            }
            *model = after;
            return self.world.compare(model).map(|()| true);
        }
        self.world.compare_between(model, &after)?;
        model.take_killed(&after);
        self.take(&Step::UnloadAll, model)
    }

    /// Leaves out steps as long as the same promise is broken.
    pub fn shorten(&mut self, mut broken: Broken) -> Broken {
        let (begin, mut size) = (Instant::now(), broken.steps.len() / 2);
        while size > 0 {
            let mut at = 0;
            while at < broken.steps.len() && begin.elapsed() < SHORTENED_WITHIN {
                let end = (at + size).min(broken.steps.len());
                let fewer = [&broken.steps[..at], &broken.steps[end..]].concat();
                match self.run(&fewer) {
                    Err(shorter) if shorter.difference.kind == broken.difference.kind => broken = shorter,
                    _ => at = end,
                }
            }
            size /= 2;
        }
        broken
    }

    /// Runs the first steps of a seed's random history.
    pub fn run_seed(&mut self, seed: u64, steps: usize) -> Result<(), Broken> {
        let (mut draws, mut left) = (Draws::of(seed), steps);
        self.run_with(|model| {
            left = left.checked_sub(1)?;
            Some(draws.step(model))
        })
    }
}
