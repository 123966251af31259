//! The layout of events in a recording, which lets later versions with another layout read it.

use std::mem::offset_of;

use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use super::{EVENT_BYTES, EVENT_VERSION, Event, RawEvent};

/// Limits for events of any version.
const RECORD_BYTES_MAX: usize = 4096;
const FIELDS_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldPlace {
    /// The name in `trace_event.h`.
    pub name: String,
    /// Bytes from the beginning.
    pub offset: usize,
    pub size: usize,
}

/// The layout of the events in a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    pub version: u32,
    /// Bytes of one event.
    pub bytes: usize,
    /// "little" or "big".
    pub byte_order: String,
    pub fields: Vec<FieldPlace>,
}

impl Schema {
    /// This version's layout.
    pub fn own() -> Schema {
        let place = |name: &str, offset, size| FieldPlace { name: name.to_owned(), offset, size };
        let mut fields: Vec<FieldPlace> =
            Event::FIELDS.iter().map(|field| place(field.raw.0, field.raw.1, field.raw.2)).collect();
        let of_ends = [
            ("family", offset_of!(RawEvent, family)),
            ("local_port", offset_of!(RawEvent, local_port)),
            ("remote_port", offset_of!(RawEvent, remote_port)),
        ];
        fields.extend(of_ends.map(|(name, at)| place(name, at, size_of::<u16>())));
        fields.sort_unstable_by_key(|place| place.offset);
        Schema {
            version: EVENT_VERSION,
            bytes: EVENT_BYTES,
            byte_order: if cfg!(target_endian = "little") { "little" } else { "big" }.to_owned(),
            fields,
        }
    }

    /// Prepares to convert events of this layout to this version's.
    ///
    /// # Errors
    /// Another byte order; a field outside the event or of another size; no time, socket, kind or family.
    pub fn reading(&self) -> Result<Reading, String> {
        let own = Schema::own();
        if self.byte_order != own.byte_order {
            return Err(format!("its events are {}-endian, and this processor is not", self.byte_order));
        }
        if !(1..=RECORD_BYTES_MAX).contains(&self.bytes) || self.fields.len() > FIELDS_MAX {
            return Err(format!("events of {} bytes with {} fields are not from tccc", self.bytes, self.fields.len()));
        }
        let mut moves = Vec::new();
        for place in &own.fields {
            let Some(theirs) = self.fields.iter().find(|theirs| theirs.name == place.name) else {
                if matches!(place.name.as_str(), "time_ns" | "socket" | "kind" | "family") {
                    return Err(format!("its events have no field \"{}\"", place.name));
                }
                continue;
            };
            let is_inside = theirs.offset.checked_add(theirs.size).is_some_and(|end| end <= self.bytes);
            if theirs.size != place.size || !is_inside {
                return Err(format!("the field \"{}\" of its events has another size or lies outside", place.name));
            }
            moves.push((theirs.offset, place.offset, place.size));
        }
        Ok(Reading { bytes: self.bytes, moves: (*self != own).then_some(moves) })
    }
}

/// Converts recorded events.
#[derive(Debug, Clone)]
pub struct Reading {
    bytes: usize,
    /// From, to, size. `None` if the layouts are equal.
    moves: Option<Vec<(usize, usize, usize)>>,
}

impl Reading {
    pub fn record_bytes(&self) -> usize {
        self.bytes
    }

    /// Converts one event. Fields that the recording lacks are unknown.
    ///
    /// None: too few bytes, or an unknown kind or address family.
    pub fn event(&self, record: &[u8]) -> Option<Event> {
        let Some(moves) = &self.moves else { return Event::decode(record).ok() };
        if record.len() < self.bytes {
            return None;
        }
        let mut raw = Event::unknown();
        for &(from, to, size) in moves {
            raw.as_mut_bytes()[to..to + size].copy_from_slice(&record[from..from + size]);
        }
        Event::of_raw(&raw).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CaState, EventKind};
    use crate::model::live::samples::sample;

    fn event() -> Event {
        Event {
            remote: "[fd00::2]:443".parse().unwrap(),
            ssthresh_pkts: Some(7),
            min_rtt_us: None,
            pacing_rate_bps: Some(80),
            ca_state: CaState::Recovery,
            prior_ca_state: CaState::Disorder,
            private_state: std::array::from_fn(|n| n as u8),
            kind: EventKind::Loss,
            ..sample(5, 123)
        }
    }

    #[test]
    fn encoded_events_decode_to_themselves() {
        for event in [event(), sample(1, 2)] {
            assert_eq!(Event::decode(&event.encode()), Ok(event.clone()));
            assert_eq!(Schema::own().reading().unwrap().event(&event.encode()), Some(event));
        }
    }

    #[test]
    fn events_of_another_layout_are_read_by_the_names_of_their_fields() {
        let mut other = Schema::own();
        // A version with eight bytes before the event and without ssthresh.
        other.bytes += 8;
        other.fields.iter_mut().for_each(|field| field.offset += 8);
        other.fields.retain(|field| field.name != "ssthresh_pkts");
        let record = [vec![0xee; 8], event().encode().to_vec()].concat();
        assert_eq!(other.reading().unwrap().event(&record), Some(Event { ssthresh_pkts: None, ..event() }));
        assert_eq!(other.reading().unwrap().event(&record[..100]), None);
    }

    #[test]
    fn layouts_that_cannot_be_are_refused_with_the_reason() {
        let refusal = |change: fn(&mut Schema)| {
            let mut schema = Schema::own();
            change(&mut schema);
            schema.reading().unwrap_err()
        };
        assert!(refusal(|it| it.byte_order = "middle".into()).contains("middle-endian"));
        assert!(refusal(|it| it.bytes = 0).contains("not from tccc"));
        assert!(refusal(|it| it.fields[0].offset = usize::MAX).contains("time_ns"));
        assert!(refusal(|it| it.fields[3].size = 7).contains("pacing_rate"));
        assert!(refusal(|it| it.fields.remove(1).size = 0).contains("no field \"socket\""));
    }
}
