//! Reads what the connections of a rule get: one algorithm, a split, or a share that rises in steps.

use toml::de::DeValue;

use super::condition::{ALGORITHM, is_algorithm_name};
use super::{NamedAlgorithm, RULE_FIELDS, integer};
use crate::policy::rule::{Arm, Portion, RolloutStep, Split, SplitBy, Treatment};
use crate::written::{Field, Reader, TomlTable};

const ARMS: std::ops::RangeInclusive<usize> = 2..=16;

impl Reader<'_> {
    pub(super) fn percent(&mut self, field: &Field<'_>) -> Option<Portion> {
        let number: Option<f64> = match field.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => integer(field).map(|number| number as f64),
        };
        let portion = number.and_then(Portion::of_percent);
        if portion.is_none() {
            self.refuse(field, "expected a percentage from 0 to 100 with at most two decimals, without quotes");
        }
        portion
    }

    /// Reads `use` or `split`, and `by`. With steps, the first step gives the share of `use`.
    ///
    /// Adds the algorithms to `named`, also if something else in the rule is wrong.
    pub(super) fn treatment(
        &mut self,
        rule: &TomlTable<'_>,
        steps: &[RolloutStep],
        named: &mut Vec<NamedAlgorithm>,
    ) -> Option<Split> {
        let by = self.split_by(rule);
        let arms = match (rule.field("use"), rule.field("split")) {
            (None, None) if rule.misspells(&["use", "split"], &RULE_FIELDS) => None,
            (None, None) => {
                let mistake = self.refuse_at(rule.span.start, &rule.name, "expected `use` or `split` in this rule");
                mistake.hint = Some("`use = \"keep\"` leaves its connections as they are".to_owned());
                None
            }
            (Some(field), None) => self.used(rule, &field, steps, named),
            (None, Some(field)) => self.arms(rule, &field, named),
            (Some(_), Some(field)) => {
                self.refuse(&field, "expected either `use` or `split`, not both");
                None
            }
        };
        Some(Split { arms: arms?, by })
    }

    fn split_by(&mut self, rule: &TomlTable<'_>) -> SplitBy {
        let words = [("connection", SplitBy::Connection), ("peer", SplitBy::Peer), ("prefix", SplitBy::Prefix)];
        let Some(field) = rule.field("by") else { return SplitBy::default() };
        let divides = ["split", "steps"];
        let is_divided = divides.iter().any(|key| rule.field(key).is_some());
        if !is_divided && !rule.misspells(&divides, &RULE_FIELDS) {
            self.refuse(&field, "expected `split` or `steps` in the same rule");
        }
        self.word(&field, &words).unwrap_or_default()
    }

    fn used(
        &mut self,
        rule: &TomlTable<'_>,
        field: &Field<'_>,
        steps: &[RolloutStep],
        named: &mut Vec<NamedAlgorithm>,
    ) -> Option<Vec<Arm>> {
        let name = self.text(field, ALGORITHM)?;
        let Some(treatment) = treatment_named(name) else {
            self.refuse(field, format!("expected \"keep\" or {ALGORITHM}"));
            return None;
        };
        named.extend(NamedAlgorithm::of(&treatment, field, self.text, false));
        if rule.field("steps").is_none() {
            return Some(vec![Arm { treatment, portion: Portion::ALL }]);
        }
        if treatment == Treatment::Keep {
            self.refuse(field, "expected an algorithm, because `steps` raises its share");
            return None;
        }
        Some(Arm::with_rest(treatment, steps.first()?.portion))
    }

    /// Reads the arms of `split`. Moves `keep` to the end.
    fn arms(&mut self, rule: &TomlTable<'_>, field: &Field<'_>, named: &mut Vec<NamedAlgorithm>) -> Option<Vec<Arm>> {
        let mistakes_before = self.mistakes.len();
        if let Some(steps) = rule.field("steps") {
            let expected = "expected `use = ALGORITHM` in the same rule, not `split`";
            self.refuse_at(steps.value.span().start, &steps.name, expected);
        }
        let Some(table) = field.table() else {
            self.refuse(field, "expected percentages such as { dtcp = 5, keep = 95 }");
            return None;
        };
        let mut arms = Vec::new();
        for (name, field) in table.fields() {
            let treatment = treatment_named(name);
            if treatment.is_none() {
                let start = field.value.span().start;
                self.refuse_at(start, &field.name, format!("expected \"keep\" or {ALGORITHM}"));
            }
            named.extend(treatment.iter().filter_map(|it| NamedAlgorithm::of(it, &field, self.text, true)));
            let portion = self.percent(&field);
            arms.extend(treatment.zip(portion).map(|(treatment, portion)| Arm { treatment, portion }));
        }
        if self.mistakes.len() > mistakes_before {
            return None;
        }
        self.check_arms(field, &arms)?;
        arms.sort_by_key(|arm| arm.treatment == Treatment::Keep);
        Some(arms)
    }

    fn check_arms(&mut self, field: &Field<'_>, arms: &[Arm]) -> Option<()> {
        if !ARMS.contains(&arms.len()) {
            let mistake = self.refuse(field, format!("expected {} to {} arms", ARMS.start(), ARMS.end()));
            if let [arm] = arms {
                mistake.hint = Some(format!("`use = \"{}\"` is for all connections of a rule", arm.treatment));
            }
            return None;
        }
        let sum: u32 = arms.iter().map(|arm| u32::from(arm.portion.0)).sum();
        if sum != u32::from(Portion::ALL.0) {
            let percent = f64::from(sum) / 100.0;
            self.refuse(field, format!("expected percentages that add up to 100; their sum is {percent}"));
            return None;
        }
        Some(())
    }
}

fn treatment_named(name: &str) -> Option<Treatment> {
    is_algorithm_name(name).then(|| name.into())
}
