//! One socket as a JSON object, without an intermediate form: what `serde_json` makes of it, several times as fast.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::columns::{kind_name, tcp_state_name};
use crate::catalog::{Field, StateLayout, Value};
use crate::trace::arrival::RuleArm;
use crate::trace::event::{Event, PRIVATE_BYTES};

const MEMORY: &str = "text in memory can always be written";

/// What stands in every object of one algorithm: its name, and the names of its private state.
#[derive(Debug)]
pub struct Words {
    /// `,"algorithm":"name"`.
    algorithm: Vec<u8>,
    layout: StateLayout,
    /// Shape: the fields beside the phase, each with `,"name":`.
    fields: Vec<(Vec<u8>, Field)>,
}

/// A key with what stands around it, and the value; none is `null`.
type Number = (&'static str, fn(&Event) -> Option<u64>);

/// What tells the socket from others.
static IDENTITY: [Number; 5] = [
    (",\"time_ns\":", |event| Some(event.time_ns)),
    (",\"socket\":", |event| Some(event.socket)),
    (",\"cgroup\":", |event| Some(event.cgroup)),
    (",\"netns\":", |event| Some(event.netns.into())),
    (",\"uid\":", |event| Some(event.uid.into())),
];

/// What it looks like.
static COUNTS: [Number; 15] = [
    (",\"cwnd_pkts\":", |event| Some(event.cwnd_pkts.into())),
    (",\"ssthresh_pkts\":", |event| event.ssthresh_pkts.map(u64::from)),
    (",\"srtt_us\":", |event| event.srtt_us.map(u64::from)),
    (",\"min_rtt_us\":", |event| event.min_rtt_us.map(u64::from)),
    (",\"rtt_us\":", |event| event.rtt_us.map(u64::from)),
    (",\"rto_us\":", |event| Some(event.rto_us.into())),
    (",\"inflight_pkts\":", |event| Some(event.inflight_pkts.into())),
    (",\"delivered_pkts\":", |event| Some(event.delivered_pkts.into())),
    (",\"delivered_ce_pkts\":", |event| Some(event.delivered_ce_pkts.into())),
    (",\"lost_pkts\":", |event| Some(event.lost_pkts.into())),
    (",\"retrans_pkts\":", |event| Some(event.retrans_pkts.into())),
    (",\"bytes_acked\":", |event| Some(event.bytes_acked)),
    (",\"bytes_received\":", |event| Some(event.bytes_received)),
    (",\"mss_bytes\":", |event| Some(event.mss_bytes.into())),
    (",\"pacing_rate_bps\":", |event| event.pacing_rate_bps),
];

impl Words {
    /// Prepares what an algorithm's sockets have in common.
    pub fn new(algorithm: &str, layout: Option<StateLayout>) -> Self {
        let layout = layout.unwrap_or_default();
        let named = layout.fields.iter().filter(|field| field.name != "phase").cloned();
        let key = |field: &Field| format!(",{}:", json(&field.name)).into_bytes();
        let fields = named.map(|field| (key(&field), field)).collect();
        Words { algorithm: format!(",\"algorithm\":{}", json(algorithm)).into_bytes(), layout, fields }
    }

    /// Appends a socket of this algorithm, with its arm of a policy.
    pub fn write(&self, event: &Event, given: Option<&RuleArm>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"kind\":\"");
        put(out, &[kind_name(event.kind), "\""]);
        put_numbers(out, &IDENTITY, event);
        put(out, &[",\"local\":\""]);
        put_address(out, event.local);
        put(out, &["\",\"remote\":\""]);
        put_address(out, event.remote);
        put(out, &["\""]);
        out.extend_from_slice(&self.algorithm);
        put_numbers(out, &COUNTS, event);
        put(out, &[",\"ca_state\":\"", event.ca_state.name(), "\",\"prior_ca_state\":\"", event.prior_ca_state.name()]);
        put(out, &["\",\"app_limited\":", truth(event.app_limited), ",\"private_state\":\""]);
        put_bytes(out, &event.private_state);
        put(out, &["\",\"tcp_state\":\"", tcp_state_name(event.tcp_state), "\",\"phase\":"]);
        put(out, &[&self.layout.phase_name(&event.private_state).map_or("null".to_owned(), json), ",\"state\":{"]);
        self.put_fields(out, &event.private_state);
        put(out, &["}"]);
        match given {
            Some(RuleArm { rule, arm }) => put(out, &[",\"rule\":", &json(rule), ",\"arm\":", &json(arm), "}"]),
            None => put(out, &[",\"rule\":null,\"arm\":null}"]),
        }
    }

    fn put_fields(&self, out: &mut Vec<u8>, state: &[u8]) {
        let mut comma = 1; // the first has none before it
        for (key, field) in &self.fields {
            let Some(value) = field.value(state) else { continue };
            out.extend_from_slice(&key[comma..]);
            comma = 0;
            match value {
                Value::Unsigned(value) => put_number(out, value),
                Value::Bool(value) => put(out, &[truth(value)]),
                other => serde_json::to_writer(&mut *out, &other).expect(MEMORY),
            }
        }
    }
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect(MEMORY)
}

fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn put(out: &mut Vec<u8>, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

fn put_number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[Number], event: &Event) {
    for (key, value) in numbers {
        put(out, &[key]);
        match value(event) {
            Some(value) => put_number(out, value),
            None => put(out, &["null"]),
        }
    }
}

fn put_address(out: &mut Vec<u8>, end: SocketAddr) {
    let IpAddr::V4(address) = end.ip() else { return write!(out, "{end}").expect(MEMORY) };
    for (octet, after) in address.octets().into_iter().zip([".", ".", ".", ":"]) {
        put_number(out, octet);
        put(out, &[after]);
    }
    put_number(out, end.port());
}

/// As hexadecimal digits, without the zeros at the end.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8; PRIVATE_BYTES]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    out.extend(bytes[..used].iter().flat_map(|byte| [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)])));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::cli::naming::Naming;
    use crate::trace::event::{EVENT_BYTES, offset};

    /// Every byte that is free to be anything is something else in each event.
    fn events() -> impl Iterator<Item = Event> {
        (0..64u8).map(|seed| {
            let mut bytes: Vec<u8> =
                (0..EVENT_BYTES).map(|at| (at as u8).wrapping_mul(seed).wrapping_add(seed)).collect();
            bytes[offset::KIND] = 6;
            let family = if seed % 2 == 0 { 2u16 } else { 10 };
            bytes[offset::FAMILY..offset::FAMILY + 2].copy_from_slice(&family.to_ne_bytes());
            let none = if seed % 3 == 0 { 0xff } else { 0 };
            for at in [offset::SSTHRESH_PKTS, offset::SRTT_US, offset::MIN_RTT_US, offset::RTT_US] {
                bytes[at..at + 4].fill(none);
            }
            bytes[offset::PACING_RATE..offset::PACING_RATE + 8].fill(none);
            bytes[offset::PRIVATE_STATE + usize::from(seed)..].fill(0);
            Event::decode(&bytes).unwrap()
        })
    }

    #[test]
    fn every_socket_is_written_as_serde_writes_it() {
        let mut naming = Naming::of_recording();
        let given = RuleArm { rule: "a \"rule\"".into(), arm: "keep".into() };
        let unknown = [(String::from("odd \"name\"\n"), None)];
        let known = catalog::all().iter().map(|carried| (carried.id.to_string(), Some(carried.layout.clone())));
        for (algorithm, layout) in known.chain(unknown) {
            layout.iter().for_each(|layout| naming.learn(algorithm.clone(), layout.clone()));
            let words = Words::new(&algorithm, layout);
            for event in events() {
                let event = Event { algorithm: algorithm.clone(), ..event };
                for given in [None, Some(&given)] {
                    let mut text = Vec::new();
                    words.write(&event, given, &mut text);
                    let expected = serde_json::to_string(&naming.describe(&event, given)).unwrap();
                    assert_eq!(String::from_utf8(text).unwrap(), expected);
                }
            }
        }
    }
}
