//! Pictures of a host that goes on while it is looked at.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::model::live::samples::{SECOND, sample};
use crate::trace::arrival::Arrival;
use crate::trace::event::{Event, EventKind};
use crate::trace::source::Batches;

/// A dashboard over a host, and a screen.
struct Session {
    host: Batches,
    app: App,
    terminal: Terminal<TestBackend>,
}

impl Session {
    fn begin(events: impl IntoIterator<Item = Event>) -> Session {
        let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let mut session = Session { host: Batches::default(), app: App::new(Theme::new(false, true)), terminal };
        session.happen(events);
        session
    }

    /// Takes in what happened, up to the latest of it, as between two pictures.
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

/// Both sockets ten times a second, the first of them twice as fast, over some seconds.
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

/// Rows, totals and plots went on; only their order and the title stayed.
#[test]
fn frozen_picture_stays_in_every_view_and_answers_keys() {
    let mut session = Session::begin(traffic(1..5));
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

/// Those that closed meanwhile stayed until there was room for no other.
#[test]
fn closed_connections_leave_behind_a_frozen_picture() {
    let mut session = Session::begin(traffic(1..5));
    session.press(KeyCode::Enter);
    session.press(KeyCode::Char(' '));
    session.happen([closed(1, 6), closed(2, 6)]);
    session.host.now_ns = 60 * SECOND;
    session.happen([]);
    let behind = session.app.behind.as_ref().unwrap();
    assert_eq!(behind.sockets().map(|socket| socket.latest.socket).collect::<Vec<_>>(), [1], "it is looked at");
    assert!(session.press(KeyCode::Char(' ')).contains("CLOSED 54"), "{}", session.picture());
}

/// The row stayed in the table for as long as the filter was typed, and after.
#[test]
fn filter_asked_for_in_a_flow_lets_the_flow_go() {
    let mut session = Session::begin(traffic(1..5));
    session.press(KeyCode::Enter);
    session.happen([closed(1, 6)]);
    session.press(KeyCode::Char('/'));
    session.host.now_ns = 60 * SECOND;
    session.happen([]);
    let table = session.picture();
    assert!(table.contains("filter:") && !table.contains(":1001") && table.contains(":1002"), "{table}");
}

/// The choice was a place: with the next picture Enter opened another algorithm.
#[test]
fn chosen_algorithm_stays_chosen_when_another_has_more_sockets() {
    let of = |algorithm: &str, socket| Event { algorithm: algorithm.into(), ..sample(socket, SECOND) };
    for (keys, chosen) in [(0, "cubic"), (1, "reno")] {
        let mut session = Session::begin([of("cubic", 1), of("cubic", 2), of("reno", 3)]);
        session.press(KeyCode::Char('a'));
        (0..keys).for_each(|_| drop(session.press(KeyCode::Down)));
        session.happen([of("reno", 4), of("reno", 5)]);
        let summary = session.picture();
        assert!(summary.find(" reno ") < summary.find(" cubic ") && summary.contains(&format!(" {chosen}: sockets")));
        let table = session.press(KeyCode::Enter);
        assert!(table.contains(&format!("filter: algorithm:{chosen} ")), "{table}");
    }
}

/// The bins that found no line were the longest times, and nothing said so.
#[test]
fn every_sample_is_in_a_bar_of_the_histogram() {
    let rtt = |n: u64| Event { rtt_us: Some(9 << n), ..sample(1, SECOND + n) };
    let mut session = Session::begin((0..=24).map(rtt));
    let summary = session.press(KeyCode::Char('a'));
    let bars: Vec<&str> = summary.lines().filter(|line| line.contains('█')).collect();
    let samples = |bar: &&str| bar.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap();
    assert_eq!(bars.iter().map(samples).sum::<u64>(), 24, "{summary}");
    assert!(bars.len() > 10 && bars[bars.len() - 1].contains(" more "), "{summary}");
}
