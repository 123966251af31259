//! CUBIC with SEARCH against a model of the draft's pseudocode: `bpf/cc/cubic_search.bpf.c`.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const ID: &str = "cubic_search";
const W: usize = 10;
const EXTRA_BINS: usize = 15;
/// 200 packets in 40 ms.
const PATH: [u64; 2] = [40_000, 200];
const BDP_PKTS: u32 = 200;

/// The draft's variables, as real numbers and with bins that are never used again. Bytes count from the start.
struct Draft {
    thresh: f64,
    /// WINDOW_SIZE, in 1/100 of INITIAL_RTT.
    window_size: f64,
    /// Missed bins that begin the bins anew, in INITIAL_RTT; 0: none.
    alpha: f64,
    initial_rtt_us: f64,
    bin_duration_us: f64,
    bin_end_us: f64,
    acked: Vec<f64>,
    sent: Vec<f64>,
}

/// The draft's parameters in the units of the tunables.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    thresh: u32,
    window: u32,
    alpha: u32,
}

impl Draft {
    /// Before the first ACK.
    fn new(of: Parameters) -> Self {
        Draft {
            thresh: f64::from(of.thresh) / 100.0,
            window_size: of.window.into(),
            alpha: of.alpha.into(),
            initial_rtt_us: 0.0,
            bin_duration_us: 0.0,
            bin_end_us: 0.0,
            acked: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn set_duration(&mut self, rtt_us: f64) {
        self.initial_rtt_us = rtt_us;
        self.bin_duration_us = rtt_us * self.window_size / 100.0 / W as f64;
    }

    fn begin(&mut self, now_us: f64, [acked, sent]: [f64; 2]) {
        (self.acked, self.sent) = (vec![acked], vec![sent]);
        self.bin_end_us = now_us + self.bin_duration_us;
    }

    /// ACK_arrived. Returns norm_diff if there is enough data for SEARCH.
    fn ack_arrived(&mut self, now_us: f64, rtt_us: f64, bytes: [f64; 2]) -> Option<f64> {
        if self.acked.is_empty() {
            self.set_duration(rtt_us);
            self.begin(now_us, bytes);
        }
        if now_us <= self.bin_end_us {
            return None;
        }
        let passed = ((now_us - self.bin_end_us) / self.bin_duration_us).floor() + 1.0;
        if self.alpha > 0.0 && passed > self.alpha * (self.initial_rtt_us / self.bin_duration_us).floor() {
            if passed > W as f64 {
                self.set_duration(rtt_us);
            }
            self.begin(now_us, bytes);
            return None;
        }
        for (bins, latest) in [(&mut self.acked, bytes[0]), (&mut self.sent, bytes[1])] {
            let missed = bins[bins.len() - 1];
            bins.extend(vec![missed; passed as usize - 1]);
            bins.push(latest);
        }
        self.bin_end_us += passed * self.bin_duration_us;
        self.norm_diff(rtt_us)
    }

    fn norm_diff(&self, rtt_us: f64) -> Option<f64> {
        let current = self.acked.len() - 1;
        let back = rtt_us / self.bin_duration_us;
        let (whole, fraction) = (back.floor() as usize, back.fract());
        let previous = current.checked_sub(whole).filter(|previous| *previous > W && whole < EXTRA_BINS)?;
        let in_window = |bins: &[f64], last: usize| bins[last] - bins[last - W];
        let delivered = in_window(&self.acked, current);
        let sent = in_window(&self.sent, previous) * (1.0 - fraction) + in_window(&self.sent, previous - 1) * fraction;
        (sent > 0.0).then(|| (sent - delivered) / sent)
    }

    /// Packets delivered in the last INITIAL_RTT, 10 at least.
    fn target_pkts(&self) -> u32 {
        let bins = (self.initial_rtt_us / self.bin_duration_us).ceil() as usize;
        let current = self.acked.len() - 1;
        let bytes = self.acked[current] - self.acked[current - bins.min(W)];
        ((bytes / f64::from(MSS_BYTES)).floor() as u32).max(10)
    }
}

/// One ACK of a random connection.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Time since the previous ACK, in 1/1000 of the first RTT.
    wait: u32,
    /// Noise of what is sent, and of what is acknowledged of it.
    sent: f64,
    acked: f64,
    rtt_ms: u32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![30 => 10..400u32, 1 => 400..20_000u32];
    let step = (wait, 0.7..1.3, 0.5..=1.0, 0..20u32);
    let step = step.prop_map(|(wait, sent, acked, rtt_ms)| Step { wait, sent, acked, rtt_ms });
    proptest::collection::vec(step, 60..160)
}

fn parameters() -> impl Strategy<Value = Parameters> {
    let usual = Just(Parameters { thresh: 26, window: 350, alpha: 0 });
    let any = (1..=99u32, 100..=1000u32, 0..6u32);
    prop_oneof![usual, any.prop_map(|(thresh, window, alpha)| Parameters { thresh, window, alpha })]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Slow start ends at the same ACK, and the drain has the same target. Milliseconds keep the bins a whole number of us.
    #[test]
    fn slow_start_ends_where_the_draft_s_pseudocode_ends_it(
        of in parameters(), list in steps(), first_rtt_ms in 1..600u32, growth in 1.0..1.06f64, stops_at in 0..200usize,
        offsets: [u32; 2],
    ) {
        let Parameters { thresh, window, alpha } = of;
        let settings = [("search_thresh", thresh), ("search_window", window), ("search_alpha", alpha)];
        let settings = settings.map(|(name, value)| format!("{name}={value}"));
        let native = native::borrowed(ID, &settings.each_ref().map(String::as_str));
        let mut flow = Endpoint::over(&native, 10, INFINITE_SSTHRESH);
        let mut draft = Draft::new(of);
        let (mut bytes, mut rate) = ([0_u64; 2], 10.0);
        for (at, step) in list.into_iter().enumerate() {
            rate *= if at < stops_at { growth } else { 1.0 };
            bytes[1] += (rate * step.sent) as u64 * u64::from(MSS_BYTES);
            bytes[0] += ((bytes[1] - bytes[0]) as f64 * step.acked * if at < stops_at { 1.0 } else { 0.3 }) as u64;
            flow.wait(u64::from(step.wait) * u64::from(first_rtt_ms));
            let rtt_us = 1000 * (first_rtt_ms + if at == 0 { 0 } else { step.rtt_ms * first_rtt_ms / 10 });
            let [acked, sent] = [0, 1].map(|of| offsets[of].wrapping_add(bytes[of] as u32));
            (flow.tcp.bytes_acked, flow.tcp.bytes_sent) = (acked, sent);
            flow.sample(&[rtt_us]);
            let found = draft.ack_arrived(flow.now_us() as f64, rtt_us.into(), bytes.map(|count| count as f64));
            let norm_diff = found.unwrap_or(-1.0);
            // The program rounds what was sent down to a byte.
            if (norm_diff - draft.thresh).abs() < 1e-5 {
                return Ok(());
            }
            let is_over = norm_diff >= draft.thresh;
            prop_assert_eq!(flow.phase() == "drain", is_over, "ACK {}: norm_diff {}", at, norm_diff);
            if is_over {
                prop_assert_eq!(flow.ssthresh(), draft.target_pkts());
                return Ok(());
            }
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Without SEARCH the file is bpf_cubic.
    #[test]
    fn other_values_of_hystart_are_those_of_bpf_cubic(
        seed: u64, hystart in 0..3usize, lost in 0..60u32, marked in 0..20u32, late in 0..20u32,
    ) {
        static BOTH: LazyLock<[[&Native; 2]; 3]> = LazyLock::new(|| {
            ["hystart=0", "hystart=1", "hystart=2"].map(|mode| [ID, "bpf_cubic"].map(|id| native::tuned(id, &[mode])))
        });
        let [search, cubic] = BOTH[hystart].map(|native| {
            let mut rounds: Vec<Round> = Vec::new();
            let path = path::random(seed, [lost, marked, late]);
            SimulatedSender::new(native.socket(0), path).run(|round, _| rounds.push(round.clone()));
            rounds
        });
        prop_assert_eq!(search, cubic);
    }
}

/// From the first packets until slow start ends or drains.
fn to_the_exit(native: &Native) -> LoneFlow<'_> {
    let mut flow = LoneFlow::new(native, 10, INFINITE_SSTHRESH, PATH);
    flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH || flow.cwnd() > 20 * BDP_PKTS);
    flow
}

/// The RTT hides the full path until it has grown within a window of bins: 5.32 BDPs at 26 %, 6.19 at 35 %, by the formula of
/// `scenarios/known/search-exit.toml`. A bin is 0.35 round trips, and slow start comes in flights.
#[test]
fn slow_start_ends_some_bdps_after_the_path_is_full() {
    for (setting, bdps) in [("search_thresh=26", 5.32), ("search_thresh=35", 6.19)] {
        let flow = to_the_exit(native::tuned(ID, &[setting]));
        let window = f64::from(flow.cwnd()) / f64::from(BDP_PKTS);
        assert!((bdps..bdps + 0.7).contains(&window), "{setting}: {window} BDPs");
        assert_eq!(flow.phase(), "drain");
    }
}

/// cwnd = max(in flight + acked / 3, target) at each ACK, with the rest of the division kept.
#[test]
fn drain_sends_a_packet_for_three_acknowledged_ones_until_the_target() {
    for (setting, of) in [("search_drain_acks=3", 3), ("search_drain_acks=1", 1), ("search_drain_acks=7", 7)] {
        let mut flow = to_the_exit(native::tuned(ID, &[setting]));
        let target = flow.ssthresh();
        // Three bins of 0.35 round trips, at the rate of the path.
        assert!(target.abs_diff(BDP_PKTS * 105 / 100) <= 2, "{setting}: {target} packets");
        let mut acked = 0;
        while flow.phase() == "drain" && acked < 4 * BDP_PKTS {
            let in_flight = flow.tcp.in_flight();
            let delivered = flow.tcp.delivered + 1;
            flow.run_until_delivered(delivered);
            acked += 1;
            if flow.phase() == "drain" {
                let allowed = u32::from(acked % of == 0);
                assert_eq!(flow.cwnd(), (in_flight - 1 + allowed).max(target), "{setting}: ACK {acked}");
            }
        }
        if of > 1 {
            flow.run_until(|flow| flow.phase() != "drain");
            assert_eq!((flow.windows(), flow.phase()), ((target, target), "convex"), "{setting}");
        }
        assert_eq!(flow.tcp.in_flight().max(target), flow.tcp.in_flight(), "the path is never left empty");
    }
}

/// SEARCH 3: cwnd loses what the last two round trips delivered, which are five bins.
#[test]
fn exit_keeps_or_cuts_the_window_instead_of_a_drain() {
    let drained = to_the_exit(native::find(ID));
    let kept = to_the_exit(native::tuned(ID, &["search_exit=0"]));
    assert_eq!(kept.windows(), (drained.cwnd(), drained.cwnd()));
    let cut = to_the_exit(native::tuned(ID, &["search_exit=2"]));
    let lost = drained.cwnd() - cut.ssthresh();
    assert!(lost.abs_diff(BDP_PKTS * 175 / 100) <= 2, "{lost} packets");
    for flow in [kept, cut] {
        assert_eq!((flow.cwnd(), flow.phase()), (flow.ssthresh(), "convex"));
    }
}

#[test]
fn bins_exist_only_in_slow_start_and_its_drain() {
    let slow = || {
        let mut flow = Endpoint::of(ID, 10, INFINITE_SSTHRESH);
        assert!(!flow.cc.has_storage(), "before the first RTT sample");
        flow.ack(1, 40_000);
        assert!(flow.cc.has_storage());
        flow
    };
    for operation in [Operation::Lose, Operation::Mark, Operation::TimeOut, Operation::ShrinkMtu] {
        assert!(!slow().after(&[operation]).cc.has_storage(), "after {operation:?}");
    }
    let mut flow = slow();
    flow.call(|cc, tcp| cc.cwnd_event(tcp, event::CWND_RESTART));
    assert!(!flow.cc.has_storage(), "after idle time");
    let mut flow = slow();
    flow.tcp.snd_ssthresh = flow.cwnd();
    flow.ack(1, 40_000);
    assert!(!flow.cc.has_storage(), "at the threshold");
    flow.ack(1, 40_000);
    assert!(!flow.cc.has_storage(), "in congestion avoidance");
    let mut flow = to_the_exit(native::find(ID));
    assert!(flow.cc.has_storage(), "in the drain");
    flow.run_until(|flow| flow.phase() != "drain");
    assert!(!flow.cc.has_storage(), "after the drain");
}

#[test]
fn connection_without_memory_leaves_slow_start_by_hystart() {
    let exit = |id: &str, lacks: u32| {
        let mut flow = LoneFlow::of(id, 10, INFINITE_SSTHRESH, PATH);
        flow.cc.set_lacks_storage(lacks);
        flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH);
        flow.windows()
    };
    assert_eq!(exit(ID, 1), exit("bpf_cubic", 0));
    assert_ne!(exit(ID, 0), exit("bpf_cubic", 0));
}

/// Otherwise a slow start without a threshold would follow, and nothing would end it for another four round trips.
#[test]
fn undone_loss_in_the_drain_does_not_lead_to_slow_start() {
    let mut flow = to_the_exit(native::find(ID));
    let (window, target) = flow.windows();
    flow.reduce();
    assert_eq!(flow.phase(), "recovery");
    flow.undo();
    flow.leave();
    assert!(flow.cwnd() >= window && flow.ssthresh() >= target && flow.cwnd() >= flow.ssthresh());
    flow.run_for(PATH[0]);
    assert_ne!(flow.phase(), "slow_start");
}

#[test]
fn slow_start_after_a_timeout_or_a_pause_has_new_bins() {
    let mut flow = to_the_exit(native::find(ID));
    flow.time_out();
    assert_eq!((flow.phase(), flow.cc.has_storage()), ("loss", false));
    flow.sample(&[40_000]);
    assert!(flow.cc.has_storage(), "slow start after a timeout");
    let mut flow = to_the_exit(native::find(ID));
    flow.restart_after_idle(3, 10);
    assert_eq!((flow.phase(), flow.cc.has_storage()), ("slow_start", false));
    flow.sample(&[40_000]);
    assert!(flow.cc.has_storage(), "slow start after a pause");
}

/// What arrives is what was sent, though it does not double. SEARCH 3 took this for a full path.
#[test]
fn sender_that_the_application_limits_stays_in_slow_start() {
    let mut flow = Endpoint::of(ID, 100, INFINITE_SSTHRESH);
    let (acked, sent) = (flow.tcp.bytes_acked, flow.tcp.bytes_sent);
    for step in 0..2_000 {
        flow.wait(if step % 200 == 150 { 400_000 } else { 4_000 });
        // Ten steps of 4 ms are a round trip.
        flow.tcp.bytes_acked = acked.wrapping_add(step * 5 * MSS_BYTES);
        flow.tcp.bytes_sent = sent.wrapping_add((step + 10) * 5 * MSS_BYTES);
        flow.sample(&[40_000]);
        assert_eq!(flow.windows(), (100, INFINITE_SSTHRESH), "step {step}");
    }
}
