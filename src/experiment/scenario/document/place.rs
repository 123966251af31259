//! Where a field stands in a scenario that reads without mistakes, for mistakes that only show later.

use toml::de::DeTable;

use super::VARIANT;
use crate::experiment::scenario::is_copy_or_itself;
use crate::experiment::scenario::position::{Step, field_name, line_of, range_of, value_at};
use crate::model::run::At;

/// Line and name of the field that gives a flow its value in one combination.
pub fn place_in_flow(text: &str, at: &At, flow: &str, field: &str) -> (usize, String) {
    let Ok(table) = DeTable::parse(text) else { return (1, field.to_owned()) };
    let table = table.get_ref();
    let index = indices(table, &[Step::Key("flow")]).find(|&index| {
        let name = text_at(table, &[Step::Key("flow"), Step::Item(index), Step::Key("name")]);
        name.is_some_and(|name| is_copy_or_itself(flow, name))
    });
    let own = [Step::Key("flow"), Step::Item(index.unwrap_or(0)), Step::Key(field)];
    let variant = at.get(VARIANT).map_or("", String::as_str);
    let bundle = [Step::Key("variant"), Step::Key(variant), Step::Key(field)];
    swept_or_own(text, table, at, if value_at(table, &bundle).is_some() { &bundle } else { &own })
}

/// Line and name of the field that gives one direction of a link its value in one combination.
///
/// Of a link that a shape stands for, the shape's.
pub fn place_in_link(text: &str, at: &At, ends: &[String; 2], direction: usize, field: &str) -> (usize, String) {
    let Ok(table) = DeTable::parse(text) else { return (1, field.to_owned()) };
    let table = table.get_ref();
    let is_it = |index: usize| {
        let end = |end| [Step::Key("link"), Step::Item(index), Step::Key("ends"), Step::Item(end)];
        [0, 1].into_iter().all(|number| text_at(table, &end(number)) == Some(&ends[number]))
    };
    let Some(index) = indices(table, &[Step::Key("link")]).find(|&index| is_it(index)) else {
        let shape = ["dumbbell", "parking_lot"].into_iter().find(|shape| table.get(*shape).is_some());
        let path = [Step::Key(shape.unwrap_or("link"))];
        return (line_of(text, range_of(table, &path).start), format!("{}.{field}", field_name(&path)));
    };
    let link = [Step::Key("link"), Step::Item(index)];
    let back = [link[0], link[1], Step::Key("reverse"), Step::Key(field)];
    let changes = [link[0], link[1], Step::Key("change")];
    let own = [link[0], link[1], Step::Key(field)];
    let path: &[Step<'_>] = match direction {
        1 if value_at(table, &back).is_some() => &back,
        _ if value_at(table, &own).is_some() => &own,
        _ => &changes,
    };
    swept_or_own(text, table, at, path)
}

/// Line and name of one of `report.metrics`.
pub fn place_of_metric(text: &str, index: usize) -> (usize, String) {
    let path = [Step::Key("report"), Step::Key("metrics"), Step::Item(index)];
    let line = DeTable::parse(text).map_or(1, |table| line_of(text, range_of(table.get_ref(), &path).start));
    (line, field_name(&path))
}

/// The place in the sweep that lists the field's value, else the field's own.
fn swept_or_own(text: &str, table: &DeTable<'_>, at: &At, path: &[Step<'_>]) -> (usize, String) {
    if let Some(name) = text_at(table, path).and_then(|text| text.strip_prefix('$'))
        && let Some(value) = at.get(name)
    {
        let variable = [Step::Key("sweep"), Step::Key(name)];
        let listed = indices(table, &variable)
            .find(|&item| text_at(table, &[variable[0], variable[1], Step::Item(item)]) == Some(value));
        let path = [variable[0], variable[1], Step::Item(listed.unwrap_or(0))];
        return (line_of(text, range_of(table, &path).start), field_name(&path));
    }
    (line_of(text, range_of(table, path).start), field_name(path))
}

/// The places of an array's items.
fn indices<'a>(table: &'a DeTable<'_>, path: &'a [Step<'a>]) -> impl Iterator<Item = usize> + 'a {
    let is_there = move |index: &usize| {
        let item: Vec<Step<'_>> = path.iter().copied().chain([Step::Item(*index)]).collect();
        value_at(table, &item).is_some()
    };
    (0..).take_while(is_there)
}

fn text_at<'a>(table: &'a DeTable<'_>, path: &[Step<'_>]) -> Option<&'a str> {
    value_at(table, path)?.get_ref().as_str()
}
