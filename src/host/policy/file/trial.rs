//! Reads what makes a rule a trial: limits that the guard watches, and steps of a rising share.

use std::mem::discriminant;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::RULE_FIELDS;
use crate::policy::rule::{
    Allowed, Arm, GuardLimit, OnFail, Portion, RolloutStep, RuleTrial, Split, Treatment, Undecided,
};
use crate::written::{Field, MISTAKES_MAX, Reader, TomlTable};
use shared::units::parse_duration;

const TIMES: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(30 * 86_400);
const TIME: &str = "a time from 10s to 30d, such as \"6h\"";
const STEPS_MAX: usize = 16;
const STEP_FIELDS: [&str; 2] = ["percent", "for"];
const STEPS: &str = "1 to 16 steps such as { percent = 5, for = \"2h\" }";

impl Reader<'_> {
    /// `None` if the rule has neither `guard` nor `steps`.
    pub(super) fn trial(
        &mut self,
        rule: &TomlTable<'_>,
        split: Option<&Split>,
        steps: Vec<RolloutStep>,
    ) -> Option<RuleTrial> {
        let (guard, rising) = (rule.field("guard"), rule.field("steps"));
        let words = [("revert", Undecided::Revert), ("proceed", Undecided::Proceed), ("hold", Undecided::Hold)];
        let undecided = rule.field("undecided").and_then(|field| self.word(&field, &words));
        let words = [("revert", OnFail::Revert), ("freeze", OnFail::Freeze)];
        let on_fail = rule.field("on_fail").and_then(|field| self.word(&field, &words));
        let deadline = rule.field("deadline").and_then(|field| self.time(&field));
        let own = ["deadline", "undecided", "on_fail"].into_iter().filter_map(|key| rule.field(key));
        if guard.is_none() && rising.is_none() {
            let is_misspelt = rule.misspells(&["guard", "steps"], &RULE_FIELDS);
            for field in own.filter(|_| !is_misspelt) {
                self.refuse(&field, "expected `guard` or `steps` in the same rule");
            }
            return None;
        }
        if let Some(field) = rule.field("deadline").filter(|_| rising.is_some()) {
            self.refuse(&field, "expected no deadline beside `steps`: the times of the steps are the deadline");
        }
        let limits = guard.map_or(Vec::new(), |guard| self.limits(&guard, split));
        let (undecided, on_fail) = (undecided.unwrap_or_default(), on_fail.unwrap_or_default());
        Some(RuleTrial { limits, deadline, undecided, on_fail, steps })
    }

    fn limits(&mut self, guard: &Field<'_>, split: Option<&Split>) -> Vec<GuardLimit> {
        let is_changed = |split: &Split| split.arms.iter().any(|arm| arm.treatment != Treatment::Keep);
        if split.is_some_and(|split| !is_changed(split)) {
            self.refuse(guard, "expected no guard, because the rule keeps all its connections as they are");
            return Vec::new();
        }
        let mut limits: Vec<GuardLimit> = Vec::new();
        for item in self.items(guard).iter().take(MISTAKES_MAX + 1) {
            let Some(limit) = self.limit(item, split) else { continue };
            let is_same = |other: &GuardLimit| {
                other.metric == limit.metric && discriminant(&other.allowed) == discriminant(&limit.allowed)
            };
            if let Some(other) = limits.iter().find(|other| is_same(other)) {
                self.refuse(item, format!("the guard has \"{other}\" already, a limit of the same kind"));
            }
            limits.push(limit);
        }
        limits
    }

    fn limit(&mut self, field: &Field<'_>, split: Option<&Split>) -> Option<GuardLimit> {
        let limit: GuardLimit = self.parsed(field, "a limit such as \"retransmitted<1.2x\"")?;
        let is_control = |arm: &Arm| arm.treatment == Treatment::Keep && arm.portion > Portion(0);
        let keeps_some = |split: &Split| split.arms.iter().any(is_control);
        if matches!(limit.allowed, Allowed::Relative(_)) && split.is_some_and(|split| !keeps_some(split)) {
            let expected = "nothing is left unchanged to compare with: use `split` with keep, or `steps`";
            self.refuse(field, expected).hint = Some("an absolute limit needs no comparison".to_owned());
        }
        Some(limit)
    }

    fn time(&mut self, field: &Field<'_>) -> Option<Duration> {
        let text = self.text(field, TIME)?;
        let meant = match parse_duration(text) {
            Ok(time) if TIMES.contains(&time) => return Some(time),
            Ok(_) => None,
            Err(error) => error.meant,
        };
        self.refuse(field, format!("expected {TIME}")).suggest(meant);
        None
    }

    /// Empty if the rule has no steps, or if one of them is wrong.
    pub(super) fn steps(&mut self, rule: &TomlTable<'_>) -> Vec<RolloutStep> {
        let Some(field) = rule.field("steps") else { return Vec::new() };
        let mistakes_before = self.mistakes.len();
        let items = field.value.get_ref().as_array().map_or(0, |items| items.len());
        if !(1..=STEPS_MAX).contains(&items) {
            self.refuse(&field, format!("expected {STEPS}"));
            return Vec::new();
        }
        let mut steps: Vec<RolloutStep> = Vec::new();
        for item in self.items(&field) {
            let Some((step, percent)) = self.step(&item) else { continue };
            match why_not_after(steps.last(), step.portion) {
                None => steps.push(step),
                Some(expected) => {
                    self.refuse(&percent, expected);
                }
            }
        }
        if self.mistakes.len() > mistakes_before { Vec::new() } else { steps }
    }

    /// Also returns the field with the percentage.
    fn step<'t>(&mut self, item: &Field<'t>) -> Option<(RolloutStep, Field<'t>)> {
        let Some(table) = item.table() else {
            self.refuse(item, format!("expected {STEPS}"));
            return None;
        };
        self.refuse_unknown(&table, &STEP_FIELDS);
        let is_missing = |key: &&str| table.field(key).is_none();
        for key in STEP_FIELDS.into_iter().filter(is_missing).filter(|key| !table.misspells(&[key], &STEP_FIELDS)) {
            self.refuse_at(table.span.start, &table.name_of(key), format!("missing: expected {STEPS}"));
        }
        let portion = table.field("percent").and_then(|field| self.percent(&field));
        let duration = table.field("for").and_then(|field| self.time(&field));
        let step = RolloutStep { portion: portion?, duration: duration? };
        Some((step, table.field("percent")?))
    }
}

/// Shares rise from step to step, and the first step leaves some connections unchanged.
fn why_not_after(before: Option<&RolloutStep>, portion: Portion) -> Option<String> {
    match before {
        None if portion == Portion(0) => Some("expected more than 0 in the first step".to_owned()),
        None if portion == Portion::ALL => Some("expected less than 100 in the first step".to_owned()),
        Some(before) if portion <= before.portion => {
            Some(format!("expected more than the {} of the step before", before.portion))
        }
        _ => None,
    }
}
