//! Flows whose socket buffers hold less than their path: their algorithm is then not what limits them. Pure.

use std::collections::{HashMap, HashSet};

use crate::path::Direction;
use crate::path::route::{Hop, RoundTrip};
use crate::scenario::spec::{Cell, FlowSpec, Profile, Sends};
use shared::units::Bytes;

/// Largest buffers of a sender and of a receiver, bytes: the last value of `tcp_wmem` and of `tcp_rmem`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSizes {
    pub send: u64,
    pub receive: u64,
}

/// Those of the profile `paper`.
pub const PAPER_BUFFERS: BufferSizes = BufferSizes { send: 64 << 20, receive: 64 << 20 };
/// Those of Linux 6.12 with enough memory, as documented in its `ip-sysctl`.
pub const LINUX_BUFFERS: BufferSizes = BufferSizes { send: 4 << 20, receive: 6 << 20 };
/// Linux advertises at most this share of the receive buffer, because packets take more memory than their payload
/// (`tcp_adv_win_scale`).
const ADVERTISED: u64 = 2;

/// A flow that cannot fill its path and the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BufferShortage {
    pub flow: String,
    /// What its buffers let it have in flight, bytes.
    pub in_flight: u64,
    /// Its share of the bandwidth-delay product of the path and of the queue, bytes.
    pub path: u64,
    pub queue: u64,
    /// Whether the send buffer is the smaller of its buffers.
    pub is_of_sender: bool,
}

impl BufferShortage {
    /// One sentence without its full stop.
    pub fn sentence(&self) -> String {
        let [in_flight, path, queue] = [self.in_flight, self.path, self.queue].map(|bytes| bytes as f64 / 1e6);
        format!(
            "the socket buffers of flow \"{}\" let it have at most {in_flight:.1} MB in flight, and its path holds \
             {path:.1} MB and its queue {queue:.1} MB: the buffers may limit it, not its algorithm",
            self.flow
        )
    }

    /// What to do about it.
    pub const ADVICE: &'static str = "`send_buffer` and `receive_buffer` of the flow raise its buffers";
}

impl FlowSpec {
    fn buffers(&self, profile: Profile) -> BufferSizes {
        let BufferSizes { send, receive } = match profile {
            Profile::Paper => PAPER_BUFFERS,
            Profile::Native => LINUX_BUFFERS,
        };
        let or = |set: Option<Bytes>, default| set.map_or(default, |bytes| bytes.0);
        BufferSizes { send: or(self.send_buffer, send), receive: or(self.receive_buffer, receive) }
    }
}

/// The first flow of each cell that is short of buffers under a profile, each shortage once.
pub fn buffer_shortages<'a>(cells: impl IntoIterator<Item = &'a Cell>, profile: Profile) -> Vec<BufferShortage> {
    let (mut shortages, mut seen) = (Vec::new(), HashSet::new());
    for shortage in cells.into_iter().filter_map(|cell| cell.buffer_shortages(profile).into_iter().next()) {
        if seen.insert(shortage.clone()) {
            shortages.push(shortage);
        }
    }
    shortages
}

impl Cell {
    /// The flows whose buffers hold less than their share of their path and of the queue at its narrowest link.
    pub fn buffer_shortages(&self, profile: Profile) -> Vec<BufferShortage> {
        let trip = |flow: &FlowSpec| RoundTrip::between(&self.links, &flow.from, &flow.to);
        let tcp = self.flows.iter().filter(|flow| flow.is_tcp());
        let trips: Vec<(&FlowSpec, RoundTrip)> = tcp.filter_map(|flow| Some((flow, trip(flow)?))).collect();
        let mut sharing: HashMap<Hop, u64> = HashMap::new();
        for hop in trips.iter().flat_map(|(_, trip)| &trip.there) {
            *sharing.entry(*hop).or_default() += 1;
        }
        trips.iter().filter_map(|(flow, trip)| self.shortage_of((flow, trip), &sharing, profile)).collect()
    }

    /// `sharing` is the number of TCP flows over each hop.
    ///
    /// None: a path without a rate holds everything; so do buffers for all that the flow may send at once.
    fn shortage_of(
        &self,
        (flow, trip): (&FlowSpec, &RoundTrip),
        sharing: &HashMap<Hop, u64>,
        profile: Profile,
    ) -> Option<BufferShortage> {
        let rate = |direction: &Direction| direction.mean_rate([Default::default(), self.duration]);
        let rated = trip.there.iter().filter_map(|hop| Some((rate(hop.direction(&self.links))?, hop)));
        let (rate, narrowest) = rated.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        let delay_s: f64 = trip.directions(&self.links).map(|direction| direction.delays()[1].as_secs_f64()).sum();
        let limits = self.links[narrowest.link].config(self.mtu).queue_limits_over_time(narrowest.side).ok()?;
        let queue = limits.iter().map(|limit| limit.bytes(self.mtu)).max()?;
        let sharing = sharing[narrowest];
        let BufferSizes { send, receive } = flow.buffers(profile);
        let (in_flight, path, queue) =
            (send.min(receive / ADVERTISED), (rate * delay_s / 8.0) as u64 / sharing, queue / sharing);
        let is_short = in_flight < (path + queue).min(self.most_at_once(flow));
        let is_of_sender = send <= receive / ADVERTISED;
        is_short.then(|| BufferShortage { flow: flow.name.clone(), in_flight, path, queue, is_of_sender })
    }

    /// Bytes that a flow can have in flight for other reasons than buffers and path.
    fn most_at_once(&self, flow: &FlowSpec) -> u64 {
        let window = flow.window_cap.map_or(u64::MAX, |packets| u64::from(packets) * u64::from(self.mtu));
        match &flow.sends {
            Sends::Transfers { size, .. } | Sends::Messages { size, .. } => window.min(size.0),
            Sends::Load(load) => window.min(load.largest()),
            _ => window,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::route::searches;
    use crate::scenario::tests::{RENO, cell, flow, link};

    /// It once searched for each pair of flows, so planning time grew with the cube of their number.
    #[test]
    fn paths_are_searched_twice_per_flow() {
        let pairs = 24;
        let dumbbell = format!("[dumbbell]\npairs={pairs}\nbottleneck={{rate=\"10mbit\",delay=\"10ms\"}}\n");
        let flows: String =
            (1..=pairs).map(|n| flow(&n.to_string(), [&format!("s{n}"), &format!("r{n}")], RENO)).collect();
        let cell = cell(&(dumbbell + &flows));
        let before = searches();
        assert_eq!(cell.buffer_shortages(Profile::Paper), []);
        assert_eq!(searches() - before, 2 * pairs);
    }

    fn shortage(rate: &str, rest: &str) -> Option<BufferShortage> {
        let link = link(["s", "r"], &format!("rate=\"{rate}\"\ndelay=\"100ms\"\nqueue=\"1bdp\""));
        cell(&(link + &flow("data", ["s", "r"], &format!("{RENO}\n{rest}"))))
            .buffer_shortages(Profile::Native)
            .into_iter()
            .next()
    }

    #[test]
    fn flow_with_less_buffer_than_path_and_queue_is_named_with_the_bytes() {
        let short = shortage("100mbit", "").unwrap();
        assert_eq!((short.in_flight, short.path), (3 << 20, 2_500_000));
        assert!((2_499_000..=2_500_500).contains(&short.queue), "{short:?}");
        let start =
            "the socket buffers of flow \"data\" let it have at most 3.1 MB in flight, and its path holds 2.5 MB";
        assert!(short.sentence().starts_with(start), "{}", short.sentence());
        for rest in ["send_buffer=\"16MB\"\nreceive_buffer=\"16MB\"", "window_cap=1000", "size=\"3MB\"", "copies=2"] {
            assert_eq!(shortage("100mbit", rest), None, "{rest}");
        }
        assert_eq!(shortage("50mbit", ""), None);
        let of_sender = shortage("50mbit", "send_buffer=\"1MB\"").unwrap();
        assert_eq!([of_sender.is_of_sender, short.is_of_sender], [true, false]);
        assert_eq!(of_sender.in_flight, 1_000_000);
    }
}
