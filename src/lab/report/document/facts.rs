//! How a report was measured.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{calibration, nodes};
use crate::report::judge::cell::{common_point, point_name};
use crate::report::judge::interval::{self, IntervalKind};
use crate::report::judge::report::Report;
use shared::model::run::Engine;
use shared::sanitize::count;
use shared::units::format_duration;

/// Longest delay of a node in virtual time that no shared flow passes, microseconds.
const NODE_US: f64 = 10.0;
/// Characters of a shortened digest.
const DIGEST_LENGTH: usize = 12;

/// The facts of the measurement: name and text.
pub fn header(report: &Report) -> Vec<(String, String)> {
    let host = &report.host;
    let named = |map: &BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name} {}", shortened(value))).collect::<Vec<_>>().join(", ")
    };
    let mut facts = Vec::new();
    facts.extend(report.source.as_ref().map(|source| ("source", format!("{}, {}", source.paper, source.r#where))));
    facts.push(("kernel", format!("{}, {}", host.kernel, count(host.cpus as usize, "processor"))));
    facts.push(("path", format!("link {}, network {}, offloads {}", host.link, host.network, host.offloads)));
    facts.push(("profile", report.profile.clone()));
    facts.extend(host_delay(&report.host_delays_us).map(|delay| ("host delay", delay)));
    facts.extend(
        report.part().map(|part| ("part", format!("metrics count {part} after the first event of a run's flows"))),
    );
    facts.push(("every cell", point_name(&common_point(&report.cells))));
    facts.extend([("tools", named(&host.tools)), ("algorithms", named(&host.algorithms))]);
    facts.extend(report.reruns.iter().map(|rerun| ("re-run", rerun.clone())));
    facts.push(("seed", report.seed.to_string()));
    facts.extend(report.fleet.iter().flat_map(nodes::blocks).map(|blocks| ("blocks", blocks)));
    facts.extend(report.digest.as_ref().map(|digest| ("digest", digest.clone())));
    facts.extend(report.perturbed.iter().map(|perturbed| ("perturbed", perturbed.sentence())));
    facts.extend(intervals(report).into_iter().map(|sentence| ("intervals", sentence)));
    // In virtual time no path is calibrated.
    let calibration = (host.engine != Engine::Virtual).then(|| calibration::lines(&report.calibration));
    facts.extend(calibration.into_iter().flatten().map(|line| ("calibration", line)));
    facts.retain(|(_, fact)| !fact.is_empty());
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

/// The random delays in nodes, such as `up to 600us on the way of flows that share a link, 10us elsewhere`.
fn host_delay(delays_us: &[f64]) -> Option<String> {
    let text = |us: f64| format_duration(Duration::from_secs_f64(us / 1e6));
    let [shortest, longest] = [delays_us.first()?, delays_us.last()?].map(|us| text(*us));
    match delays_us {
        [.., 0.0] => None,
        [_] => Some(format!("up to {longest} in every node")),
        [others, ways @ ..] if *others <= NODE_US => {
            let first = text(ways[0]);
            let ways = if first == longest { longest } else { format!("{first} to {longest}") };
            let others = if *others > 0.0 { shortest } else { "none".to_owned() };
            Some(format!("up to {ways} on the way of flows that share a link, {others} elsewhere"))
        }
        _ => Some(format!("up to {shortest} to {longest}, by the path")),
    }
}

/// Shortens digests, just enough to tell objects apart. JSON has them in full.
fn shortened(value: &str) -> &str {
    let is_digest = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { &value[..DIGEST_LENGTH] } else { value }
}

/// How intervals were computed, one sentence per kind.
fn intervals(report: &Report) -> Vec<String> {
    let kinds = || report.cells.iter().filter_map(|cell| cell.measured.as_ref()?.ci95_kind);
    let fewest = interval::FEWEST;
    let mut sentences = Vec::new();
    if kinds().any(|kind| kind == IntervalKind::Bootstrap) {
        sentences.push(format!(
            "means and medians over {fewest} runs or more: seeded bootstrap, expanded percentiles (Hesterberg 2015)"
        ));
    }
    if kinds().any(|kind| kind == IntervalKind::Student) {
        sentences.push(format!("means over fewer than {fewest} runs: Student's t, clipped at 0"));
    }
    if report.cells.iter().any(|cell| cell.ratio_to_baseline.as_ref().is_some_and(|ratio| ratio.ci95.is_some())) {
        sentences.push("ratios: Fieller's, over the runs that share a seed".to_owned());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_delays_are_those_of_ways_and_of_other_nodes() {
        for (delays_us, told) in [
            (&[][..], None),
            (&[0.0], None),
            (&[600.0], Some("up to 600us in every node")),
            (&[10.0, 600.0], Some("up to 600us on the way of flows that share a link, 10us elsewhere")),
            (&[0.0, 600.0], Some("up to 600us on the way of flows that share a link, none elsewhere")),
            (
                &[10.0, 600.0, 1200.0],
                Some("up to 600us to 1.2ms on the way of flows that share a link, 10us elsewhere"),
            ),
            (&[600.0, 1200.0], Some("up to 600us to 1.2ms, by the path")),
        ] {
            assert_eq!(host_delay(delays_us).as_deref(), told, "{delays_us:?}");
        }
    }
}
