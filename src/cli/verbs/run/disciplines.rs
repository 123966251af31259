//! Whether this host can build links with queue disciplines, which its kernel has for links by netem only.

use anyhow::Result;

use super::args::LinkChoice;
use lab::emulate::{self, OTHER_ENGINE, netem};
use lab::path::discipline::Discipline;
use lab::scenario::{Cell, LinkSpec, Scenario};
use shared::failure::Failure;

/// # Errors
/// The first link with a discipline that this kernel lacks; with one, the first link with a field that netem lacks.
pub fn check<'a>(scenario: &Scenario, cells: impl Iterator<Item = &'a Cell>, choice: LinkChoice) -> Result<()> {
    let links: Vec<(&Cell, &LinkSpec)> =
        cells.flat_map(|cell| cell.links.iter().map(move |link| (cell, link))).collect();
    let mut known: Vec<&Discipline> = Vec::new();
    for (cell, link) in &links {
        for (side, direction) in link.directions.iter().enumerate() {
            let Some(discipline) = direction.discipline.as_ref().filter(|it| !known.contains(it)) else { continue };
            let lacking = match choice {
                LinkChoice::Tunlink => emulate::check_drop_tail(&link.directions).err(),
                LinkChoice::Auto | LinkChoice::Netem => netem::lacking_discipline(discipline),
            };
            if let Some(why) = lacking {
                return Err(scenario.mistake_in_link(cell, link, (side, "discipline"), why).into());
            }
            known.push(discipline);
        }
    }
    let Some(discipline) = known.first() else { return Ok(()) };
    for (cell, link) in &links {
        if let Some((side, field, what)) = netem::beyond(&link.directions) {
            let what = match field {
                "discipline" => format!("cannot emulate {what}"),
                _ => format!("cannot emulate discipline \"{discipline}\" together with {what}"),
            };
            let why = Failure::unmet(what).hint(OTHER_ENGINE);
            return Err(scenario.mistake_in_link(cell, link, (side, field), why).into());
        }
    }
    Ok(())
}
