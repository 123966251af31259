//! `[sweep]` and `[variant.NAME]`: the variables, their values, and every combination of them.

use super::table::{Reader, Result};
use super::value::{Value, names_in};
use crate::model::run::At;
use crate::scenario::spec::{Cell, PLANNED_RUNS_MAX, RUNS_MAX, VARIANT, Variable};

/// Every combination of the sweep's values; the last variable varies fastest.
pub fn combinations(sweep: &[Variable]) -> Vec<At> {
    sweep.iter().fold(vec![At::new()], |cells, variable| {
        let extend = |at: &At| {
            let at = at.clone();
            variable.values.iter().map(move |value| {
                let mut at = at.clone();
                at.insert(variable.name.clone(), value.clone());
                at
            })
        };
        cells.iter().flat_map(extend).collect::<Vec<_>>()
    })
}

impl Reader<'_> {
    /// The variables and their values. Variants come first, where the sweep does not list them itself.
    pub(super) fn read_sweep(&self) -> Result<Vec<Variable>> {
        let document = self.document();
        let table = |key| document.get(key).map(|value: Value<'_>| value.table()).transpose();
        let variants: Vec<String> =
            table("variant")?.iter().flat_map(|table| table.entries()).map(|(name, _)| name.to_owned()).collect();
        let mut sweep = Vec::new();
        for (name, value) in table("sweep")?.iter().flat_map(|table| table.entries()) {
            sweep.push(variable(name, &value, &variants)?);
        }
        if !variants.is_empty() && !sweep.iter().any(|variable| variable.name == VARIANT) {
            sweep.insert(0, Variable { name: VARIANT.to_owned(), values: variants });
        }
        Ok(sweep)
    }

    /// Runs of all cells together.
    pub(super) fn check_amount(&self, sweep: &[Variable]) -> Result<()> {
        let cells = sweep.iter().fold(1_usize, |cells, variable| cells.saturating_mul(variable.values.len()));
        if cells > PLANNED_RUNS_MAX {
            let what =
                format!("{cells} cells, one for each combination of its values: expected at most {PLANNED_RUNS_MAX}");
            return Err(self.document().need("sweep")?.refuse_field(what));
        }
        let Some(value) = self.document().get("runs") else { return Ok(()) };
        let runs: usize = value.literal().and_then(|text| text.parse().ok()).unwrap_or(1); // refused later
        if cells.saturating_mul(runs) <= PLANNED_RUNS_MAX {
            return Ok(());
        }
        let what = format!("{runs} runs of each of {cells} cells are more than {PLANNED_RUNS_MAX} together");
        let most = (PLANNED_RUNS_MAX / cells).min(RUNS_MAX as usize);
        Err(value.refuse_field(what).or_hint(format!("at most {most} runs of so many cells")))
    }

    /// No two values of a variable may mean the same: two cells would measure one thing.
    pub(super) fn check_distinct(&self, sweep: &[Variable], cells: &[Cell]) -> Result<()> {
        let mut stride = cells.len();
        for variable in sweep {
            let values = variable.values.len();
            let block = stride;
            stride /= values;
            if variable.name == VARIANT {
                continue; // the same under two names is a way to see the scatter
            }
            let equal = |one: usize, other: usize| {
                let mut of_one = (0..cells.len()).filter(|index| index % block / stride == one);
                of_one.all(|index| measures_the_same(&cells[index], &cells[index + (other - one) * stride]))
            };
            let pair = (0..values).flat_map(|other| (0..other).map(move |one| (one, other))).find(|p| equal(p.0, p.1));
            let Some((one, other)) = pair else { continue };
            let value = self.document().need("sweep")?.table()?.need(&variable.name)?;
            self.check_used(&value, &variable.name)?;
            let what = format!("\"{}\" and \"{}\" mean the same", variable.values[one], variable.values[other]);
            return Err(value.refuse_field(what));
        }
        Ok(())
    }

    /// A variable that no field takes.
    fn check_used(&self, variable: &Value<'_>, name: &str) -> Result<()> {
        let document = self.document();
        let mut others = document.entries().filter(|(key, _)| *key != "sweep");
        if others.any(|(_, value)| names_in(value.written.get_ref()).contains(&name)) {
            return Ok(());
        }
        let hint = format!("write \"${name}\" in the field that takes its values");
        Err(variable.refuse_field(format!("no field has \"${name}\"")).or_hint(hint))
    }
}

fn measures_the_same(one: &Cell, other: &Cell) -> bool {
    (&one.links, &one.flows, one.duration, one.mtu) == (&other.links, &other.flows, other.duration, other.mtu)
}

fn variable(name: &str, value: &Value<'_>, variants: &[String]) -> Result<Variable> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let what = "expected a name of letters, digits and _, so that $name can refer to it";
        return Err(value.refuse_field(what));
    }
    let mut values: Vec<String> = Vec::new();
    for item in value.list(|item| Ok(item.clone()))? {
        let Some(text) = item.literal() else { return Err(item.refuse("expected a text or a number")) };
        if values.iter().any(|other| *other == text) {
            return Err(item.refuse_field(format!("\"{text}\" is listed twice")));
        }
        if name == VARIANT && !variants.iter().any(|variant| *variant == text) {
            let known = if variants.is_empty() { "there is no [variant.NAME]".into() } else { variants.join(", ") };
            return Err(item.refuse(format!("expected a variant of this file: {known}")));
        }
        values.push(text.into_owned());
    }
    if values.is_empty() {
        return Err(value.refuse_field("expected at least one value"));
    }
    Ok(Variable { name: name.to_owned(), values })
}
