//! Writes one socket as a JSON object. The result equals that of `serde_json`, and takes a fraction of the time.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::naming::StateWords;
use shared::arrival::RuleArm;
use shared::catalog::StateValue;
use shared::event::{Event, FieldValue, private_digits};

const MEMORY: &str = "text in memory can always be written";

/// Appends the members of a socket's object and its closing brace.
pub fn write_members(event: &Event, words: &StateWords, given: Option<&RuleArm>, out: &mut Vec<u8>) {
    for (place, field) in Event::FIELDS.iter().enumerate() {
        put(out, &field.key[usize::from(place == 0)..]);
        match (field.value)(event) {
            Some(value) => put_value(out, &value),
            None => put(out, "null"),
        }
    }
    put(out, ",\"phase\":");
    put_text(out, words.phase(event));
    put(out, ",\"state\":{");
    put_state(out, words, event);
    put(out, "},\"rule\":");
    put_text(out, given.map(|given| given.rule.as_str()));
    put(out, ",\"arm\":");
    put_text(out, given.map(|given| given.arm.as_str()));
    put(out, "}");
}

fn put_state(out: &mut Vec<u8>, words: &StateWords, event: &Event) {
    let mut comma = "";
    for (key, field) in &words.fields {
        let Some(value) = field.value(&event.private_state) else { continue };
        put(out, comma);
        comma = ",";
        out.extend_from_slice(key);
        match value {
            StateValue::Unsigned(value) => put_number(out, value),
            other => serde_json::to_writer(&mut *out, &other).expect(MEMORY),
        }
    }
}

fn put_value(out: &mut Vec<u8>, value: &FieldValue) {
    match value {
        FieldValue::U32(value) => put_number(out, *value),
        FieldValue::U64(value) => put_number(out, *value),
        FieldValue::Truth(value) => put(out, if *value { "true" } else { "false" }),
        FieldValue::Text(text) => put_text(out, Some(text)),
        FieldValue::End(end) => put_address(out, *end),
        FieldValue::Private(state) => {
            put(out, "\"");
            out.extend(private_digits(state));
            put(out, "\"");
        }
        FieldValue::Real(value) => serde_json::to_writer(out, value).expect(MEMORY),
    }
}

fn put_text(out: &mut Vec<u8>, text: Option<&str>) {
    serde_json::to_writer(out, &text).expect(MEMORY);
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn put_number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

fn put_address(out: &mut Vec<u8>, end: SocketAddr) {
    let IpAddr::V4(address) = end.ip() else { return write!(out, "\"{end}\"").expect(MEMORY) };
    put(out, "\"");
    for (octet, after) in address.octets().into_iter().zip([".", ".", ".", ":"]) {
        put_number(out, octet);
        put(out, after);
    }
    put_number(out, end.port());
    put(out, "\"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::catalog::{self, StateLayout};
    use shared::event::{EVENT_BYTES, RawEvent};
    use zerocopy::FromBytes as _;

    /// Bytes without a fixed meaning differ between any two events.
    fn events() -> impl Iterator<Item = Event> {
        (0..64u8).map(|seed| {
            let bytes: Vec<u8> = (0..EVENT_BYTES).map(|at| (at as u8).wrapping_mul(seed).wrapping_add(seed)).collect();
            let mut raw = RawEvent::read_from_bytes(&bytes).unwrap();
            raw.kind = 6;
            (raw.tcp_state, raw.family) = if seed % 2 == 0 { (1, 2) } else { (7, 10) };
            let none = if seed % 3 == 0 { u32::MAX } else { 0 };
            (raw.ssthresh_pkts, raw.srtt_us, raw.min_rtt_us, raw.rtt_us) = (none, none, none, none);
            raw.pacing_rate = if none == 0 { 0 } else { u64::MAX };
            raw.private_state[usize::from(seed)..].fill(0);
            Event::of_raw(&raw).unwrap()
        })
    }

    /// The object as serde would build it.
    fn object(event: &Event, layout: &StateLayout, given: Option<&RuleArm>) -> serde_json::Value {
        let mut object = serde_json::to_value(event).unwrap();
        let own = layout.values(&event.private_state).filter(|(name, _)| *name != "phase");
        let own = own.map(|(name, value)| (name.to_owned(), serde_json::to_value(value).unwrap()));
        object["tcp_state"] = if event.tcp_state == 1 { "ESTABLISHED" } else { "CLOSE" }.into();
        object["phase"] = layout.phase_name(&event.private_state).into();
        object["state"] = serde_json::Value::Object(own.collect());
        object["rule"] = given.map(|given| given.rule.as_str()).into();
        object["arm"] = given.map(|given| given.arm.as_str()).into();
        object
    }

    #[test]
    fn every_socket_is_written_as_serde_writes_it() {
        let given = RuleArm { rule: "a \"rule\"".into(), arm: "keep".into() };
        let unknown = [(String::from("odd \"name\"\n"), StateLayout::default())];
        let known = catalog::all().iter().map(|carried| (carried.id.to_string(), carried.layout.clone()));
        for (algorithm, layout) in known.chain(unknown) {
            let words = StateWords::of(layout.clone());
            for event in events() {
                let event = Event { algorithm: algorithm.clone(), ..event };
                for given in [None, Some(&given)] {
                    let mut text = b"{".to_vec();
                    write_members(&event, &words, given, &mut text);
                    let written: serde_json::Value = serde_json::from_slice(&text).unwrap();
                    assert_eq!(written, object(&event, &layout, given));
                }
            }
        }
    }
}
