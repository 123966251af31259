//! The dashboard: screens of a recording in several sizes, and restoring a real terminal.

mod hostile;

use std::path::Path;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tccc::trace::arrival::Arrival;
use tccc::trace::event::{Event as TraceEvent, EventKind};
use tccc::trace::replay::Replay;
use tccc::trace::source::{EventSource, Playback};
use tccc::view::app::{App, View};
use tccc::view::theme::Theme;
use tccc::view::{draw, term};

use crate::lab::pty;
use crate::lab::serve::RECORDING;

/// A dashboard over a paused recording, with a screen.
struct DashboardSession {
    replay: Replay,
    app: App,
    terminal: Terminal<TestBackend>,
}

impl DashboardSession {
    /// Begins at the end of the recording.
    fn begin(width: u16, height: u16) -> DashboardSession {
        let replay = Replay::open(Path::new(RECORDING)).unwrap();
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let mut session = DashboardSession { replay, app: App::new(Theme::new(false, true)), terminal };
        session.replay.set_speed(0.0);
        let (_, end) = session.replay.span_ns();
        session.seek(end);
        session
    }

    fn seek(&mut self, time_ns: u64) {
        self.replay.seek(time_ns);
        self.app.take_in(&mut self.replay).unwrap();
        self.app.refresh(&mut self.replay);
    }

    fn answer(&mut self, event: Event) {
        self.app.answer(&event, &mut self.replay);
        self.app.take_in(&mut self.replay).unwrap();
        self.app.refresh(&mut self.replay);
    }

    fn press(&mut self, keys: &[KeyCode]) -> &mut Self {
        keys.iter().for_each(|key| self.answer(Event::Key(KeyEvent::new(*key, KeyModifiers::NONE))));
        self
    }

    fn type_text(&mut self, text: &str) -> &mut Self {
        self.press(&text.chars().map(KeyCode::Char).collect::<Vec<_>>())
    }

    fn click(&mut self, column: u16, row: u16) {
        let kind = MouseEventKind::Down(MouseButton::Left);
        self.answer(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        self.picture();
    }

    fn picture(&mut self) -> String {
        self.terminal.draw(|frame| draw(frame, &mut self.app)).unwrap();
        self.terminal.backend().to_string()
    }

    fn line(&mut self, row: usize) -> String {
        self.picture().lines().nth(row).unwrap().trim_matches('"').to_owned()
    }
}

#[test]
fn views_are_as_in_the_snapshots() {
    const FLOW: &str = "/dtcp goodput>1mbit";
    for (name, size, keys, more) in [
        ("table_in_80_by_24_is_as_in_the_snapshot", [80, 24], "", 0),
        ("table_in_200_by_50_is_as_in_the_snapshot", [200, 50], "", 0),
        ("flow_in_80_by_24_is_as_in_the_snapshot", [80, 24], FLOW, 2),
        ("flow_in_200_by_50_is_as_in_the_snapshot", [200, 50], FLOW, 2),
        ("algorithms_in_80_by_24_are_as_in_the_snapshot", [80, 24], "a", 0),
        ("help_in_80_by_24_is_as_in_the_snapshot", [80, 24], "?", 0),
    ] {
        let mut session = DashboardSession::begin(size[0], size[1]);
        session.type_text(keys).press(&[KeyCode::Enter; 2][..more]);
        insta::assert_snapshot!(name, session.picture());
    }
}

#[test]
fn no_size_of_the_terminal_breaks_a_view() {
    for (width, height) in [(1, 1), (3, 2), (20, 5), (40, 10), (79, 23), (121, 30), (300, 80), (500, 200)] {
        let mut session = DashboardSession::begin(width, height);
        for keys in ["", "?", "x/srtt<1s", "", "a", "t"] {
            session.type_text(keys).press(&[KeyCode::Enter]);
            session.picture();
        }
        session.press(&[KeyCode::Esc, KeyCode::Enter]);
        session.picture();
    }
}

#[test]
fn filter_sort_and_choice_work_by_key() {
    let mut session = DashboardSession::begin(120, 30);
    assert_eq!(session.line(1).split_whitespace().next(), Some("20"));
    session.type_text("/algorithm:dtcp_");
    assert!(session.line(2).contains("filter: algorithm:dtcp_"), "{}", session.line(2));
    session.press(&[KeyCode::Enter]);
    assert!(session.line(2).contains("2 of 24 sockets"), "{}", session.line(2));
    session.type_text("/ speed>3");
    assert!(session.line(2).contains("\"speed>3\": expected one of peer"), "{}", session.line(2));
    session.press(&[KeyCode::Esc]);
    assert!(!session.line(2).contains("filter"), "{}", session.line(2));
    session.press(&[KeyCode::Home, KeyCode::Enter]);
    let View::Flow(first) = session.app.view() else { panic!("no flow is open") };
    session.press(&[KeyCode::Esc]).type_text("r").press(&[KeyCode::Home, KeyCode::Enter]);
    assert!(matches!(session.app.view(), View::Flow(other) if other != first), "the order is reversed");
}

#[test]
fn mouse_sorts_by_headings_and_opens_rows() {
    let mut session = DashboardSession::begin(200, 50);
    session.picture();
    let goodput = session.line(2).find("goodput/s").unwrap() as u16;
    let first = session.line(3);
    session.click(goodput, 2);
    assert_ne!(session.line(3), first, "a second click on the column reverses the order");
    session.click(10, 5);
    assert_eq!(session.app.view(), View::Table);
    session.click(10, 5);
    assert!(matches!(session.app.view(), View::Flow(_)));
}

#[test]
fn replay_is_moved_through_and_paused_by_key() {
    let mut session = DashboardSession::begin(120, 30);
    session.type_text("5");
    assert!(session.line(0).contains("paused 6.0s/12.0s"), "{}", session.line(0));
    session.type_text("[");
    assert!(session.line(0).contains("paused 0.0s/"), "{}", session.line(0));
    session.type_text("} ");
    assert!(session.line(0).contains("1x 12.0s/"), "{}", session.line(0));
    session.type_text("+-- ");
    assert!(session.line(0).contains("paused"), "{}", session.line(0));
}

/// Events that a test passes to the dashboard once.
struct GivenEvents {
    events: Vec<TraceEvent>,
    now_ns: u64,
}

impl EventSource for GivenEvents {
    fn poll(&mut self, _: Duration, take: &mut dyn FnMut(Arrival)) -> anyhow::Result<()> {
        self.events.drain(..).for_each(|event| take(Arrival::Event(event)));
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn title(&self) -> String {
        "given".to_owned()
    }

    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_over(&self) -> bool {
        self.events.is_empty()
    }
}

/// Time to read, sort and draw a sample of each socket.
#[test]
fn ten_thousand_sockets_are_drawn_within_a_second() {
    let mut replay = Replay::open(Path::new(RECORDING)).unwrap();
    replay.seek(replay.span_ns().1);
    let mut recorded = None;
    let mut keep = |arrival| {
        if let Arrival::Event(event) = arrival {
            recorded = Some(event)
        }
    };
    replay.poll(Duration::ZERO, &mut keep).unwrap();
    let recorded = recorded.expect("the recording has an event");
    let mut app = App::new(Theme::new(true, true));
    let mut terminal = Terminal::new(TestBackend::new(200, 50)).unwrap();
    let mut fastest = Duration::MAX;
    for second in 1..=5 {
        let sample = |socket| {
            let (time_ns, bytes_acked) = (second * 1_000_000_000 + socket, second * socket);
            TraceEvent { kind: EventKind::Sample, socket, time_ns, bytes_acked, ..recorded.clone() }
        };
        let mut source =
            GivenEvents { events: (0..10_000).map(sample).collect(), now_ns: second * 1_000_000_000 + 10_000 };
        let begin = Instant::now();
        app.take_in(&mut source).unwrap();
        app.refresh(&mut source);
        terminal.draw(|frame| draw(frame, &mut app)).unwrap();
        fastest = fastest.min(begin.elapsed());
    }
    println!("10,000 samples read, sorted and drawn in {fastest:?}");
    assert!(terminal.backend().to_string().contains("10,000 sockets"));
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

#[test]
fn a_real_terminal_shows_the_dashboard_and_is_restored() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut session = pty::Session::start(columns, rows, &["top", "--replay", RECORDING]);
        session.until("the table", |screen| screen.contains("198.18.0.1") && screen.contains("q quit"));
        session.send("?");
        session.until("the help", |screen| screen.contains("any key closes this"));
        session.send("xa");
        session.until("the algorithms", |screen| screen.contains("RTT samples"));
        session.resize(100, 30);
        session.until("the other size", |screen| screen.lines().count() >= 30 && screen.contains("q quit"));
        assert!(session.is_taken());
        session.send("q");
        assert_eq!(session.end(), Some(0));
    }
}

#[test]
fn a_signal_ends_the_dashboard_and_restores_the_terminal() {
    let mut session = pty::Session::start(80, 24, &["top", "--replay", RECORDING]);
    session.until("the table", |screen| screen.contains("198.18.0.1"));
    session.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(session.end(), Some(0));
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    let mut session = pty::Session::start_test(80, 24, [module_path!(), "picture_that_panics"]);
    assert_ne!(session.end(), Some(0));
    let screen = session.screen();
    assert!(screen.contains("shown after the terminal is restored"), "{screen}");
}

#[test]
#[ignore = "started by a_panic_restores_the_terminal_before_its_message"]
fn picture_that_panics() {
    let mut guard = term::TerminalGuard::take().unwrap();
    guard.draw(|_| panic!("shown after the terminal is restored")).unwrap();
}
