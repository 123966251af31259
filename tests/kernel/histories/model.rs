//! The promises of README.md, src/README.md and `man 7 tccc`, as a model of a host: small enough to check against the text.
//!
//! The model knows no kernel. [`Model::given`] says which algorithm a new connection gets, `verbs` what each verb changes,
//! and `apply` what `tccc apply` must do. Where the text leaves something open, the model accepts both, or leaves the step out.

mod apply;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};

use super::step::{Algorithm, Class, Declaration, Policy, Step, Trying, Version};

/// Given by rules without an algorithm of tccc. Every kernel has it.
pub const KERNEL: &str = "reno";
/// The default if the earlier one is gone.
const FALLBACK: &str = "cubic";

/// What the promises say about a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// They leave it open, or the step is impossible here.
    Open,
    Exit(i32),
}

/// Code under a name. An upgrade makes new code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    pub id: u32,
    pub version: Version,
    pub generation: u32,
}

#[derive(Debug, Clone)]
pub struct Loaded {
    pub code: Code,
    /// For a rollback.
    pub previous: Option<Code>,
    /// It stays without a rule that names it.
    kept: bool,
    /// An earlier `tccc apply` loaded it.
    declared: bool,
    /// An earlier `tccc apply` made it the default.
    default_is_declared: bool,
    previous_default: Option<String>,
}

/// How many of a rule's connections get its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    /// The hash decides, so that both algorithms are right.
    Some,
}

/// A rule that a trial adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overlay {
    Default(Algorithm),
    Upgrade(Algorithm, Version),
}

/// The rules that decide. Each change of them is another generation of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Counts the generations of a history. Their numbers must ascend with it.
    pub stamp: u32,
    policy: Option<Policy>,
    share: Share,
    overlay: Option<Overlay>,
    is_declared: bool,
}

#[derive(Debug, Clone)]
pub struct Trial {
    pub generation: Generation,
    live: bool,
}

/// How the latest trial of a policy ended. An interruption concludes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conclusion {
    Kept,
    Against,
    /// The text does not say what counts: a trial that was repeated by hand, and interrupted.
    Unclear,
}

#[derive(Debug, Clone)]
pub struct End {
    class: Class,
    is_accepting: bool,
    /// The algorithm that its program chose.
    pub choice: Option<String>,
    /// Index of a namespace of the history. `None`: the host's own.
    pub netns: Option<usize>,
}

/// One end of an open connection.
#[derive(Debug, Clone)]
pub struct Open {
    end: End,
    /// What it had without a policy.
    before: String,
    pub now: BTreeSet<String>,
    /// The code that it got with a name.
    pub codes: BTreeMap<String, u32>,
    /// A policy set its algorithm at least once.
    is_set: bool,
    /// Its label was removed with the policy that set it, so that nobody can tell who chose its algorithm.
    is_orphan: bool,
}

/// A program that listens with an algorithm of its choice, or a namespace with its default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub name: String,
    pub code: Option<u32>,
}

#[derive(Debug, Clone)]
pub struct Model {
    /// The kernel's own default.
    base: String,
    pub default: String,
    pub loaded: BTreeMap<Algorithm, Loaded>,
    /// Decides if nothing is on trial.
    policy: Option<Generation>,
    pub trial: Option<Trial>,
    pub declared: Declaration,
    conclusions: BTreeMap<Policy, Conclusion>,
    pub open: Vec<[Open; 2]>,
    pub listeners: Vec<Holder>,
    pub namespaces: Vec<Holder>,
    codes: u32,
    stamps: u32,
}

impl End {
    pub fn new(class: Class, is_accepting: bool) -> Self {
        End { class, is_accepting, choice: None, netns: None }
    }
}

impl Model {
    pub fn new(base: &str) -> Self {
        Model {
            base: base.to_owned(),
            default: base.to_owned(),
            loaded: BTreeMap::new(),
            policy: None,
            trial: None,
            declared: Declaration::default(),
            conclusions: BTreeMap::new(),
            open: Vec::new(),
            listeners: Vec::new(),
            namespaces: Vec::new(),
            codes: 0,
            stamps: 0,
        }
    }

    /// The rules that decide now.
    pub fn deciding(&self) -> Option<&Generation> {
        self.trial.as_ref().map(|trial| &trial.generation).or(self.policy.as_ref())
    }

    /// What nobody but the rules would give: the program's choice, or the default of the namespace.
    fn own(&self, end: &End) -> String {
        let default = || end.netns.map_or(&self.default, |at| &self.namespaces[at].name).clone();
        end.choice.clone().unwrap_or_else(default)
    }

    /// The algorithms that a new connection may get.
    pub fn given(&self, end: &End) -> BTreeSet<String> {
        let own = self.own(end);
        self.by_rule(end, &own).unwrap_or_else(|| BTreeSet::from([own]))
    }

    /// What the rules say about a connection that would have `own`. `None` if no rule matches.
    fn by_rule(&self, end: &End, own: &str) -> Option<BTreeSet<String>> {
        let generation = self.deciding()?;
        let upgraded = |name: String| match generation.overlay {
            Some(Overlay::Upgrade(algorithm, _)) if name == algorithm.to_string() => trial_name(algorithm),
            _ => name,
        };
        if let Some(policy) = generation.policy.filter(|policy| self.matches(policy, end, own)) {
            if end.choice.is_some() && !policy.overrides {
                return Some(BTreeSet::from([own.to_owned()]));
            }
            let given = upgraded(name_of(policy.gives));
            let rest = (generation.share == Share::Some).then(|| own.to_owned());
            return Some(rest.into_iter().chain([given]).collect());
        }
        match generation.overlay? {
            Overlay::Default(algorithm) => {
                let is_asked = end.choice.is_none() && end.netns.is_none();
                is_asked.then(|| BTreeSet::from([algorithm.to_string()]))
            }
            Overlay::Upgrade(algorithm, _) => {
                (own == algorithm.to_string()).then(|| BTreeSet::from([trial_name(algorithm)]))
            }
        }
    }

    fn matches(&self, policy: &Policy, end: &End, own: &str) -> bool {
        let is_its_end = end.is_accepting != (policy.class == Class::Remote);
        policy.class == end.class && is_its_end && (!policy.current || own == self.base)
    }

    /// Names that are registered, without the kernel's own.
    pub fn registered(&self) -> BTreeSet<String> {
        let loaded = self.loaded.keys().map(ToString::to_string);
        let on_trial = match self.trial.as_ref().and_then(|trial| trial.generation.overlay) {
            Some(Overlay::Upgrade(algorithm, _)) => Some(trial_name(algorithm)),
            _ => None,
        };
        loaded.chain(on_trial).collect()
    }

    /// Whether a rule of any generation gives the algorithm, also of the one that waits behind a trial.
    fn is_named(&self, algorithm: Algorithm) -> bool {
        let waiting = self.policy.iter().chain(self.trial.iter().map(|trial| &trial.generation));
        let names = |it: &Generation| {
            it.policy.is_some_and(|policy| policy.gives == Some(algorithm))
                || it.overlay == Some(Overlay::Default(algorithm))
        };
        waiting.into_iter().any(names)
    }

    fn is_being_upgraded(&self, algorithm: Algorithm) -> bool {
        let overlay = self.trial.as_ref().and_then(|trial| trial.generation.overlay);
        matches!(overlay, Some(Overlay::Upgrade(other, _)) if other == algorithm)
    }

    /// Open connections may have labels that wait for the next policy, also new ones after their labels were removed.
    pub fn may_keep_labels(&self) -> bool {
        self.deciding().is_none() && self.open.iter().flatten().any(|it| it.is_set)
    }

    pub fn code_of(&self, name: &str) -> Option<u32> {
        self.loaded.iter().find(|(algorithm, _)| algorithm.to_string() == name).map(|(_, loaded)| loaded.code.id)
    }
}

pub fn name_of(gives: Option<Algorithm>) -> String {
    gives.map_or(KERNEL.to_owned(), |algorithm| algorithm.to_string())
}

/// New code on trial has a name of its own, such as `msack_g2`. Its number is not promised.
fn trial_name(algorithm: Algorithm) -> String {
    format!("{algorithm}_g")
}

/// Whether a name is as promised.
pub fn is_one_of(names: &BTreeSet<String>, name: &str) -> bool {
    names.iter().any(|promised| match promised.ends_with("_g") {
        true => name.strip_prefix(promised.as_str()).is_some_and(|number| number.parse::<u32>().is_ok()),
        false => name == promised,
    })
}
