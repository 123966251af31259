//! `[sweep]` and the names of `[variant.NAME]`: the variables, their values, and every combination of these.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashSet};

use super::CellReader;
use super::variables::{EXAMPLE, NAME, check_fields, label, names_in};
use crate::scenario::spec::{ALGORITHM, Cell, FlowSpec, PERTURBED, PLANNED_RUNS_MAX, VARIANT, Variable};
use host::toml_reader::{Found, Result, Table, Value, each};
use shared::catalog;
use shared::kernel::congestion;
use shared::model::run::At;
use toml::de::DeValue;

/// Fields and tables whose values may differ between cells.
const OF_CELLS: [&str; 8] = ["sweep", "duration", "mtu", "link", "dumbbell", "parking_lot", "flow", "variant"];

/// The first combination of the sweep's values.
pub fn first(sweep: &[Variable]) -> At {
    sweep.iter().map(|variable| (variable.name.clone(), variable.values[0].clone())).collect()
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
        let mut found = Found::default();
        let variants = found.keep(document.table("variant"));
        let variants: Vec<String> =
            variants.map_or(Vec::new(), |table| table.entries().map(|(name, _)| name.to_owned()).collect());
        let table = found.keep(document.table("sweep")).unwrap_or_else(|| Table::empty(self.source));
        let sweep = found.keep(each(table.entries(), |(name, value)| variable(name, &value, &variants)));
        let Some(mut sweep) = sweep.filter(|_| found.is_empty()) else { return Err(found) };
        if !variants.is_empty() && !sweep.iter().any(|variable| variable.name == VARIANT) {
            sweep.insert(0, Variable { name: VARIANT.to_owned(), values: variants });
        }
        Ok(sweep)
    }

    /// # Errors
    /// Too many cells.
    pub(super) fn check_cells(&self, sweep: &[Variable]) -> Result<()> {
        let cells = sweep.iter().fold(1_usize, |cells, variable| cells.saturating_mul(variable.values.len()));
        if cells <= PLANNED_RUNS_MAX {
            return Ok(());
        }
        let what = format!("{cells} cells, one per combination of values: expected at most {PLANNED_RUNS_MAX}");
        Err(self.document().need("sweep")?.refuse_field(what).into())
    }

    /// # Errors
    /// Too many runs in all cells together.
    pub(super) fn check_runs(&self, runs: usize, cells: usize) -> Result<()> {
        if cells * runs <= PLANNED_RUNS_MAX {
            return Ok(());
        }
        let what = format!("{runs} runs of each of {cells} cells are more than {PLANNED_RUNS_MAX} in all");
        let hint = format!("with so many cells, use at most {} runs", PLANNED_RUNS_MAX / cells);
        Err(self.document().need("runs")?.refuse_field(what).or_hint(hint).into())
    }

    /// Refuses a variable in a field that has one value for all cells, because only its first value would count.
    pub(super) fn check_fixed(&self) -> Result<()> {
        let document = self.document();
        let fixed = document.entries().filter(|(key, _)| document.field(key).is_some() && !OF_CELLS.contains(key));
        each(fixed, |(_, value)| self.check_fixed_value(&value)).map(drop)
    }

    fn check_fixed_value(&self, value: &Value<'_>) -> Result<()> {
        match value.written.get_ref() {
            DeValue::Table(_) => each(value.table()?.entries(), |(_, value)| self.check_fixed_value(&value)).map(drop),
            DeValue::Array(_) => each(&value.items(), |item| self.check_fixed_value(item)).map(drop),
            written => {
                let is_known = |name: &&str| self.variables.at.is_some_and(|at| at.contains_key(*name));
                let Some(name) = names_in(written).into_iter().find(is_known) else { return Ok(()) };
                let expected = format!("expected no \"${name}\": this field has one value for all cells");
                Err(value.mistake(expected).into())
            }
        }
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
            return Err(value.refuse_field(what).into());
        }
        Ok(())
    }

    /// Refuses a variable that went into no field of any cell, because its values would only be labels. Names of flows
    /// and links that no flow passes change no run, so they do not count.
    pub(super) fn check_used(&self, sweep: &[Variable]) -> Result<()> {
        let document = self.document();
        let table = document.table("sweep")?;
        let tuple = |name: &str| table.get(name)?.listed()?.next()?.table().ok();
        let is_a_name = |tuple: Table<'_>| tuple.entries().all(|(key, _)| key == NAME);
        if let Some(variable) = sweep.iter().find(|variable| tuple(&variable.name).is_some_and(is_a_name)) {
            let what = format!("expected a field besides `{NAME}`, such as {EXAMPLE}");
            return Err(table.need(&variable.name)?.refuse_field(what).into());
        }
        let names = |variable: &Variable| match tuple(&variable.name) {
            Some(tuple) => {
                let fields = tuple.entries().map(|(key, _)| key).filter(|key| *key != NAME);
                fields.map(|key| format!("{}.{key}", variable.name)).collect()
            }
            None => vec![variable.name.clone()],
        };
        let unused = |variable: &Variable| names(variable).into_iter().find(|name| !self.variables.used.has(name));
        let mut others = sweep.iter().filter(|variable| variable.name != VARIANT);
        let Some((variable, name)) = others.find_map(|variable| Some((&variable.name, unused(variable)?))) else {
            return Ok(());
        };
        let mut others = document.entries().filter(|(key, _)| *key != "sweep");
        let is_written = match name == *variable {
            true => others.any(|(_, value)| names_in(value.written.get_ref()).contains(&&**variable)),
            false => self.source.text.contains(&format!("${name}")), // a field of a tuple
        };
        let (what, hint) = if is_written {
            let hint = "other tables override the fields that have it, no flow passes the links that have it, or only \
                        the name of a flow has it";
            (format!("no cell takes \"${name}\""), hint.to_owned())
        } else {
            let hint = format!("write \"${name}\" in the field that takes its values");
            (format!("no field has \"${name}\""), hint)
        };
        Err(table.need(variable)?.refuse_field(what).or_hint(hint).into())
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
                let mistake = self.at(&cell.at, |reader| reader.mistake_in_flow(&flow.name, "algorithm", what));
                let hint = match variant {
                    Some(variant) if variant == name => "give the variant another name, or the algorithm of its name",
                    _ => "write `algorithm = \"$algorithm\"`, with whole names in [sweep]",
                };
                return Err(mistake.or_hint(hint).into());
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

fn variable(name: &str, value: &Value<'_>, variants: &[String]) -> Result<Variable> {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let what = "expected a name of letters, digits and _, so that $name can refer to it";
        return Err(value.refuse_field(what).into());
    }
    if name == PERTURBED {
        let what = "`tccc run --perturb` writes its paths under this name: give the variable another";
        return Err(value.refuse_field(what).into());
    }
    let (mut seen, mut first) = (HashSet::new(), None);
    let items = value.list(|item| Ok(item.clone()))?;
    let is_table = |item: &Value<'_>| item.written.get_ref().is_table();
    let are_tables = items.first().is_some_and(is_table);
    let values = each(&items, |item| {
        if is_table(item) != are_tables {
            return Err(item.refuse("expected either tables or other values, not both").into());
        }
        let text = match item.literal() {
            Some(text) => text.into_owned(),
            None if are_tables && ![VARIANT, ALGORITHM].contains(&name) => {
                let tuple = item.table()?;
                check_fields(first.get_or_insert_with(|| tuple.clone()), &tuple, item)?;
                label(&tuple, item)?
            }
            None => return Err(item.refuse("expected a text or a number").into()),
        };
        if !seen.insert(text.clone()) {
            return Err(item.refuse_field(format!("\"{text}\" is listed twice")).into());
        }
        if name == VARIANT && !variants.contains(&text) {
            let known = if variants.is_empty() { "there is no [variant.NAME]".into() } else { variants.join(", ") };
            return Err(item.refuse(format!("expected a variant of this file: {known}")).into());
        }
        Ok(text)
    })?;
    if values.is_empty() {
        return Err(value.refuse_field("expected at least one value").into());
    }
    Ok(Variable { name: name.to_owned(), values })
}
