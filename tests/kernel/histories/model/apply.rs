//! What `tccc apply` must do: make the host match what is declared, and leave to a person what only a person may decide.

use super::*;

impl Model {
    pub(super) fn apply(&mut self) -> Promise {
        if self.is_open() {
            return Promise::Open;
        }
        let declared = self.declared.clone();
        let mut is_left = false;
        for (&name, &version) in &declared.algorithms {
            is_left |= !self.apply_algorithm(name, version);
        }
        is_left |= !self.apply_declared_policy();
        is_left |= !self.apply_default();
        let undeclared = self.loaded.iter().filter(|(name, it)| it.declared && !declared.algorithms.contains_key(name));
        let undeclared: Vec<Algorithm> = undeclared.map(|(name, _)| *name).collect();
        for name in undeclared {
            self.undeclare(name);
        }
        Promise::Exit(i32::from(is_left))
    }

    /// The promises do not say what is right.
    fn is_open(&self) -> bool {
        let overlay = self.trial.as_ref().and_then(|trial| trial.generation.overlay);
        let touches = |name: Algorithm| {
            self.declared.algorithms.contains_key(&name) || self.loaded.get(&name).is_some_and(|it| it.declared)
        };
        let on_trial = match overlay {
            Some(Overlay::Default(name)) => touches(name),
            Some(Overlay::Upgrade(name, _)) => touches(name),
            None => false,
        };
        let Some(policy) = self.declared.policy else { return on_trial };
        if overlay.is_some() {
            return true; // whether the trial of something else makes the policy another one
        }
        let is_unclear = self.conclusions.get(&policy) == Some(&Conclusion::Unclear);
        // A share that was kept on its way up is neither the declared one nor another.
        let same_rule =
            |it: &Generation| it.policy.is_some_and(|now| Policy { trying: policy.trying, ..now } == policy);
        let is_partly = self.deciding().is_some_and(|it| same_rule(it) && it.policy != Some(policy));
        on_trial || is_unclear || is_partly
    }

    /// Returns false if a person has to decide.
    fn apply_algorithm(&mut self, name: Algorithm, version: Version) -> bool {
        let is_needed = match self.loaded.get(&name) {
            None => {
                self.load(name, version, true);
                true
            }
            Some(loaded) if loaded.code.version != version => {
                if self.upgrade(name, version) != Promise::Exit(0) {
                    return false;
                }
                true
            }
            Some(loaded) => !loaded.kept,
        };
        if let Some(loaded) = self.loaded.get_mut(&name).filter(|_| is_needed) {
            (loaded.kept, loaded.declared) = (true, true);
        }
        true
    }

    fn apply_declared_policy(&mut self) -> bool {
        let now = self.deciding().copied();
        let Some(policy) = self.declared.policy else {
            match now.filter(|it| it.is_declared) {
                Some(it) if it.overlay.is_some() => return false, // a person's trial
                Some(_) => drop(self.remove(false)),
                None => {}
            }
            return true;
        };
        if now.is_some_and(|it| it.policy == Some(policy)) {
            return true;
        }
        let stamp = self.new_stamp();
        let declared = Generation { stamp, policy: Some(policy), share: Share::All, overlay: None, is_declared: true };
        match self.conclusions.get(&policy) {
            _ if self.trial.is_some() => return false,
            Some(Conclusion::Against | Conclusion::Unclear) => return false,
            Some(Conclusion::Kept) => {
                // For good, with the share of its last step.
                let share = if policy.trying == Trying::Steps { Share::Some } else { Share::All };
                let as_permanent = Policy { trying: Trying::No, ..policy };
                self.put_into_effect(Generation { policy: Some(as_permanent), share, ..declared }, false);
                self.policy = Some(Generation { share, ..declared });
            }
            None => self.put_into_effect(declared, false),
        }
        true
    }

    fn apply_default(&mut self) -> bool {
        let overlay = self.trial.as_ref().and_then(|trial| trial.generation.overlay);
        if let Some(Overlay::Default(_)) = overlay {
            return false;
        }
        match self.declared.default {
            Some(wanted) if self.default != wanted.to_string() => {
                self.set_default(wanted);
                self.loaded.get_mut(&wanted).expect("it is declared").default_is_declared = true;
            }
            Some(_) => {}
            None => {
                let set_here = |(name, it): (&Algorithm, &Loaded)| {
                    (it.default_is_declared && name.to_string() == self.default).then_some(*name)
                };
                if let Some(name) = self.loaded.iter().find_map(set_here) {
                    self.restore_default(name);
                    self.loaded.get_mut(&name).expect("it is the default").default_is_declared = false;
                }
            }
        }
        true
    }

    /// Unloads what an earlier `apply` loaded. A rule that names it keeps it loaded.
    fn undeclare(&mut self, name: Algorithm) {
        if !self.is_named(name) {
            self.forget(name);
            return;
        }
        self.restore_default(name);
        let loaded = self.loaded.get_mut(&name).expect("it is loaded");
        (loaded.kept, loaded.declared, loaded.default_is_declared) = (false, false, false);
    }
}
