//! Screens of a host whose connections change during the test.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::trace::source::Batches;
use shared::arrival::Arrival;
use shared::event::{Event, EventKind};
use shared::model::live::samples::{SECOND, sample};

struct LiveSession {
    host: Batches,
    app: App,
    terminal: Terminal<TestBackend>,
}

impl LiveSession {
    fn begin(events: impl IntoIterator<Item = Event>) -> LiveSession {
        let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let mut session = LiveSession { host: Batches::default(), app: App::new(Theme::new(false, true)), terminal };
        session.happen(events);
        session
    }

    /// Takes in these events and refreshes the screen.
    fn happen(&mut self, events: impl IntoIterator<Item = Event>) {
        let events: Vec<Event> = events.into_iter().collect();
        self.host.now_ns = events.iter().map(|event| event.time_ns).fold(self.host.now_ns, u64::max);
        self.host.batches.push_back(events.into_iter().map(Arrival::Event).collect());
        self.app.take_in(&mut self.host).unwrap();
        self.app.refresh(&mut self.host);
    }

    fn press(&mut self, key: KeyCode) -> String {
        self.app.answer(&Input::Key(KeyEvent::new(key, KeyModifiers::NONE)), &mut self.host);
        self.picture()
    }

    fn picture(&mut self) -> String {
        self.terminal.draw(|frame| draw(frame, &mut self.app)).unwrap();
        self.terminal.backend().to_string()
    }
}

/// Ten samples a second of two sockets; the first is twice as fast.
fn traffic(seconds: std::ops::Range<u64>) -> impl Iterator<Item = Event> {
    let at = |tenth: u64, socket: u64| Event {
        bytes_acked: tenth * 100_000 * (3 - socket),
        cwnd_pkts: (10 + tenth) as u32,
        ..sample(socket, tenth * SECOND / 10)
    };
    (seconds.start * 10..seconds.end * 10).flat_map(move |tenth| [1, 2].map(|socket| at(tenth, socket)))
}

fn closed(socket: u64, second: u64) -> Event {
    Event { kind: EventKind::Close, ..sample(socket, second * SECOND) }
}

/// Freezing used to stop only the order of the rows and the title.
#[test]
fn frozen_picture_stays_in_every_view_and_answers_keys() {
    let mut session = LiveSession::begin(traffic(1..5));
    let table = session.press(KeyCode::Char(' '));
    assert!(table.contains("FROZEN") && table.contains(" 2 sockets"), "{table}");
    let flow = session.press(KeyCode::Enter);
    assert!(flow.contains("cwnd 59 pkts"), "{flow}");
    let algorithms = session.press(KeyCode::Char('a'));
    session.happen(traffic(5..20).chain([closed(1, 20), closed(2, 20)]));
    assert_eq!(session.picture(), algorithms);
    assert_eq!(session.press(KeyCode::Char('t')), table);
    assert_eq!(session.press(KeyCode::Enter), flow);
    session.press(KeyCode::Esc);
    let sorted = session.press(KeyCode::Char('r'));
    assert!(sorted.find(":1002") < sorted.find(":1001"), "{sorted}");
    let moved = session.press(KeyCode::Char(' '));
    assert!(!moved.contains("FROZEN") && moved.contains(" 0 sockets"), "{moved}");
}

/// Closed connections used to stay in a frozen dashboard until it was full.
#[test]
fn closed_connections_leave_behind_a_frozen_picture() {
    let mut session = LiveSession::begin(traffic(1..5));
    session.press(KeyCode::Enter);
    session.press(KeyCode::Char(' '));
    session.happen([closed(1, 6), closed(2, 6)]);
    session.host.now_ns = 60 * SECOND;
    session.happen([]);
    let behind = session.app.behind.as_ref().unwrap();
    assert_eq!(behind.sockets().map(|socket| socket.latest.socket).collect::<Vec<_>>(), [1], "its view is open");
    assert!(session.press(KeyCode::Char(' ')).contains("CLOSED 54"), "{}", session.picture());
}

/// The flow's row used to stay in the table after its connection closed.
#[test]
fn filter_asked_for_in_a_flow_lets_the_flow_go() {
    let mut session = LiveSession::begin(traffic(1..5));
    session.press(KeyCode::Enter);
    session.happen([closed(1, 6)]);
    session.press(KeyCode::Char('/'));
    session.host.now_ns = 60 * SECOND;
    session.happen([]);
    let table = session.picture();
    assert!(table.contains("filter:") && !table.contains(":1001") && table.contains(":1002"), "{table}");
}

/// The choice used to be an index, so that Enter opened another algorithm after the order changed.
#[test]
fn chosen_algorithm_stays_chosen_when_another_has_more_sockets() {
    let of = |algorithm: &str, socket| Event { algorithm: algorithm.into(), ..sample(socket, SECOND) };
    for (keys, chosen) in [(0, "cubic"), (1, "reno")] {
        let mut session = LiveSession::begin([of("cubic", 1), of("cubic", 2), of("reno", 3)]);
        session.press(KeyCode::Char('a'));
        (0..keys).for_each(|_| drop(session.press(KeyCode::Down)));
        session.happen([of("reno", 4), of("reno", 5)]);
        let summary = session.picture();
        assert!(summary.find(" reno ") < summary.find(" cubic ") && summary.contains(&format!(" {chosen}: sockets")));
        let table = session.press(KeyCode::Enter);
        assert!(table.contains(&format!("filter: algorithm:{chosen} ")), "{table}");
    }
}

/// Bins without a line, those of the longest times, used to be missing silently.
#[test]
fn every_sample_is_in_a_bar_of_the_histogram() {
    let rtt = |n: u64| Event { rtt_us: Some(9 << n), ..sample(1, SECOND + n) };
    let mut session = LiveSession::begin((0..=24).map(rtt));
    let summary = session.press(KeyCode::Char('a'));
    let bars: Vec<&str> = summary.lines().filter(|line| line.contains('█')).collect();
    let samples = |bar: &&str| bar.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap();
    assert_eq!(bars.iter().map(samples).sum::<u64>(), 24, "{summary}");
    assert!(bars.len() > 10 && bars[bars.len() - 1].contains(" more "), "{summary}");
}
