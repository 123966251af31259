//! The past of many sockets, for the start of a plot.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::frame::millis;
use shared::model::live::Live;
use shared::model::live::history::{HISTORY_NS, Past};
use shared::model::live::socket::Socket;

/// Most sockets in one request: as many as the page plots.
pub(super) const SOCKETS_MAX: usize = 200;
const STEP_NS: u64 = 1_000_000_000;
const STEPS: usize = (HISTORY_NS / STEP_NS) as usize;
/// After this many steps without an event, the goodput is 0.
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

/// Parses the query `quantity=cwnd|srtt|goodput&sockets=COOKIE,…`.
///
/// None: the query is malformed, or there are too many sockets.
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

/// One value per second and socket; unknown sockets are left out. `begin_ms` is the time of the first value.
pub(super) fn document(live: &Live, quantity: PastQuantity, sockets: &[u64]) -> Bytes {
    let begin_ns = live.now_ns().saturating_sub(HISTORY_NS);
    let known = sockets.iter().filter_map(|socket| live.socket(*socket));
    let curve = |socket: &Socket| (socket.latest.socket.to_string(), curve(socket, quantity, begin_ns));
    let curves: BTreeMap<String, Vec<Option<f64>>> = known.map(curve).collect();
    let (begin_ms, step_ms) = (millis(begin_ns + STEP_NS), millis(STEP_NS));
    serde_json::json!({"begin_ms": begin_ms, "step_ms": step_ms, "curves": curves}).to_string().into()
}

/// A value holds until the next one or the socket's end.
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
    use shared::model::live::samples::{SECOND, arrival, sample};

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
