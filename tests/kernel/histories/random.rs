//! Draws steps. The state of the model makes likely what is worth trying next.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use super::model::{Model, Promise};
use super::step::{ALGORITHMS, Algorithm, CLASSES, Class, Declaration, Policy, Step, Trying, Version};

/// Seconds pass until a lease is over, so that few histories wait for one.
const LEASES_ONE_IN: u64 = 60;

pub struct Draws {
    random: Pcg64,
    /// Policies that were drawn before. What happens to one the second time is worth trying.
    policies: Vec<Policy>,
}

impl Draws {
    pub fn of(seed: u64) -> Self {
        Draws { random: Pcg64::seed_from_u64(seed), policies: Vec::new() }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit
    }

    fn one_in(&mut self, limit: u64) -> bool {
        self.below(limit) == 0
    }

    fn of_list<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize].clone()
    }

    fn algorithm(&mut self) -> Algorithm {
        self.of_list(&ALGORITHMS)
    }

    fn version(&mut self) -> Version {
        1 + self.below(3) as Version
    }

    fn policy(&mut self) -> Policy {
        if !self.policies.is_empty() && !self.one_in(3) {
            let policies = self.policies.clone();
            return self.of_list(&policies);
        }
        let class = self.of_list(&[Class::Local, Class::Remote, Class::Group]);
        let gives = if self.one_in(4) { None } else { Some(self.algorithm()) };
        let trying = self.of_list(&[Trying::No, Trying::Guard, Trying::Steps]);
        let policy = Policy { class, gives, trying, current: self.one_in(3), overrides: self.one_in(4) };
        self.policies.push(policy);
        policy
    }

    fn declaration(&mut self, now: &Declaration) -> Declaration {
        let mut declaration = now.clone();
        match self.below(6) {
            0 | 1 => {
                let version = self.below(4) as Version;
                declaration.algorithms.insert(self.algorithm(), version);
            }
            2 => drop(declaration.algorithms.remove(&self.algorithm())),
            3 => declaration.policy = None,
            _ => declaration.policy = Some(self.policy()),
        }
        declaration.default = declaration.default.filter(|name| declaration.algorithms.contains_key(name));
        if self.one_in(5) {
            declaration.default = declaration.algorithms.keys().next().copied();
        }
        declaration
    }

    pub fn step(&mut self, model: &Model) -> Step {
        let step = self.useful_step(model);
        let points: &[&str] = match &step {
            Step::Load(..) | Step::LoadDefault(_) => &["load.locked", "load.registered"],
            Step::Policy(_) | Step::PolicyLive(_) => &[
                "apply.algorithms",
                "apply.noted",
                "apply.pinned",
                "apply.numbered",
                "apply.attached",
                "apply.settled",
            ],
            Step::TryDefault(_) => &["load.registered", "trial.guard", "trial.begun", "apply.attached"],
            Step::Remove | Step::UnloadAll => &["remove.detached", "remove.cleared"],
            Step::Abort => &["revert.swapped", "revert.noted", "revert.cleared"],
            Step::Confirm => &["confirm.noted", "confirm.default", "confirm.upgraded", "confirm.swapped"],
            Step::Upgrade(..) | Step::Replace(..) => {
                &["upgrade.noted", "upgrade.linked", "upgrade.pinned", "upgrade.defaults"]
            }
            Step::Rollback(_) => &["rollback.linked", "rollback.pinned"],
            Step::Apply => &["load.registered", "apply.attached", "apply.numbered", "upgrade.linked"],
            _ => return step,
        };
        if self.one_in(12) { Step::Killed(self.of_list(points).to_owned(), Box::new(step)) } else { step }
    }

    /// Most steps are not refused.
    fn useful_step(&mut self, model: &Model) -> Step {
        loop {
            let step = self.plain_step(model);
            match model.clone().take(&step) {
                Promise::Exit(0) => return step,
                Promise::Exit(_) if self.one_in(4) => return step,
                _ => {}
            }
        }
    }

    fn plain_step(&mut self, model: &Model) -> Step {
        if model.trial.is_some() && self.one_in(3) {
            if self.one_in(LEASES_ONE_IN) {
                return self.of_list(&[Step::KillGuard, Step::StopGuard]);
            }
            return self.of_list(&[Step::Abort, Step::Abort, Step::Confirm, Step::Promote, Step::Promote, Step::Pause]);
        }
        if model.declared != Declaration::default() && self.one_in(4) {
            return Step::Apply;
        }
        let (name, version) = (self.algorithm(), self.version());
        match self.below(30) {
            0..3 => Step::Load(name, self.below(4) as Version),
            3 => Step::Replace(name, version),
            4 => Step::LoadDefault(name),
            5 | 6 => Step::TryDefault(name),
            7 => Step::Unload(name),
            8 => Step::UnloadAll,
            9 | 10 => Step::Upgrade(name, version),
            11 => Step::TryUpgrade(name, version),
            12 => Step::Rollback(name),
            13..17 => Step::Policy(self.policy()),
            17 | 18 => Step::PolicyLive(self.policy()),
            19 => Step::Remove,
            20 => Step::RemoveLive,
            21..24 => Step::Declare(self.declaration(&model.declared)),
            24 => self.of_list(&[Step::Reboot, Step::Shutdown]),
            25 => Step::Namespace,
            26 => Step::Listen(name),
            27 | 28 => Step::Hold(self.of_list(&CLASSES)),
            _ => self.of_list(&[Step::Abort, Step::Confirm, Step::Promote, Step::Resume]),
        }
    }
}
