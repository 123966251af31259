//! `[variant.NAME]`: the flows that it changes, and those that it leaves out.

use super::flow::WrittenFlow;
use super::variables::UsedNames;
use super::{CellReader, CellVariables};
use crate::scenario::spec::{Cell, FlowSpec, LeftOut, VARIANT};
use host::toml_reader::{Found, Read as _, Result, TWICE, Table, Value, each};

/// The variant of a cell.
pub(super) struct OfVariant<'t> {
    pub(super) table: Table<'t>,
    /// The TCP flows that it applies to, which the report compares.
    pub(super) flows: Vec<String>,
    /// The flows that do not run.
    pub(super) without: Vec<String>,
}

/// The flows that a variant names.
struct Named {
    flows: Option<Vec<String>>,
    without: Vec<String>,
}

impl<'t> CellReader<'t> {
    /// The variant of the cell. Checks every variant of the file.
    pub(super) fn variant(&self, flows: &[WrittenFlow<'_>]) -> Result<Option<OfVariant<'t>>> {
        let Some(variants) = self.document().get("variant") else { return Ok(None) };
        // The variants of other cells use no variable here.
        let others = UsedNames::default();
        let variables = CellVariables { used: &others, ..*self.variables };
        let all = variants.table()?.with(&variables);
        all.check()?;
        let names = FlowNames(flows);
        let named = each(all.entries(), |(_, variant)| names.of_variant(&variant.table()?))?;
        let of_cell = self.variables.at.and_then(|at| at.get(VARIANT));
        let Some(table) = of_cell.map(|name| variants.table()?.table(name)).transpose()? else { return Ok(None) };
        let Named { flows, without } = names.of_variant(&table)?;
        let flows = flows.unwrap_or_else(|| {
            let stays = |name: &&str| !named.iter().any(|one| one.without.iter().any(|other| other == name));
            let tcp = names.all(|flow| flow.is_tcp);
            let stay: Vec<&str> = tcp.iter().copied().filter(stays).collect();
            if stay.is_empty() { tcp } else { stay }.into_iter().map(str::to_owned).collect()
        });
        Ok(Some(OfVariant { table, flows, without }))
    }
}

/// The flows of the file, as a variant names them.
struct FlowNames<'a, 't>(&'a [WrittenFlow<'t>]);

impl FlowNames<'_, '_> {
    fn all(&self, which: impl Fn(&WrittenFlow<'_>) -> bool) -> Vec<&str> {
        self.0.iter().filter(|flow| which(flow)).map(|flow| flow.name.as_str()).collect()
    }

    fn of_variant(&self, table: &Table<'_>) -> Result<Named> {
        let mut found = Found::default();
        let flows = found.keep(table.get("flows").map(|value| value.list(|item| self.tcp(item))).transpose());
        let compared = flows.iter().flatten().flatten().map(String::as_str).collect::<Vec<_>>();
        let without = found.keep(table.get("without").map(|value| self.without(&value, &compared)).transpose());
        match (flows, without) {
            (Some(flows), Some(without)) => Ok(Named { flows, without: without.unwrap_or_default() }),
            _ => Err(found),
        }
    }

    /// The name of a TCP flow.
    fn tcp(&self, item: &Value<'_>) -> Result<String> {
        let name = String::read(item)?;
        let tcp = self.all(|flow| flow.is_tcp);
        if tcp.contains(&name.as_str()) {
            return Ok(name);
        }
        let is_udp = self.all(|flow| !flow.is_tcp).contains(&name.as_str());
        let why = if is_udp { "it sends datagrams, which have no algorithm" } else { "no flow has this name" };
        Err(item.refuse(why).or_hint(format!("TCP flows are {}", tcp.join(", "))).into())
    }

    /// The names of the flows that do not run.
    fn without(&self, value: &Value<'_>, compared: &[&str]) -> Result<Vec<String>> {
        let all = self.all(|_| true);
        let mut names: Vec<String> = Vec::new();
        value.list(|item| {
            let name = String::read(item)?;
            if !all.contains(&name.as_str()) {
                let mistake = item.refuse("no flow has this name");
                return Err(mistake.or_hint(format!("flows are {}", all.join(", "))).into());
            }
            if compared.contains(&name.as_str()) {
                return Err(item.refuse("`flows` has it too: expected a flow that the report does not compare").into());
            }
            if names.contains(&name) {
                return Err(item.refuse(TWICE).into());
            }
            names.push(name);
            Ok(())
        })?;
        match all.iter().all(|name| names.iter().any(|other| other == name)) {
            true => Err(value.refuse_field("no flow is left: expected at least one that it does not name").into()),
            false => Ok(names),
        }
    }
}

impl Cell {
    /// Removes flows. The others keep their numbers.
    pub(super) fn keeping(mut self, stays: &[bool]) -> Cell {
        let mut before = LeftOut::default();
        let kept = self.flows.into_iter().zip(stays).filter_map(|(flow, stays)| {
            if *stays {
                return Some(FlowSpec { left_out_before: before, ..flow });
            }
            before.flows += 1;
            before.connections += flow.fixed_connections();
            None
        });
        self.flows = kept.collect();
        self
    }
}
