//! Delayed Fast Recovery against its event table: `bpf/cc/dfr.bpf.c`, and the connection that msack's tests drive too.

use tccc::catalog::{self, StateValue};

use crate::algorithms::kernel::{Acked, Kernel};
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Native, Socket, event, state};
use crate::algorithms::operations::{self, Operation, Start};
use crate::algorithms::path::{Fate, Path, Transmission};
use crate::algorithms::sender::Sender;

/// Bit of `in_ack_event` for an echoed congestion mark (`CA_ACK_ECE`).
const ACK_ECE: u32 = 1 << 2;

/// A connection whose ACKs come one by one, in the kernel's order: callbacks first, then losses are marked.
pub struct Connection<'n> {
    pub kernel: Kernel<Socket<'n>>,
    id: String,
    now_us: u64,
}

impl<'n> Connection<'n> {
    pub fn new(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
        let kernel = operations::connect(native.socket(0xaa), start);
        Connection { kernel, id: native.id.clone(), now_us: 0 }
    }

    /// So much later, an ACK that acknowledges nothing new.
    pub fn ack(&mut self, after_us: u64, rtt_us: Option<u32>) {
        self.ack_with(after_us, rtt_us, 0);
    }

    fn ack_with(&mut self, after_us: u64, rtt_us: Option<u32>, flags: u32) {
        self.now_us += after_us;
        self.kernel.cc.set_clock(self.now_us * 1000);
        self.kernel.cc.in_ack_event(&mut self.kernel.tcp, flags);
        self.kernel.acked(Acked { rtt_us, ..Acked::default() });
    }

    pub fn marked_ack(&mut self) {
        self.ack_with(0, None, ACK_ECE);
    }

    /// So many packets are marked as lost, of those in flight or retransmitted; recovery begins if it has not.
    pub fn lose(&mut self, packets: u32) {
        let tcp = &mut self.kernel.tcp;
        tcp.lost_out = (tcp.lost_out + packets).min(tcp.packets_out);
        tcp.lost += packets;
        if self.kernel.tcp.ca_state != state::RECOVERY {
            self.enter_recovery();
        }
    }

    pub fn enter_recovery(&mut self) {
        self.kernel.enter_recovery();
        // The retransmission is not known to be unnecessary.
        self.kernel.undo_retrans = 1;
    }

    /// A loss and the next ACK, whose callbacks are the first to see it when recovery goes on.
    pub fn lose_and_ack(&mut self, packets: u32) {
        self.lose(packets);
        self.ack(0, None);
    }

    /// Everything up to this packet is acknowledged, and recovery is over if it waited for no more.
    pub fn acknowledge_to(&mut self, packet: u32) {
        let tcp = &mut self.kernel.tcp;
        tcp.snd_una = packet;
        tcp.packets_out = tcp.snd_nxt.wrapping_sub(packet);
        (tcp.lost_out, tcp.retrans_out) = (0, 0);
        self.ack(0, None);
        if self.kernel.is_recovered() {
            self.kernel.leave();
        }
    }

    /// Recovery is over, and if nothing is left in flight the next window is.
    pub fn recover(&mut self) {
        self.acknowledge_to(self.kernel.high_seq);
        let tcp = &mut self.kernel.tcp;
        assert_eq!(tcp.ca_state, state::OPEN);
        if tcp.packets_out == 0 {
            tcp.snd_nxt = tcp.snd_una.wrapping_add(tcp.snd_cwnd);
            tcp.packets_out = tcp.snd_cwnd;
        }
    }

    pub fn time_out(&mut self) {
        operations::apply(&mut self.kernel, Operation::TimeOut, self.now_us * 1000);
    }

    pub fn ssthresh(&self) -> u32 {
        self.kernel.tcp.snd_ssthresh
    }

    fn value(&self, name: &str) -> StateValue {
        let private = self.kernel.cc.private();
        let fields = catalog::find(&self.id).unwrap().layout.decode(&private);
        let is_named = |field: &str| field.strip_prefix("dfr.").unwrap_or(field) == name;
        fields.into_iter().find(|(field, _)| is_named(field)).expect("a field of the state").1
    }

    pub fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            StateValue::Unsigned(value) => value,
            other => panic!("{name} is {other}"),
        }
    }

    pub fn verdict(&self) -> String {
        self.value("verdict").to_string().trim_start_matches("VERDICT_").to_lowercase()
    }

    pub fn phase(&self) -> &'static str {
        catalog::find(&self.id).unwrap().layout.phase_name(&self.kernel.cc.private()).unwrap()
    }

    pub fn is_first_loss(&self) -> bool {
        self.number("first_loss") == 1
    }
}

fn dfr(cwnd: u32, ssthresh: u32) -> Connection<'static> {
    Connection::new(native::find("dfr"), cwnd, ssthresh)
}

/// postponed, cut, rtos.
fn counters(connection: &Connection) -> [u64; 3] {
    ["postponed", "cut", "rtos"].map(|name| connection.number(name))
}

/// A connection of 40 packets in linear growth whose first loss was forgiven.
fn postponed() -> Connection<'static> {
    let mut connection = dfr(40, 20);
    connection.lose(1);
    connection.ack(0, None);
    assert_eq!((connection.ssthresh(), counters(&connection)), (40, [1, 0, 0]));
    connection
}

#[test]
fn first_loss_keeps_the_window_whatever_it_is() {
    for cwnd in [1, 2, 3, 40, 65_535, INFINITE_SSTHRESH] {
        for ssthresh in [2, INFINITE_SSTHRESH] {
            let mut connection = dfr(cwnd, ssthresh);
            connection.lose(1);
            assert_eq!(connection.ssthresh(), cwnd.max(2));
            assert_eq!((connection.verdict().as_str(), connection.phase()), ("postponed", "postponed"));
            assert_eq!((counters(&connection), connection.is_first_loss()), ([1, 0, 0], false));
            connection.recover();
            assert_eq!(connection.kernel.tcp.snd_cwnd, cwnd.max(2));
        }
    }
}

#[test]
fn window_beyond_any_threshold_is_kept_as_the_largest_one() {
    let mut connection = dfr(INFINITE_SSTHRESH, INFINITE_SSTHRESH);
    connection.kernel.tcp.snd_cwnd = INFINITE_SSTHRESH + 1;
    connection.lose(1);
    assert_eq!(connection.ssthresh(), INFINITE_SSTHRESH);
}

#[test]
fn second_loss_in_recovery_halves_the_window_at_its_beginning_once() {
    let mut connection = postponed();
    connection.kernel.tcp.snd_cwnd = 31;
    for cut in [1, 1, 1] {
        connection.lose_and_ack(1);
        assert_eq!((connection.ssthresh(), counters(&connection)), (20, [1, cut, 0]));
    }
    assert_eq!((connection.verdict().as_str(), connection.phase()), ("cut", "recovery"));
    connection.recover();
    assert_eq!((connection.kernel.tcp.snd_cwnd, connection.is_first_loss()), (20, true));
}

#[test]
fn postponed_cut_leaves_two_packets() {
    for cwnd in 1..5 {
        let mut connection = dfr(cwnd, 2);
        connection.lose(1);
        connection.lose_and_ack(1);
        assert_eq!(connection.ssthresh(), 2, "of {cwnd}");
    }
}

type Step = fn(&mut Connection);

const LOSE: Step = |connection| connection.lose(1);
const LOSE_AND_ACK: Step = |connection| connection.lose_and_ack(1);
const TIME_OUT: Step = |connection| connection.time_out();
const MARK: Step = |connection| connection.marked_ack();
/// A first loss, which is forgiven.
const FORGIVE: Step = |connection| {
    connection.lose(1);
    connection.ack(0, None);
    assert_eq!((connection.ssthresh(), counters(connection)), (40, [1, 0, 0]));
};

/// A connection of 40 packets in linear growth: what happens to it, its threshold afterwards, the counters, and the verdict.
#[test]
fn verdicts_follow_the_event_table() {
    let check = |what: &str, steps: &[Step], ssthresh: u32, counted: [u64; 3], verdict: &str| {
        let mut connection = dfr(40, 20);
        steps.iter().for_each(|step| step(&mut connection));
        let found = (connection.ssthresh(), counters(&connection), connection.verdict());
        assert_eq!(found, (ssthresh, counted, verdict.to_owned()), "{what}");
        let is_cut = verdict == "cut" || verdict == "mark";
        assert_eq!(connection.phase() == "recovery", is_cut, "{what}");
        assert!(connection.is_first_loss() || verdict == "postponed", "{what}: the next loss is a first one");
    };
    let lose_two: Step = |connection| connection.lose(2);
    check("two losses at once halve at once", &[lose_two], 20, [0, 1, 0], "cut");
    let begin: Step = |connection| connection.enter_recovery();
    check("a loss that is marked later is the first", &[begin, LOSE_AND_ACK], 40, [1, 0, 0], "postponed");
    check("the one after it is not", &[begin, LOSE_AND_ACK, LOSE_AND_ACK], 20, [1, 1, 0], "cut");
    let leave: Step = |connection| {
        connection.kernel.set_state(state::OPEN);
        connection.kernel.tcp.lost_out = 0;
    };
    check("a recovery before the window has passed is cut", &[FORGIVE, leave, LOSE], 20, [1, 1, 0], "cut");
    for times in 1..=3 {
        let forgiven_then = |step: Step| [&[FORGIVE][..], &[step; 3][..times]].concat();
        check("timeouts halve a kept window once", &forgiven_then(TIME_OUT), 20, [1, 0, 1], "timeout");
        check("marks cut a kept window once", &forgiven_then(MARK), 20, [1, 1, 0], "mark");
    }
    let shrink: Step = |connection| {
        connection.kernel.tcp.snd_cwnd = 30;
        connection.ack(0, None);
    };
    let in_force = [FORGIVE, LOSE_AND_ACK, shrink, TIME_OUT];
    check("a timeout inside a cut recovery halves the window in force", &in_force, 15, [1, 1, 1], "timeout");
    let complete: Step = |connection| connection.kernel.tcp.snd_una = connection.kernel.high_seq;
    check("a timeout when recovery is complete counts once", &[FORGIVE, complete, TIME_OUT], 20, [1, 0, 1], "timeout");
    let shrink_mtu: Step = |connection| {
        connection.kernel.tcp.retrans_out = 1;
        operations::apply(&mut connection.kernel, Operation::ShrinkMtu, 0);
        assert_eq!(connection.kernel.tcp.ca_state, state::LOSS);
    };
    check("a shrunken MTU inside recovery is no timeout", &[FORGIVE, shrink_mtu], 40, [1, 0, 0], "postponed");
    check("a loss told with a mark is cut", &[MARK, LOSE], 20, [0, 1, 0], "mark");
    let reduce: Step = |connection| connection.kernel.enter_cwr();
    check("a mark cuts", &[MARK, reduce], 20, [0, 1, 0], "mark");
    let lose_more: Step = |connection| {
        connection.lose_and_ack(3);
        assert_eq!(connection.kernel.tcp.ca_state, state::RECOVERY);
    };
    check("losses after a mark cut no more", &[MARK, reduce, LOSE, lose_more], 20, [0, 1, 0], "mark");
}

#[test]
fn loss_counter_may_wrap() {
    for lost in [u32::MAX - 1, u32::MAX] {
        let mut connection = dfr(40, 20);
        connection.kernel.tcp.lost = lost;
        connection.kernel.tcp.lost_out = 1;
        connection.enter_recovery();
        connection.kernel.tcp.lost = lost.wrapping_add(1);
        connection.ack(0, None);
        assert_eq!(counters(&connection), [1, 1, 0]);
    }
}

#[test]
fn loss_after_a_clean_window_is_a_first_one_at_any_sequence_number() {
    for una in [0, u32::MAX - 39, u32::MAX - 20, u32::MAX / 2 - 20] {
        let mut connection = dfr(40, 20);
        let tcp = &mut connection.kernel.tcp;
        (tcp.snd_una, tcp.snd_nxt) = (una, una.wrapping_add(40));
        connection.lose(1);
        connection.acknowledge_to(una.wrapping_add(39));
        assert!(!connection.is_first_loss(), "39 of 40 packets are acknowledged");
        connection.acknowledge_to(una.wrapping_add(40));
        assert!(connection.is_first_loss());
        connection.lose(1);
        assert_eq!((connection.ssthresh(), counters(&connection)), (40, [2, 0, 0]));
    }
}

#[test]
fn slow_start_goes_on_after_a_forgiven_loss_and_ends_after_a_cut() {
    for ssthresh in [100, INFINITE_SSTHRESH] {
        let mut forgiven = dfr(40, ssthresh);
        forgiven.lose(1);
        assert_eq!(forgiven.ssthresh(), 40);
        forgiven.recover();
        assert_eq!((forgiven.kernel.tcp.snd_cwnd, forgiven.ssthresh()), (40, ssthresh));
        let mut cut = dfr(40, ssthresh);
        cut.lose(1);
        cut.lose_and_ack(1);
        cut.recover();
        assert_eq!((cut.kernel.tcp.snd_cwnd, cut.ssthresh()), (20, 20));
    }
}

#[test]
fn timeout_halves_and_the_next_loss_is_a_first_one() {
    for ssthresh in [INFINITE_SSTHRESH, 20] {
        let mut connection = dfr(41, ssthresh);
        connection.time_out();
        assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh()), (1, 20));
        assert_eq!((connection.verdict().as_str(), connection.phase()), ("timeout", "loss"));
        assert_eq!((counters(&connection), connection.is_first_loss()), ([0, 0, 1], true));
    }
}

#[test]
fn reduction_without_mark_or_recovery_is_cut_as_a_loss() {
    // A tail loss probe repaired a loss, or the own host dropped a packet.
    for ssthresh in [20, INFINITE_SSTHRESH] {
        let mut connection = dfr(40, ssthresh);
        connection.kernel.enter_cwr();
        assert_eq!((connection.ssthresh(), counters(&connection)), (20, [0, 1, 0]));
        assert_eq!(connection.verdict(), "cut");
        connection.recover();
        assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh()), (20, 20));
    }
}

#[test]
fn undo_takes_a_cut_back_and_the_next_loss_is_a_first_one() {
    for (ssthresh, prior) in [(20, 30), (INFINITE_SSTHRESH, INFINITE_SSTHRESH)] {
        let mut connection = dfr(40, ssthresh);
        connection.lose(2);
        connection.kernel.undo();
        assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh()), (40, prior));
        assert!(connection.is_first_loss());
    }
}

#[test]
fn undo_of_a_forgiven_loss_restores_the_window_and_slow_start() {
    for (ssthresh, after) in [(20, 40), (INFINITE_SSTHRESH, INFINITE_SSTHRESH)] {
        let mut connection = dfr(40, ssthresh);
        connection.lose(1);
        connection.kernel.tcp.snd_cwnd = 33;
        connection.kernel.undo_retrans = 0;
        connection.recover();
        assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh()), (40, after));
        assert!(connection.is_first_loss());
    }
}

#[test]
fn restart_after_idle_makes_the_next_loss_a_first_one() {
    let mut connection = postponed();
    connection.kernel.set_state(state::OPEN);
    for other in [event::TX_START, event::COMPLETE_CWR] {
        connection.kernel.cc.cwnd_event(&mut connection.kernel.tcp, other);
        assert!(!connection.is_first_loss());
    }
    connection.kernel.restart_after_idle(1, 10);
    assert!(connection.is_first_loss());
}

#[test]
fn growth_is_renos() {
    let mut connection = dfr(18, 20);
    operations::apply(&mut connection.kernel, Operation::Ack { packets: 12, rtt_us: 40_000 }, 0);
    assert_eq!((connection.kernel.tcp.snd_cwnd, connection.kernel.tcp.snd_cwnd_cnt), (20, 10));
    assert_eq!(connection.phase(), "slow_start");
    operations::apply(&mut connection.kernel, Operation::Ack { packets: 10, rtt_us: 40_000 }, 0);
    assert_eq!((connection.kernel.tcp.snd_cwnd, connection.phase()), (21, "avoidance"));
}

/// The windows after a recovery from so many losses in one window of 40 packets, on a whole path.
fn windows_after(lost: &'static [u32]) -> Vec<u32> {
    let fate = move |sent: &Transmission| {
        if !sent.is_again && lost.contains(&sent.packet) { Fate::Lost } else { Fate::Arrives }
    };
    let start = Path { initial_cwnd: 40, initial_ssthresh: 40, ..Path::quiet("losses", 6) };
    let path = Path { fate: Box::new(fate), ..start };
    let mut windows = Vec::new();
    Sender::new(native::find("dfr").socket(0), path).run(|round, _| {
        if round.ca_state == state::OPEN {
            windows.push(round.cwnd);
        }
    });
    windows
}

#[test]
fn path_with_one_loss_in_a_window_keeps_it_and_with_two_halves_it() {
    assert_eq!(windows_after(&[]).iter().min(), Some(&41));
    assert_eq!(windows_after(&[5]).iter().min(), Some(&40));
    assert_eq!(windows_after(&[5, 20]).iter().min(), Some(&20));
}
