//! The bytes of an event described by themselves, so that a recording can be read when the layout has changed.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{EVENT_BYTES, EVENT_VERSION, Event, EventKind, PRIVATE_BYTES, offset};

/// An event of any version is smaller.
const RECORD_BYTES_MAX: usize = 4096;
/// An event of any version has fewer fields.
const FIELDS_MAX: usize = 256;

/// Every field of `struct tccc_event` with its place and size.
const FIELDS: [(&str, usize, usize); 32] = [
    ("time_ns", offset::TIME_NS, 8),
    ("socket", offset::SOCKET, 8),
    ("cgroup", offset::CGROUP, 8),
    ("pacing_rate", offset::PACING_RATE, 8),
    ("bytes_acked", offset::BYTES_ACKED, 8),
    ("bytes_received", offset::BYTES_RECEIVED, 8),
    ("netns", offset::NETNS, 4),
    ("cwnd_pkts", offset::CWND_PKTS, 4),
    ("ssthresh_pkts", offset::SSTHRESH_PKTS, 4),
    ("srtt_us", offset::SRTT_US, 4),
    ("min_rtt_us", offset::MIN_RTT_US, 4),
    ("rtt_us", offset::RTT_US, 4),
    ("rto_us", offset::RTO_US, 4),
    ("inflight_pkts", offset::INFLIGHT_PKTS, 4),
    ("delivered_pkts", offset::DELIVERED_PKTS, 4),
    ("delivered_ce_pkts", offset::DELIVERED_CE_PKTS, 4),
    ("lost_pkts", offset::LOST_PKTS, 4),
    ("retrans_pkts", offset::RETRANS_PKTS, 4),
    ("mss_bytes", offset::MSS_BYTES, 4),
    ("uid", offset::UID, 4),
    ("family", offset::FAMILY, 2),
    ("local_port", offset::LOCAL_PORT, 2),
    ("remote_port", offset::REMOTE_PORT, 2),
    ("kind", offset::KIND, 1),
    ("ca_state", offset::CA_STATE, 1),
    ("prior_ca_state", offset::PRIOR_CA_STATE, 1),
    ("tcp_state", offset::TCP_STATE, 1),
    ("app_limited", offset::APP_LIMITED, 1),
    ("local_addr", offset::LOCAL_ADDR, 16),
    ("remote_addr", offset::REMOTE_ADDR, 16),
    ("algorithm", offset::ALGORITHM, 16),
    ("private_state", offset::PRIVATE_STATE, PRIVATE_BYTES),
];

/// Where a field lies in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name in `trace_event.h`.
    pub name: String,
    /// Bytes from the beginning.
    pub offset: usize,
    /// Bytes it takes.
    pub size: usize,
}

/// How the events of a recording are laid out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// Version of the layout.
    pub version: u32,
    /// Bytes of one event.
    pub bytes: usize,
    /// "little" or "big".
    pub byte_order: String,
    /// Every field.
    pub fields: Vec<Place>,
}

impl Schema {
    /// The layout that this program writes.
    pub fn own() -> Schema {
        let place = |(name, offset, size): (&str, usize, usize)| Place { name: name.to_owned(), offset, size };
        Schema {
            version: EVENT_VERSION,
            bytes: EVENT_BYTES,
            byte_order: if cfg!(target_endian = "little") { "little" } else { "big" }.to_owned(),
            fields: FIELDS.into_iter().map(place).collect(),
        }
    }

    /// How events of this layout become events of ours.
    ///
    /// Errors: why it cannot be: another byte order, a field that lies outside the event or has another size, or no
    /// time, socket or kind.
    pub fn reading(&self) -> Result<Reading, String> {
        let own = Schema::own();
        if self.byte_order != own.byte_order {
            return Err(format!("its bytes are in {}-endian order, which this processor is not", self.byte_order));
        }
        if !(1..=RECORD_BYTES_MAX).contains(&self.bytes) || self.fields.len() > FIELDS_MAX {
            return Err(format!("events of {} bytes with {} fields are none of ours", self.bytes, self.fields.len()));
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
                return Err(format!("the field \"{}\" of its events has no place of its size", place.name));
            }
            moves.push((theirs.offset, place.offset, place.size));
        }
        Ok(Reading { bytes: self.bytes, moves: (*self != own).then_some(moves) })
    }
}

/// How recorded events become events of this version's layout.
#[derive(Debug, Clone)]
pub struct Reading {
    bytes: usize,
    /// From, to, size; none when they are laid out as ours are.
    moves: Option<Vec<(usize, usize, usize)>>,
}

impl Reading {
    /// Bytes of one recorded event.
    pub fn record_bytes(&self) -> usize {
        self.bytes
    }

    /// One recorded event; fields it does not have are as in a socket that knows nothing yet.
    ///
    /// None: too few bytes, or a kind or address family that this version does not know.
    pub fn event(&self, record: &[u8]) -> Option<Event> {
        let Some(moves) = &self.moves else { return Event::decode(record).ok() };
        if record.len() < self.bytes {
            return None;
        }
        let mut bytes = [0; EVENT_BYTES];
        put(&mut bytes, offset::SSTHRESH_PKTS, &NO_SSTHRESH.to_ne_bytes());
        put(&mut bytes, offset::MIN_RTT_US, &u32::MAX.to_ne_bytes());
        put(&mut bytes, offset::PACING_RATE, &u64::MAX.to_ne_bytes());
        for &(from, to, size) in moves {
            bytes[to..to + size].copy_from_slice(&record[from..from + size]);
        }
        Event::decode(&bytes).ok()
    }
}

/// The kernel's "infinite" threshold.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn put_address(bytes: &mut [u8], address: SocketAddr, [ip, port]: [usize; 2]) {
    put(bytes, port, &address.port().to_ne_bytes());
    match address.ip() {
        IpAddr::V4(address) => put(bytes, ip, &address.octets()),
        IpAddr::V6(address) => put(bytes, ip, &address.octets()),
    }
}

impl EventKind {
    fn byte(self) -> u8 {
        match self {
            EventKind::Open => 1,
            EventKind::Sample => 2,
            EventKind::State => 3,
            EventKind::Loss => 4,
            EventKind::Close => 5,
            EventKind::Snapshot => 6,
        }
    }
}

impl Event {
    /// Encodes an event as the kernel side writes it; [`Event::decode`] gives it back.
    pub fn encode(&self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        self.encode_identity(&mut bytes);
        let mut u32_at = |at, value: u32| put(&mut bytes, at, &value.to_ne_bytes());
        u32_at(offset::NETNS, self.netns);
        u32_at(offset::UID, self.uid);
        u32_at(offset::CWND_PKTS, self.cwnd_pkts);
        u32_at(offset::SSTHRESH_PKTS, self.ssthresh_pkts.unwrap_or(NO_SSTHRESH));
        u32_at(offset::SRTT_US, self.srtt_us.unwrap_or(0));
        u32_at(offset::MIN_RTT_US, self.min_rtt_us.unwrap_or(u32::MAX));
        u32_at(offset::RTT_US, self.rtt_us.unwrap_or(0));
        u32_at(offset::RTO_US, self.rto_us);
        u32_at(offset::INFLIGHT_PKTS, self.inflight_pkts);
        u32_at(offset::DELIVERED_PKTS, self.delivered_pkts);
        u32_at(offset::DELIVERED_CE_PKTS, self.delivered_ce_pkts);
        u32_at(offset::LOST_PKTS, self.lost_pkts);
        u32_at(offset::RETRANS_PKTS, self.retrans_pkts);
        u32_at(offset::MSS_BYTES, self.mss_bytes);
        let mut u64_at = |at, value: u64| put(&mut bytes, at, &value.to_ne_bytes());
        u64_at(offset::TIME_NS, self.time_ns);
        u64_at(offset::SOCKET, self.socket);
        u64_at(offset::CGROUP, self.cgroup);
        u64_at(offset::BYTES_ACKED, self.bytes_acked);
        u64_at(offset::BYTES_RECEIVED, self.bytes_received);
        u64_at(offset::PACING_RATE, self.pacing_rate_bps.map_or(u64::MAX, |rate| rate / 8));
        bytes[offset::APP_LIMITED] = self.app_limited.into();
        put(&mut bytes, offset::PRIVATE_STATE, &self.private_state);
        bytes
    }

    /// Kind, states, addresses and algorithm.
    fn encode_identity(&self, bytes: &mut [u8; EVENT_BYTES]) {
        let family: u16 = if self.local.is_ipv4() && self.remote.is_ipv4() { 2 } else { 10 };
        put(bytes, offset::FAMILY, &family.to_ne_bytes());
        let [local, remote] = [self.local, self.remote].map(|address| match address.ip() {
            // One end alone can be written as IPv4 when the other is.
            IpAddr::V4(ip) if family == 10 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            _ => address,
        });
        put_address(bytes, local, [offset::LOCAL_ADDR, offset::LOCAL_PORT]);
        put_address(bytes, remote, [offset::REMOTE_ADDR, offset::REMOTE_PORT]);
        bytes[offset::KIND] = self.kind.byte();
        bytes[offset::CA_STATE] = self.ca_state as u8;
        bytes[offset::PRIOR_CA_STATE] = self.prior_ca_state as u8;
        bytes[offset::TCP_STATE] = self.tcp_state;
        let name = self.algorithm.as_bytes();
        put(bytes, offset::ALGORITHM, &name[..name.len().min(16)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::live::samples::sample;
    use crate::trace::event::CaState;

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
    fn every_byte_but_the_padding_belongs_to_a_field() {
        let schema = Schema::own();
        let taken: usize = schema.fields.iter().map(|field| field.size).sum();
        assert_eq!(taken + 5, EVENT_BYTES);
        let mut places: Vec<_> = schema.fields.iter().map(|field| (field.offset, field.offset + field.size)).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0].1 <= pair[1].0), "fields overlap");
    }

    #[test]
    fn events_of_another_layout_are_read_by_the_names_of_their_fields() {
        let mut other = Schema::own();
        // A version that puts eight bytes before everything and has no threshold.
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
        assert!(refusal(|it| it.bytes = 0).contains("none of ours"));
        assert!(refusal(|it| it.fields[0].offset = usize::MAX).contains("time_ns"));
        assert!(refusal(|it| it.fields[3].size = 7).contains("pacing_rate"));
        assert!(refusal(|it| it.fields.remove(1).size = 0).contains("no field \"socket\""));
    }
}
