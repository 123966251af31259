//! `[sweep]` and the names of `[variant.NAME]`: the variables, their values, and every combination of these.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeSet, HashSet};

use super::table::{CellReader, Result, ScenarioTable};
use super::tuple;
use super::value::{ScenarioValue, names_in};
use crate::scenario::spec::{ALGORITHM, Cell, FlowSpec, PERTURBED, PLANNED_RUNS_MAX, RUNS_MAX, VARIANT, Variable};
use shared::catalog;
use shared::kernel::congestion;
use shared::model::run::At;

/// Fields and tables whose values may differ between cells.
const OF_CELLS: [&str; 8] = ["sweep", "duration", "mtu", "link", "dumbbell", "parking_lot", "flow", "variant"];

/// Whether a field, by its dotted name, may differ between cells.
pub(super) fn is_of_cells(name: &str) -> bool {
    name.split('.').next().is_some_and(|first| OF_CELLS.contains(&first))
}

/// The sweep variables whose values went into a field. Fields that others override are not read, and use none.
#[derive(Debug, Default)]
pub struct UsedNames(RefCell<BTreeSet<String>>);

impl UsedNames {
    pub(super) fn add(&self, name: &str) {
        if !self.0.borrow().contains(name) {
            self.0.borrow_mut().insert(name.to_owned());
        }
    }

    pub(super) fn add_all(&self, others: &UsedNames) {
        others.0.borrow().iter().for_each(|name| self.add(name));
    }

    pub(super) fn has_all(&self, others: &UsedNames) -> bool {
        self.0.borrow().is_superset(&others.0.borrow())
    }
}

/// Every combination of the sweep's values; the last variable varies fastest.
pub fn combinations(sweep: &[Variable]) -> Vec<At> {
    let mut cells = vec![At::new()];
    for Variable { name, values } in sweep {
        let with =
            |at: &At, value: &String| at.iter().chain([(name, value)]).map(|(n, v)| (n.clone(), v.clone())).collect();
        cells = cells.iter().flat_map(|at| values.iter().map(move |value| with(at, value))).collect();
    }
    cells
}

impl CellReader<'_> {
    /// The variable of variants comes first, unless the sweep lists it.
    pub(super) fn read_sweep(&self) -> Result<Vec<Variable>> {
        let document = self.document();
        let variants: Vec<String> = document.table("variant")?.entries().map(|(name, _)| name.to_owned()).collect();
        let table = document.table("sweep")?;
        let mut sweep =
            table.entries().map(|(name, value)| variable(name, &value, &variants)).collect::<Result<Vec<_>>>()?;
        if !variants.is_empty() && !sweep.iter().any(|variable| variable.name == VARIANT) {
            sweep.insert(0, Variable { name: VARIANT.to_owned(), values: variants });
        }
        Ok(sweep)
    }

    /// Errors: too many cells, or too many runs in all cells together.
    pub(super) fn check_amount(&self, sweep: &[Variable]) -> Result<()> {
        let cells = sweep.iter().fold(1_usize, |cells, variable| cells.saturating_mul(variable.values.len()));
        if cells > PLANNED_RUNS_MAX {
            let what = format!("{cells} cells, one per combination of values: expected at most {PLANNED_RUNS_MAX}");
            return Err(self.document().need("sweep")?.refuse_field(what));
        }
        let Some(value) = self.document().get("runs") else { return Ok(()) };
        let runs: usize = value.literal().and_then(|text| text.parse().ok()).unwrap_or(1); // refused later
        if cells.saturating_mul(runs) <= PLANNED_RUNS_MAX {
            return Ok(());
        }
        let what = format!("{runs} runs of each of {cells} cells are more than {PLANNED_RUNS_MAX} in all");
        let most = (PLANNED_RUNS_MAX / cells).min(RUNS_MAX as usize);
        Err(value.refuse_field(what).or_hint(format!("with so many cells, use at most {most} runs")))
    }

    /// Refuses a variable in a field that has one value for all cells, because only its first value would count.
    pub(super) fn check_fixed(&self) -> Result<()> {
        let document = self.document();
        let mut fixed = document.entries().filter(|(key, _)| !is_of_cells(key));
        fixed.try_for_each(|(_, value)| value.check_fixed())
    }

    /// Refuses two values of a variable that mean the same, because two cells would measure the same.
    pub(super) fn check_distinct(&self, sweep: &[Variable], cells: &[Cell]) -> Result<()> {
        let mut stride = cells.len();
        let passed: Vec<OnceCell<BTreeSet<usize>>> = vec![OnceCell::new(); cells.len()];
        for variable in sweep {
            let values = variable.values.len();
            let block = stride;
            stride /= values;
            if variable.name == VARIANT {
                continue; // two equal variants show how much results scatter
            }
            let equal = |one: usize, other: usize| {
                let mut of_one = (0..cells.len()).filter(|index| index % block / stride == one);
                of_one.all(|index| {
                    let passed = || passed[index].get_or_init(|| cells[index].passed_links());
                    measures_the_same(&cells[index], &cells[index + (other - one) * stride], passed)
                })
            };
            let pair = (0..values).flat_map(|other| (0..other).map(move |one| (one, other))).find(|p| equal(p.0, p.1));
            let Some((one, other)) = pair else { continue };
            let value = self.document().need("sweep")?.table()?.need(&variable.name)?;
            let what = format!("\"{}\" and \"{}\" mean the same", variable.values[one], variable.values[other]);
            return Err(value.refuse_field(what));
        }
        Ok(())
    }

    /// Refuses a variable that went into no field of any cell, because its values would only be labels. Names of flows
    /// and links that no flow passes change no run, so they do not count.
    pub(super) fn check_used(&self, sweep: &[Variable]) -> Result<()> {
        let used = self.used.0.borrow();
        let document = self.document();
        let table = document.table("sweep")?;
        let tuple = |name: &str| table.get(name)?.items()?.first()?.any_table().ok();
        let is_a_name = |tuple: ScenarioTable<'_>| tuple.entries().all(|(key, _)| key == tuple::NAME);
        if let Some(variable) = sweep.iter().find(|variable| tuple(&variable.name).is_some_and(is_a_name)) {
            let what = format!("expected a field besides `{}`, such as {}", tuple::NAME, tuple::EXAMPLE);
            return Err(table.need(&variable.name)?.refuse_field(what));
        }
        let names = |variable: &Variable| match tuple(&variable.name) {
            Some(tuple) => {
                let fields = tuple.entries().map(|(key, _)| key).filter(|key| *key != tuple::NAME);
                fields.map(|key| format!("{}.{key}", variable.name)).collect()
            }
            None => vec![variable.name.clone()],
        };
        let unused = |variable: &Variable| names(variable).into_iter().find(|name| !used.contains(name));
        let mut others = sweep.iter().filter(|variable| variable.name != VARIANT);
        let Some((variable, name)) = others.find_map(|variable| Some((&variable.name, unused(variable)?))) else {
            return Ok(());
        };
        let mut others = document.entries().filter(|(key, _)| *key != "sweep");
        let is_written = match name == *variable {
            true => others.any(|(_, value)| names_in(value.written.get_ref()).contains(&&**variable)),
            false => self.text.contains(&format!("${name}")), // a field of a tuple
        };
        let (what, hint) = if is_written {
            let hint = "other tables override the fields that have it, no flow passes the links that have it, or only \
                        the name of a flow has it";
            (format!("no cell takes \"${name}\""), hint.to_owned())
        } else {
            let hint = format!("write \"${name}\" in the field that takes its values");
            (format!("no field has \"${name}\""), hint)
        };
        Err(table.need(variable)?.refuse_field(what).or_hint(hint))
    }

    /// Refuses the name of an algorithm for a cell that does not run it, because reports label results by it.
    pub(super) fn check_names(&self, cells: &[Cell]) -> Result<()> {
        for cell in cells {
            let variant = cell.at.get(VARIANT);
            let is_id = |name: &&String| catalog::find(name).is_ok() || congestion::OF_LINUX.contains(&name.as_str());
            for name in variant.filter(is_id).into_iter().chain(cell.at.get(ALGORITHM)) {
                let mut tcp = cell.flows.iter().filter(|flow| flow.is_tcp());
                let runs_it = |flow: &FlowSpec| flow.algorithm == *name;
                if variant.is_some() && tcp.clone().any(runs_it) {
                    continue; // perhaps beside the compared flows
                }
                let Some(flow) = tcp.find(|flow| flow.compared && !runs_it(flow)) else { continue };
                let what = format!("it is \"{}\", and the report would call it \"{name}\"", flow.algorithm);
                let mistake = CellReader { at: &cell.at, ..*self }.mistake_in_flow(&flow.name, "algorithm", what);
                return Err(mistake.or_hint(match variant {
                    Some(variant) if variant == name => "give the variant another name, or the algorithm of its name",
                    _ => "write `algorithm = \"$algorithm\"`, with whole names in [sweep]",
                }));
            }
        }
        Ok(())
    }
}

/// Whether two cells differ at most in names of flows, and in links that no flow passes. `passed` are the links that
/// the flows of the first pass.
fn measures_the_same<'a>(one: &Cell, other: &Cell, passed: impl Fn() -> &'a BTreeSet<usize>) -> bool {
    let is_same_flow = |(a, b): (&FlowSpec, &FlowSpec)| a == b || FlowSpec { name: b.name.clone(), ..a.clone() } == *b;
    let same_flows = || one.flows.len() == other.flows.len() && one.flows.iter().zip(&other.flows).all(is_same_flow);
    let same_nodes = || one.links.iter().map(|link| &link.ends).eq(other.links.iter().map(|link| &link.ends));
    let same_path = || passed().iter().all(|link| one.links[*link] == other.links[*link]);
    (one.duration, one.mtu) == (other.duration, other.mtu)
        && same_flows()
        && (one.links == other.links || same_nodes() && same_path())
}

fn variable(name: &str, value: &ScenarioValue<'_>, variants: &[String]) -> Result<Variable> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let what = "expected a name of letters, digits and _, so that $name can refer to it";
        return Err(value.refuse_field(what));
    }
    if name == PERTURBED {
        let what = "`tccc run --perturb` writes its paths under this name: give the variable another";
        return Err(value.refuse_field(what));
    }
    let (mut values, mut seen, mut first) = (Vec::new(), HashSet::new(), None);
    let items = value.list(|item| Ok(item.clone()))?;
    let is_table = |item: &ScenarioValue<'_>| item.written.get_ref().is_table();
    let are_tables = items.first().is_some_and(is_table);
    for item in items {
        if is_table(&item) != are_tables {
            return Err(item.refuse("expected either tables or other values, not both"));
        }
        let text = match item.literal() {
            Some(text) => text,
            None if are_tables && ![VARIANT, ALGORITHM].contains(&name) => {
                let tuple = item.any_table()?;
                tuple::check_fields(first.get_or_insert_with(|| tuple.clone()), &tuple, &item)?;
                tuple::label(&tuple, &item)?.into()
            }
            None => return Err(item.refuse("expected a text or a number")),
        };
        if !seen.insert(text.clone()) {
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
