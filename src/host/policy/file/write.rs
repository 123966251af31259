//! Writes a policy as the text of a file.

use std::fmt::{Display, Write};
use std::time::Duration;

use toml::Value;

use crate::policy::rule::{CgroupName, Match, Policy, Portion, Ports, Rule, RuleTrial, Split, Treatment};
use shared::units::format_duration;

/// Characters. A longer list has one value per line.
const LINE_MAX: usize = 80;

/// Writes a policy that [`parse`](super::parse) reads back. Omits defaults.
///
/// Prefixes from a list are written into the policy itself.
pub fn write(policy: &Policy) -> String {
    let mut out = PolicyText(String::from("version = 1\n"));
    for rule in &policy.rules {
        out.rule(rule);
    }
    out.0
}

struct PolicyText(String);

impl PolicyText {
    fn rule(&mut self, rule: &Rule) {
        self.0.push_str("\n[[rule]]\n");
        self.line("name", quoted(&rule.name));
        self.conditions(&rule.when);
        let steps = rule.trial.as_ref().is_some_and(|trial| !trial.steps.is_empty());
        self.split(&rule.split, steps);
        if rule.overrides {
            self.line("override", true);
        }
        if let Some(trial) = &rule.trial {
            self.trial(trial);
        }
    }

    fn conditions(&mut self, when: &Match) {
        let of_kind = |is_unit: bool| {
            let names = when.cgroups.iter().filter(move |name| matches!(name, CgroupName::Unit(_)) == is_unit);
            names.map(|name| quoted(&name.to_string()))
        };
        self.list("unit", of_kind(true));
        self.list("cgroup", of_kind(false));
        self.list("netns", when.netns.iter().map(|name| quoted(name)));
        self.list("to", when.to.iter().map(|prefix| quoted(&prefix.to_string())));
        for (key, ports) in [("local_port", &when.local_port), ("remote_port", &when.remote_port)] {
            self.list(key, ports.iter().map(port_value));
        }
        if let Some(way) = when.direction {
            self.line("direction", quoted(way.into()));
        }
        self.list("current", when.current.iter().map(|name| quoted(name)));
    }

    fn split(&mut self, split: &Split, has_steps: bool) {
        if has_steps || split.arms.len() == 1 {
            self.line("use", quoted(&split.arms[0].treatment.to_string()));
        } else {
            let arms = split.arms.iter().map(|arm| format!("{} = {}", key(&arm.treatment), percent(arm.portion)));
            self.line("split", format!("{{ {} }}", arms.collect::<Vec<_>>().join(", ")));
        }
        self.word("by", split.by);
    }

    fn trial(&mut self, trial: &RuleTrial) {
        self.list("guard", trial.limits.iter().map(|limit| quoted(&limit.to_string())));
        if let Some(deadline) = trial.deadline {
            self.line("deadline", quoted(&time(deadline)));
        }
        self.word("undecided", trial.undecided);
        self.word("on_fail", trial.on_fail);
        let step = |percent: String, time: String| format!("{{ percent = {percent}, for = {} }}", quoted(&time));
        let steps: Vec<String> = trial.steps.iter().map(|s| step(percent(s.portion), time(s.duration))).collect();
        if !steps.is_empty() {
            self.several("steps", &steps);
        }
    }

    fn line(&mut self, key: &str, value: impl Display) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn word<T: Default + PartialEq + Into<&'static str>>(&mut self, key: &str, word: T) {
        if word != T::default() {
            self.line(key, quoted(word.into()));
        }
    }

    fn list(&mut self, key: &str, values: impl Iterator<Item = String>) {
        match &values.collect::<Vec<_>>()[..] {
            [] => (),
            [value] => self.line(key, value),
            values => self.several(key, values),
        }
    }

    fn several(&mut self, key: &str, values: &[String]) {
        let length: usize = values.iter().map(|value| value.chars().count() + 2).sum();
        let text = if length <= LINE_MAX { values.join(", ") } else { format!("\n    {},\n", values.join(",\n    ")) };
        self.line(key, format!("[{text}]"));
    }
}

fn port_value(ports: &Ports) -> String {
    let text = ports.to_string();
    if ports.0.start() == ports.0.end() { text } else { quoted(&text) }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Without quotes, a name with a dot would be two keys.
fn key(treatment: &Treatment) -> String {
    let name = treatment.to_string();
    if name.contains('.') { quoted(&name) } else { name }
}

fn percent(portion: Portion) -> String {
    portion.percent().to_string()
}

/// Uses the largest unit that gives a whole number. Times below a minute are written by [`format_duration`].
fn time(time: Duration) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let seconds = time.as_secs();
    let is_whole = |unit: u64| time.subsec_nanos() == 0 && seconds > 0 && seconds.is_multiple_of(unit);
    let whole = units.into_iter().find(|(unit, _)| is_whole(*unit));
    whole.map_or_else(|| format_duration(time), |(unit, name)| format!("{}{name}", seconds / unit))
}
