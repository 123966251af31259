//! Checks for what a guest does not support, before it starts.

use anyhow::Result;

use super::algorithms::id_of;
use super::{flow, link};
use crate::cost;
use crate::path::discipline::{Discipline, DisciplineKind};
use crate::scenario::algorithm::source;
use crate::scenario::{Cell, Ecn, FlowSpec, GuestKernel, LinkSpec, Scenario, Sends};
use shared::catalog;
use shared::failure::Failure;
use shared::kernel::congestion::OF_LINUX;

/// Highest rate of a flow whose links have no rate, bits per second. The forecast for one second of it is a minute.
const RATE_MAX_BPS: f64 = 400e9;
const NEWER: &str = "`--kernel 7.3`, or `kernel = \"7.3\"` in the scenario";

/// # Errors
/// The first field that a guest does not support, with its place.
pub fn check(scenario: &Scenario, kernel: GuestKernel, cell: &Cell) -> Result<()> {
    for flow in cell.flows.iter().filter(|flow| flow.is_tcp()) {
        if let Some(failure) = unsupported(&flow.algorithm, kernel) {
            return Err(scenario.mistake_in_flow(cell, flow, "algorithm", failure).into());
        }
        if flow.ecn == Ecn::Accurate && kernel != GuestKernel::Linux7 {
            let what = format!("Linux {} has no Accurate ECN", kernel.series());
            return Err(scenario.mistake_in_flow(cell, flow, "ecn", Failure::usage(what).hint(NEWER)).into());
        }
    }
    for spec in &cell.links {
        if let Some((direction, field, why)) = link::too_many_numbers(&spec.config(cell.mtu)) {
            return Err(scenario.mistake_in_link(cell, spec, (direction, field), why).into());
        }
        if let Some((place, why)) = younger_discipline(spec, kernel) {
            return Err(scenario.mistake_in_link(cell, spec, place, why).into());
        }
    }
    if let Some((flow, failure)) = unlimited(cell) {
        return Err(scenario.mistake_in_flow(cell, flow, "from", failure).into());
    }
    match flow::uncountable(cell) {
        Some((flow, field, why)) => Err(scenario.mistake_in_flow(cell, flow, field, why).into()),
        None => Ok(()),
    }
}

/// The first direction and field with a discipline that the guest's kernel does not have.
fn younger_discipline(link: &LinkSpec, kernel: GuestKernel) -> Option<((usize, &'static str), Failure)> {
    let is_younger = |one: &Discipline| kernel != GuestKernel::Linux7 && one.kind == DisciplineKind::Dualpi2;
    let direction = link.directions.iter().position(|direction| direction.disciplines().any(is_younger))?;
    let is_first = link.directions[direction].discipline.as_ref().is_some_and(is_younger);
    let what = format!("Linux {} has no dualpi2", kernel.series());
    Some(((direction, if is_first { "discipline" } else { "change" }), Failure::usage(what).hint(NEWER)))
}

/// The first endless flow that neither a rate nor its window limits.
///
/// In a guest, the speed of the processor does not limit it either, so its packets would all leave at the same time.
fn unlimited(cell: &Cell) -> Option<(&FlowSpec, Failure)> {
    let endless = cell.flows.iter().filter(|flow| flow.is_tcp() && matches!(flow.sends, Sends::Bulk));
    let (flow, bps) =
        endless.filter_map(|flow| Some((flow, cost::window_bps(cell, flow)?))).find(|one| one.1 > RATE_MAX_BPS)?;
    let round_trip = humantime::format_duration(cost::round_trip(cell, flow));
    let (bps, most) = (bps / 1e9, RATE_MAX_BPS / 1e9);
    let what = format!(
        "no link from here on has a rate, and with a round trip of {round_trip} flow \"{}\" could send {bps:.0} Gbit/s; \
         virtual time takes at most {most:.0} Gbit/s",
        flow.name
    );
    Some((
        flow,
        Failure::usage(what).hint("give a link on its way a `rate` or more `delay`, or the flow a `window_cap`"),
    ))
}

/// Why a guest does not support an existing algorithm.
fn unsupported(algorithm: &str, kernel: GuestKernel) -> Option<Failure> {
    if source::is_source(algorithm) {
        let id = id_of(algorithm);
        let what = format!("\"{algorithm}\": the guest's kernel has its own algorithm of the name \"{id}\"");
        return OF_LINUX.contains(&id).then(|| Failure::usage(what).hint("give the file another name"));
    }
    let known = catalog::find(algorithm).ok()?;
    if let Some(need) = known.need
        && known.check_kernel(|| kernel == GuestKernel::Linux7).is_err()
    {
        let what = format!("\"{algorithm}\" needs {}, which Linux {} lacks", need.phrase(), kernel.series());
        return Some(Failure::usage(what).hint(NEWER));
    }
    let companion = known.companion_of_both_ends()?;
    let what = format!(
        "\"{algorithm}\" needs its companion program \"{}\", and the guest of virtual time cannot run BPF programs",
        companion.program
    );
    Some(Failure::usage(what).hint("`--engine kernel` runs it"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scenario::tests::{self, RENO, scenario};

    /// The messages had neither file nor line.
    #[test]
    fn what_a_guest_does_not_support_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let many: String = (1..=2_200_000).map(|number| format!("{number}\n")).collect();
        fs::write(folder.path().join("many.txt"), many).unwrap();
        let file = folder.path().join("x.toml").display().to_string();
        let refused = |link: &str, flow: &str| {
            let text = format!(
                "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"10s\"\nruns=1\nseed=1\n\
                 [[link]]\nends=[\"a\",\"b\"]\nrate=\"10gbit\"\ndelay=\"10ms\"\n{link}\n\
                 [[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\n{flow}\n"
            );
            let scenario = Scenario::parse(&file, &text).unwrap();
            check(&scenario, GuestKernel::default(), &scenario.cells[0]).unwrap_err().to_string()
        };
        let (tcp, losses) = (RENO, "loss=\"trace:many.txt\"");
        let expected = |place: &str, why: &str| format!("{file}:{place}: {why}");
        let why = "its numbers take 17600000 bytes";
        assert!(refused(losses, tcp).starts_with(&expected("11: link.loss", why)));
        let back = format!("queue=\"9pkts\"\nreverse={{{losses}}}");
        assert!(refused(&back, tcp).starts_with(&expected("12: link.reverse.loss", why)));
        let later = format!("change=[{{at=\"1s\",{losses}}}]");
        assert!(refused(&later, tcp).starts_with(&expected("11: link.change", why)));
        let datagrams = refused("", "protocol=\"udp\"\npacket=\"36B\"\nrate=\"10gbit\"");
        assert!(datagrams.starts_with(&expected("18: flow.rate", "it sends ")), "{datagrams}");
    }

    #[test]
    fn flow_without_any_limit_is_refused() {
        let check = |link: &str, flow: &str| {
            let scenario = scenario(10, &(tests::link(["a", "b"], link) + &tests::flow("f", ["a", "b"], flow)));
            check(&scenario, GuestKernel::default(), &scenario.cells[0]).map_err(|error| error.to_string())
        };
        let refused = check("", RENO).unwrap_err();
        assert!(refused.starts_with("x.toml:12: flow.from: no link from here on has a rate"), "{refused}");
        assert!(check("delay=\"100us\"", RENO).is_err());
        assert!(check("rate=\"1gbit\"", RENO).is_ok() && check("delay=\"10ms\"", RENO).is_ok());
        assert!(check("delay=\"1ms\"", "algorithm=\"reno\"\nwindow_cap=100").is_ok());
        assert!(check("", "algorithm=\"reno\"\nsize=\"1MB\"").is_ok(), "it ends");
    }

    #[test]
    fn own_file_that_hides_an_algorithm_of_the_guest_is_refused() {
        let unsupported = |algorithm| unsupported(algorithm, GuestKernel::default());
        assert!(unsupported("cubic.bpf.c").unwrap().what.contains("its own algorithm of the name \"cubic\""));
        assert!(unsupported("mine.bpf.c").is_none() && unsupported("dtcp").is_none());
        assert!(unsupported("mswift").unwrap().what.contains("companion program"));
    }

    #[test]
    fn algorithm_that_needs_accurate_ecn_is_refused_by_the_older_guest_alone() {
        let refused = unsupported("prague", GuestKernel::Linux6).unwrap();
        assert_eq!(refused.what, "\"prague\" needs Accurate ECN (RFC 9768), which Linux 6.12 lacks");
        assert_eq!(refused.hint.as_deref(), Some(NEWER));
        assert!(unsupported("prague", GuestKernel::Linux7).is_none(), "its companion's work is a patch there");
    }
}
