//! The machines that ran the experiment, and how complete their plans are.

use super::ReportContent;
use super::element::Element;
use super::table::{Caption, Column, Role, Table, TableRow};
use crate::report::judge::fleet::{Fleet, FleetNode, Shift};
use shared::model::metrics::Metric;

/// `1356 of 1360, missing: --array=3,7-9`, one per plan.
pub fn blocks(fleet: &Fleet) -> Vec<String> {
    let lines = fleet.blocks.iter().map(|blocks| {
        let missing =
            if blocks.missing.is_empty() { String::new() } else { format!(", missing: --array={}", blocks.missing) };
        format!("{} of {}{missing}", blocks.present, blocks.planned)
    });
    lines.collect()
}

/// The table of nodes, if there are several.
pub fn nodes(content: &ReportContent<'_>) -> Vec<Element> {
    let fleet = content.report.fleet.as_ref().filter(|fleet| fleet.nodes.len() > 1);
    fleet.map_or_else(Vec::new, |fleet| vec![Element::Table(table(fleet))])
}

fn table(fleet: &Fleet) -> Table {
    let nodes: Vec<&FleetNode> = fleet.nodes.iter().collect();
    let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let columns = vec![
        Column::of("node", Role::Name, &nodes, |node| said(&node.machine.node).or_else(|| said(&node.machine.id))),
        Column::of("processor", Role::Word, &nodes, |node| said(&node.machine.processor)),
        Column::of("machine", Role::Word, &nodes, |node| said(&node.machine.virtualisation)).detail(),
        Column::of("governor", Role::Word, &nodes, |node| said(&node.machine.governor)).detail(),
        Column::of("runs", Role::Number, &nodes, |node| Some(node.runs.to_string())),
        Column::of("late attempts", Role::Number, &nodes, |node| Some(node.late_attempts.to_string())),
        Column::of("shift", Role::Number, &nodes, |node| node.shift.map(|shift| percent(shift.mean))).unit("%"),
        Column::of("95 % interval", Role::Interval, &nodes, |node| node.shift.and_then(interval)),
    ];
    let rows = nodes.iter().map(|_| TableRow::default()).collect();
    let compared = fleet.compared.as_ref().map_or(String::new(), |compared| {
        let title = Metric::find(&compared.metric).map_or(compared.metric.as_str(), |metric| metric.title);
        format!("; shift: {title} of {} relative to the other nodes", compared.variant)
    });
    Table::new("nodes", Caption::new("Nodes", format!("machines that ran the experiment{compared}")), columns, rows)
}

fn percent(share: f64) -> String {
    format!("{:+.2}", 100.0 * share)
}

fn interval(shift: Shift) -> Option<String> {
    shift.ci95.map(|[low, high]| format!("{} to {}", percent(low), percent(high)))
}
