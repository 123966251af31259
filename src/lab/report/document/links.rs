//! The table of all queues, on pages: each direction of each link with its length over time, drops and marks.

use super::ReportContent;
use super::element::Element;
use super::table::{Caption, Column, Role, Table, TableRow};
use crate::report::judge::cell::common_point;
use crate::report::judge::links::{LINK_QUANTITIES, LinkQuantity, ReportLink};
use crate::report::judge::number::Scale;
use crate::report::judge::numbers::RunNumbers;
use crate::report::judge::report::Report;

pub fn links(content: &ReportContent<'_>) -> Vec<Element> {
    table(content.report).map(Element::Table).into_iter().collect()
}

/// Directions in which no packet waited, was dropped, marked or lost are left out, and so are quantities that are 0
/// everywhere.
fn table(report: &Report) -> Option<Table> {
    let rows: Vec<&ReportLink> = report.links.iter().filter(|link| is_busy(link)).collect();
    let common = common_point(&report.cells);
    let variables = rows.first()?.at.keys().filter(|name| !common.contains_key(*name));
    let word = |name: &String| Column::of(name, Role::Word, &rows, |link| link.at.get(name).cloned());
    let mut columns: Vec<Column> = variables.map(word).collect();
    columns.push(Column::of("direction", Role::Name, &rows, |link| Some(format!("{}-{}", link.from, link.to))));
    let unrecorded = |link: &&ReportLink| (!link.is_recorded).then(|| "not recorded".to_owned());
    columns.push(Column::of("queue over time", Role::Word, &rows, unrecorded));
    let has_any = |quantity: &&LinkQuantity| {
        rows.iter().any(|link| link.numbers(quantity.name).is_some_and(|numbers| numbers.mean > 0.0))
    };
    columns.extend(LINK_QUANTITIES.iter().filter(has_any).flat_map(|quantity| of_quantity(&rows, quantity)));
    let begins = |index: usize| index > 0 && rows[index - 1].at != rows[index].at;
    let lines = (0..rows.len()).map(|index| TableRow { starts_group: begins(index), ..TableRow::default() }).collect();
    let whole = if report.part().is_some() { ", over the whole runs" } else { "" };
    let what = "every direction of a link in which packets waited or were lost; means over the runs";
    let caption = Caption::new(format!("Queues{whole}"), what);
    Some(Table::new("queues", caption, columns, lines))
}

fn is_busy(link: &ReportLink) -> bool {
    link.metrics.iter().any(|numbers| numbers.unit == "pkts" && numbers.mean > 0.0)
}

fn of_quantity(rows: &[&ReportLink], quantity: &LinkQuantity) -> [Column; 2] {
    let means = rows.iter().filter_map(|link| Some(link.numbers(quantity.name)?.mean));
    let scale = Scale::of(quantity.unit, means);
    let column = |title: &str, role: Role, show: &dyn Fn(&RunNumbers) -> Option<String>| {
        Column::of(title, role, rows, |link| show(link.numbers(quantity.name)?)).unit(scale.unit())
    };
    [
        column(quantity.title, Role::Number, &|one| Some(scale.show(one.mean))),
        column("95 % interval", Role::Interval, &|one| one.ci95.map(|ends| scale.between(ends))),
    ]
}
