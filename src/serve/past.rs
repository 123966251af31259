//! What is known of the past of many sockets: a plot of them begins with it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;

use super::frame::millis;
use crate::model::live::Live;
use crate::model::live::history::{HISTORY_NS, Past};
use crate::model::live::socket::Socket;

/// Sockets of one question: as many as are plotted.
pub(super) const SOCKETS_MAX: usize = 200;
/// Time between two values.
const STEP_NS: u64 = 1_000_000_000;
const STEPS: usize = (HISTORY_NS / STEP_NS) as usize;
/// A socket that said nothing for so many values has no goodput any more.
const QUIET_STEPS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PastQuantity {
    Cwnd,
    Srtt,
    Goodput,
}

impl PastQuantity {
    fn of(self, past: &Past) -> Option<f64> {
        match self {
            PastQuantity::Cwnd => Some(past.cwnd_pkts.into()),
            PastQuantity::Srtt => (past.srtt_us > 0).then(|| past.srtt_us.into()),
            PastQuantity::Goodput => Some(f64::from(past.goodput_bps).round()),
        }
    }
}

/// Values of a quantity once a second; those of a socket that is not known are left out.
#[derive(Serialize)]
struct Document {
    /// Time of the first value.
    begin_ms: f64,
    step_ms: f64,
    curves: BTreeMap<String, Vec<Option<f64>>>,
}

/// Reads `quantity=cwnd|srtt|goodput` and `sockets=COOKIE,…` of a query.
///
/// None: it says something else, or there are too many sockets.
pub(super) fn parse(query: &str) -> Option<(PastQuantity, Vec<u64>)> {
    let word = |name: &str| query.split('&').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let quantity = match word("quantity")? {
        "cwnd" => PastQuantity::Cwnd,
        "srtt" => PastQuantity::Srtt,
        "goodput" => PastQuantity::Goodput,
        _ => return None,
    };
    let sockets: Vec<u64> = word("sockets")?.split(',').map(|text| text.parse().ok()).collect::<Option<_>>()?;
    (sockets.len() <= SOCKETS_MAX).then_some((quantity, sockets))
}

pub(super) fn document(live: &Live, quantity: PastQuantity, sockets: &[u64]) -> Bytes {
    let begin_ns = live.now_ns().saturating_sub(HISTORY_NS);
    let known = sockets.iter().filter_map(|socket| live.socket(*socket));
    let curves = known.map(|socket| (socket.latest.socket.to_string(), curve(socket, quantity, begin_ns))).collect();
    let document = Document { begin_ms: millis(begin_ns + STEP_NS), step_ms: millis(STEP_NS), curves };
    serde_json::to_vec(&document).expect("what we hand over has keys of text, and memory takes everything").into()
}

/// A value holds until the next, as it does for whoever watches, up to the socket's end.
fn curve(socket: &Socket, quantity: PastQuantity, begin_ns: u64) -> Vec<Option<f64>> {
    let mut values = vec![None; STEPS];
    socket.history.resample(begin_ns, begin_ns + HISTORY_NS, |past| quantity.of(past), &mut values);
    let open_ns = socket.closed_ns.map_or(HISTORY_NS, |closed_ns| closed_ns.saturating_sub(begin_ns));
    let mut held: Option<(usize, f64)> = None;
    for (at, value) in values.iter_mut().enumerate().take((open_ns / STEP_NS) as usize) {
        match (*value, held) {
            (Some(value), _) => held = Some((at, value)),
            (None, Some((since, last))) => {
                let is_quiet = quantity == PastQuantity::Goodput && at - since > QUIET_STEPS;
                *value = Some(if is_quiet { 0.0 } else { last });
            }
            (None, None) => {}
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::live::samples::{SECOND, arrival, sample};

    fn curves(live: &Live, quantity: PastQuantity) -> serde_json::Value {
        serde_json::from_slice(&document(live, quantity, &[1, 2])).unwrap()
    }

    #[test]
    fn past_is_told_by_the_second_and_holds_until_the_next_value() {
        let mut live = Live::default();
        for (second, cwnd_pkts) in [(130, 10), (140, 20), (230, 30)] {
            let mut event = sample(1, second * SECOND);
            (event.cwnd_pkts, event.bytes_acked) = (cwnd_pkts, second * 1000);
            live.apply(arrival(event));
        }
        live.advance(240 * SECOND);
        let told = curves(&live, PastQuantity::Cwnd);
        assert_eq!((&told["begin_ms"], &told["step_ms"]), (&121_000.0.into(), &1000.0.into()));
        let values = told["curves"]["1"].as_array().unwrap();
        assert_eq!(values.len(), STEPS);
        let at = |second: usize| &values[second - 120];
        assert_eq!(
            (at(129), at(130), at(139), at(140), at(239)),
            (&serde_json::Value::Null, &10.0.into(), &10.0.into(), &20.0.into(), &30.0.into())
        );
        assert!(told["curves"].get("2").is_none(), "it is not known");
        let goodput = curves(&live, PastQuantity::Goodput)["curves"]["1"].clone();
        assert_eq!((&goodput[229 - 120], goodput[140 - 120].as_f64() > Some(0.0)), (&0.0.into(), true), "it was quiet");
    }

    #[test]
    fn question_is_read_whole_or_refused() {
        assert_eq!(
            parse("quantity=srtt&sockets=1,18446744073709551615"),
            Some((PastQuantity::Srtt, vec![1, u64::MAX]))
        );
        let many = vec!["1"; SOCKETS_MAX + 1].join(",");
        for query in
            ["", "quantity=srtt", "quantity=x&sockets=1", "quantity=cwnd&sockets=", "quantity=cwnd&sockets=1,-2"]
        {
            assert_eq!(parse(query), None, "{query}");
        }
        assert_eq!(parse(&format!("quantity=cwnd&sockets={many}")), None);
    }
}
