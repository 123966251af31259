//! What each verb and each accident changes, and which exit code a person sees.

use std::mem::take;

use super::*;

const DONE: Promise = Promise::Exit(0);
const REFUSED: Promise = Promise::Exit(1);
/// Of each, in one history.
const HELD_MAX: usize = 4;

impl Model {
    /// Takes a step. A refused step changes nothing.
    pub fn take(&mut self, step: &Step) -> Promise {
        match step {
            Step::Load(name, _) if self.loaded.contains_key(name) => REFUSED,
            Step::Load(name, version) => self.load(*name, *version, true),
            Step::Replace(name, version) if !self.loaded.contains_key(name) => self.load(*name, *version, true),
            Step::Replace(name, version) | Step::Upgrade(name, version) => self.upgrade(*name, *version),
            Step::LoadDefault(name) if self.loaded.contains_key(name) => REFUSED,
            Step::LoadDefault(name) => {
                self.load(*name, 0, true);
                self.make_default(*name)
            }
            Step::TryDefault(name) => self.try_default(*name),
            Step::Unload(name) => self.unload(*name),
            Step::UnloadAll => self.unload_all(),
            Step::TryUpgrade(name, version) => self.try_upgrade(*name, *version),
            Step::Rollback(name) => self.rollback(*name),
            Step::Confirm => self.confirm(),
            Step::Policy(policy) => self.apply_policy(policy, false),
            Step::PolicyLive(policy) => self.apply_policy(policy, true),
            Step::Promote => self.promote(),
            Step::Pause | Step::Resume => match self.trying() {
                Some(Trying::Steps) => DONE,
                _ => REFUSED,
            },
            Step::Abort if self.trial.is_none() => REFUSED,
            Step::Abort => self.revert(Some(Conclusion::Against)),
            Step::Remove => self.remove(false),
            Step::RemoveLive => self.remove(true),
            Step::Declare(declaration) => {
                self.declared = declaration.clone();
                DONE
            }
            Step::Apply => self.apply(),
            Step::Killed(..) => Promise::Open, // the history takes both ways
            Step::KillGuard | Step::StopGuard if self.trial.is_none() => Promise::Open,
            Step::KillGuard | Step::StopGuard => self.revert(None),
            Step::Reboot => self.reboot(),
            Step::Shutdown => {
                self.unload_all();
                self.reboot()
            }
            Step::Namespace | Step::Listen(_) | Step::Hold(_) => self.hold(step),
        }
    }

    /// A command was killed: what it may have given to open connections, and what it may have concluded, is unknown.
    pub fn take_killed(&mut self, after: &Model) {
        for (it, other) in self.open.iter_mut().flatten().zip(after.open.iter().flatten()) {
            it.now.extend(other.now.iter().cloned());
            it.codes.extend(other.codes.clone());
            it.is_set |= other.is_set;
        }
        let concluded = after.conclusions.iter().filter(|(policy, it)| self.conclusions.get(policy) != Some(it));
        let unclear: Vec<Policy> = concluded.map(|(policy, _)| *policy).collect();
        self.conclusions.extend(unclear.into_iter().map(|policy| (policy, Conclusion::Unclear)));
        let holders = [(&mut self.listeners, &after.listeners), (&mut self.namespaces, &after.namespaces)];
        for (now, after) in holders {
            now.clone_from(after); // everything is unloaded next, so that only the code differs
        }
    }

    fn new_code(&mut self, version: Version, generation: u32) -> Code {
        self.codes += 1;
        Code { id: self.codes, version, generation }
    }

    pub(super) fn new_stamp(&mut self) -> u32 {
        self.stamps += 1;
        self.stamps
    }

    pub(super) fn load(&mut self, name: Algorithm, version: Version, kept: bool) -> Promise {
        let code = self.new_code(version, 1);
        let loaded =
            Loaded { code, previous: None, kept, declared: false, default_is_declared: false, previous_default: None };
        self.loaded.insert(name, loaded);
        DONE
    }

    fn make_default(&mut self, name: Algorithm) -> Promise {
        let now = std::mem::replace(&mut self.default, name.to_string());
        if let Some(loaded) = self.loaded.get_mut(&name).filter(|_| now != name.to_string()) {
            loaded.previous_default = Some(now);
        }
        DONE
    }

    pub(super) fn set_default(&mut self, name: Algorithm) {
        self.make_default(name);
    }

    /// The default that `name` replaced, if it still exists.
    pub(super) fn restore_default(&mut self, name: Algorithm) {
        let previous = self.loaded.get_mut(&name).and_then(|loaded| loaded.previous_default.take());
        if self.default == name.to_string() {
            let exists = |other: &String| *other == self.base || *other == KERNEL || self.code_of(other).is_some();
            self.default = previous.clone().filter(exists).unwrap_or(FALLBACK.to_owned());
        }
        for other in self.loaded.values_mut() {
            if other.previous_default.as_deref() == Some(&name.to_string()) {
                other.previous_default.clone_from(&previous);
            }
        }
    }

    /// Unloads a name. Namespaces that took it over get the default that was there before it.
    pub(super) fn forget(&mut self, name: Algorithm) {
        let (was_default, of_name) = (self.default == name.to_string(), |it: &&mut Holder| it.name == name.to_string());
        let earlier = self.loaded.get(&name).and_then(|it| it.previous_default.clone()).filter(|_| !was_default);
        self.restore_default(name);
        self.loaded.remove(&name);
        let given = earlier.unwrap_or(self.default.clone());
        let code = self.code_of(&given);
        for it in self.namespaces.iter_mut().filter(of_name) {
            *it = Holder { name: given.clone(), code };
        }
    }

    /// The name stays registered. Listeners and defaults of namespaces get the new code, open connections keep the old one.
    pub(super) fn upgrade(&mut self, name: Algorithm, version: Version) -> Promise {
        if self.trial.is_some() || !self.loaded.contains_key(&name) {
            return REFUSED;
        }
        let highest = |it: &Loaded| it.previous.map_or(0, |code| code.generation).max(it.code.generation);
        let generation = self.loaded.get(&name).map_or(1, |it| highest(it) + 1);
        let code = self.new_code(version, generation);
        self.put(name, code)
    }

    fn put(&mut self, name: Algorithm, code: Code) -> Promise {
        let Some(loaded) = self.loaded.get_mut(&name) else { return REFUSED };
        loaded.previous = Some(std::mem::replace(&mut loaded.code, code));
        let holders = self.listeners.iter_mut().chain(&mut self.namespaces);
        holders.filter(|it| it.name == name.to_string()).for_each(|it| it.code = Some(code.id));
        DONE
    }

    fn rollback(&mut self, name: Algorithm) -> Promise {
        let previous = self.loaded.get(&name).and_then(|loaded| loaded.previous);
        match previous.filter(|_| self.trial.is_none()) {
            Some(code) => self.put(name, code),
            None => REFUSED,
        }
    }

    fn unload(&mut self, name: Algorithm) -> Promise {
        let overlay = self.trial.as_ref().and_then(|trial| trial.generation.overlay);
        if overlay == Some(Overlay::Default(name)) {
            return self.revert(None);
        }
        if self.is_being_upgraded(name) {
            return Promise::Open;
        }
        if !self.loaded.contains_key(&name) || self.is_named(name) {
            return REFUSED;
        }
        self.forget(name);
        DONE
    }

    /// Undoes everything that tccc changed.
    fn unload_all(&mut self) -> Promise {
        self.remove(false);
        let names: Vec<Algorithm> = self.loaded.keys().rev().copied().collect();
        names.into_iter().for_each(|name| self.forget(name));
        self.default.clone_from(&self.base);
        DONE
    }

    fn generation(&mut self, policy: Option<Policy>, overlay: Option<Overlay>) -> Generation {
        Generation { stamp: self.new_stamp(), policy, share: Share::All, overlay, is_declared: false }
    }

    /// A trial leaves the rules in effect, and adds one.
    fn overlaid(&mut self, overlay: Overlay) -> Promise {
        let stamp = self.new_stamp();
        let generation = match self.policy {
            Some(policy) => Generation { stamp, overlay: Some(overlay), ..policy },
            None => Generation { stamp, ..self.generation(None, Some(overlay)) },
        };
        self.trial = Some(Trial { generation, live: false });
        DONE
    }

    fn try_default(&mut self, name: Algorithm) -> Promise {
        if self.trial.is_some() || self.loaded.contains_key(&name) {
            return REFUSED;
        }
        self.load(name, 0, false);
        self.overlaid(Overlay::Default(name))
    }

    fn try_upgrade(&mut self, name: Algorithm, version: Version) -> Promise {
        match self.loaded.get(&name) {
            None => REFUSED,
            Some(_) if self.trial.is_some() => REFUSED,
            Some(loaded) if loaded.code.version == version => Promise::Open,
            Some(_) => self.overlaid(Overlay::Upgrade(name, version)),
        }
    }

    fn apply_policy(&mut self, policy: &Policy, live: bool) -> Promise {
        if self.trial.is_some() {
            return REFUSED;
        }
        let generation = self.generation(Some(*policy), None);
        self.put_into_effect(generation, live);
        DONE
    }

    /// On trial, or for good. Loads the algorithm that the rule names.
    pub(super) fn put_into_effect(&mut self, generation: Generation, live: bool) {
        let Some(policy) = generation.policy else { return };
        if let Some(name) = policy.gives.filter(|name| !self.loaded.contains_key(name)) {
            self.load(name, 0, false);
        }
        let share = if policy.trying == Trying::Steps { Share::Some } else { generation.share };
        match policy.trying {
            Trying::No => self.policy = Some(generation),
            _ => self.trial = Some(Trial { generation: Generation { share, ..generation }, live }),
        }
        self.forget_unneeded();
        if live {
            self.move_open();
        }
    }

    fn trying(&self) -> Option<Trying> {
        let generation = self.trial.as_ref()?.generation;
        generation.policy.filter(|_| generation.overlay.is_none()).map(|policy| policy.trying)
    }

    fn promote(&mut self) -> Promise {
        match (self.trying(), &mut self.trial) {
            (_, None) => REFUSED,
            (Some(Trying::Steps), Some(trial)) if trial.generation.share == Share::Some => {
                self.stamps += 1;
                trial.generation.stamp = self.stamps;
                trial.generation.share = Share::All;
                if trial.live { Promise::Open } else { DONE }
            }
            (Some(Trying::Steps), Some(_)) => self.confirm(),
            _ => Promise::Open,
        }
    }

    /// Keeps what is on trial as it is.
    fn confirm(&mut self) -> Promise {
        let Some(Trial { generation, .. }) = self.trial.take() else { return REFUSED };
        match generation.overlay {
            None => {
                self.conclude(&generation, Some(Conclusion::Kept));
                self.policy = Some(Generation { stamp: self.new_stamp(), ..generation });
            }
            Some(Overlay::Default(name)) => {
                self.make_default(name);
                self.loaded.get_mut(&name).expect("it is on trial").kept = true;
            }
            Some(Overlay::Upgrade(name, version)) => drop(self.upgrade(name, version)),
        }
        self.forget_unneeded();
        self.orphan_without_policy();
        DONE
    }

    /// Notes how a trial of a policy ended. An interruption concludes nothing, so that the trial may begin again.
    fn conclude(&mut self, generation: &Generation, conclusion: Option<Conclusion>) {
        let Some(policy) = generation.policy.filter(|_| generation.overlay.is_none()) else { return };
        match (conclusion, self.conclusions.get_mut(&policy)) {
            (Some(conclusion), _) => drop(self.conclusions.insert(policy, conclusion)),
            (None, Some(earlier)) => *earlier = Conclusion::Unclear,
            (None, None) => {}
        }
    }

    /// Ends the trial: everything is as before. Without a conclusion, it was interrupted.
    pub(super) fn revert(&mut self, conclusion: Option<Conclusion>) -> Promise {
        let Some(Trial { generation, live }) = self.trial.take() else { return REFUSED };
        self.conclude(&generation, conclusion);
        if let Some(Overlay::Default(name)) = generation.overlay {
            self.forget(name);
        }
        if live {
            self.move_open();
        }
        self.forget_unneeded();
        if generation.overlay.is_some() {
            self.orphan_without_policy();
        }
        DONE
    }

    /// `--live` keeps the labels of open connections, for a later policy.
    pub(super) fn remove(&mut self, live: bool) -> Promise {
        if self.trial.is_some() {
            let Trial { generation, .. } = self.trial.take().expect("it is there");
            self.conclude(&generation, None);
            if let Some(Overlay::Default(name)) = generation.overlay {
                self.forget(name);
            }
        }
        self.policy = None;
        if live {
            self.move_open();
        } else {
            self.orphan_without_policy();
        }
        self.forget_unneeded();
        DONE
    }

    /// What was loaded for rules is unloaded with the last rule that names it.
    fn forget_unneeded(&mut self) {
        let unneeded: Vec<Algorithm> =
            self.loaded.iter().filter(|(name, it)| !it.kept && !self.is_named(**name)).map(|(name, _)| *name).collect();
        unneeded.into_iter().for_each(|name| self.forget(name));
    }

    fn reboot(&mut self) -> Promise {
        self.remove(false);
        let base = take(&mut self.base);
        let (declared, conclusions) = (take(&mut self.declared), take(&mut self.conclusions));
        *self = Model { declared, conclusions, codes: self.codes, stamps: self.stamps, ..Model::new(&base) };
        DONE
    }

    fn hold(&mut self, step: &Step) -> Promise {
        let has_room = |held: usize| held < HELD_MAX;
        match step {
            Step::Namespace if has_room(self.namespaces.len()) => {
                let (name, code) = (self.default.clone(), self.code_of(&self.default));
                self.namespaces.push(Holder { name, code });
            }
            Step::Listen(name) if has_room(self.listeners.len()) && self.loaded.contains_key(name) => {
                let name = name.to_string();
                let code = self.code_of(&name);
                self.listeners.push(Holder { name, code });
            }
            Step::Hold(class) if has_room(self.open.len()) => {
                let ends = [false, true].map(|is_accepting| self.opened(End::new(*class, is_accepting)));
                self.open.push(ends);
            }
            _ => return Promise::Open,
        }
        DONE
    }

    fn opened(&self, end: End) -> Open {
        let before = self.own(&end);
        let by_rule = self.by_rule(&end, &before);
        let is_set = by_rule.as_ref().is_some_and(|names| names.iter().any(|name| *name != before));
        let now = by_rule.unwrap_or_else(|| BTreeSet::from([before.clone()]));
        let codes = now.iter().filter_map(|name| Some((name.clone(), self.code_of(name)?))).collect();
        Open { end, before, now, codes, is_set, is_orphan: false }
    }

    /// `--live`: open connections get what the rules say, and otherwise what they had without a policy.
    fn move_open(&mut self) {
        let mut open = take(&mut self.open);
        for it in open.iter_mut().flatten() {
            let by_rule = self.by_rule(&it.end, &it.before);
            let is_gone = *it.before != self.base && it.before != KERNEL && self.code_of(&it.before).is_none();
            let may_stay = it.is_orphan || (by_rule.is_none() && is_gone);
            it.is_set |= by_rule.is_some();
            let wanted = by_rule.unwrap_or_else(|| BTreeSet::from([it.before.clone()]));
            // One that has the algorithm already keeps its code.
            let moved = wanted.iter().filter(|name| it.now != BTreeSet::from([(*name).clone()]));
            it.codes.extend(moved.filter_map(|name| Some((name.clone(), self.code_of(name)?))));
            it.now = if may_stay { wanted.union(&it.now).cloned().collect() } else { wanted };
        }
        self.open = open;
    }

    /// Nobody can tell any more whether a policy or a program chose the algorithm of an open connection.
    fn orphan_without_policy(&mut self) {
        if self.deciding().is_none() {
            self.open.iter_mut().flatten().for_each(|it| it.is_orphan |= it.is_set);
        }
    }
}
