//! Every view draws any recording with valid checksums, whatever numbers it has.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tccc::model::summary::RecordingSummary;
use tccc::trace::event::{EVENT_BYTES, Event, RawEvent};
use tccc::view::app::App;
use tccc::view::draw;
use tccc::view::theme::Theme;
use zerocopy::FromBytes as _;

use super::GivenEvents;

/// Sockets of a case: few, so that each has several events.
const SOCKETS: u8 = 3;
const KINDS: u8 = 6;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Changes any bytes to an event.
fn event(bytes: Vec<u8>) -> Event {
    let mut raw = RawEvent::read_from_bytes(&bytes).unwrap();
    raw.kind = 1 + raw.kind % KINDS;
    raw.family = if raw.family.is_multiple_of(2) { AF_INET } else { AF_INET6 };
    raw.socket %= u64::from(SOCKETS);
    Event::of_raw(&raw).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_event_breaks_a_view(records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), EVENT_BYTES), 1..30)) {
        let events: Vec<Event> = records.into_iter().map(event).collect();
        let mut summary = RecordingSummary::default();
        events.iter().for_each(|event| summary.add(event.clone()));
        prop_assert!(summary.flows().len() <= SOCKETS.into());
        let mut source = GivenEvents { events, now_ns: u64::MAX };
        let mut app = App::new(Theme::new(true, true));
        let mut terminal = Terminal::new(TestBackend::new(120, 30)).unwrap();
        app.take_in(&mut source).unwrap();
        app.refresh(&mut source);
        for key in [KeyCode::Char('r'), KeyCode::Right, KeyCode::Enter, KeyCode::Char('z'), KeyCode::Char('a'), KeyCode::Esc] {
            terminal.draw(|frame| draw(frame, &mut app)).unwrap();
            app.answer(&Input::Key(KeyEvent::new(key, KeyModifiers::NONE)), &mut source);
        }
    }
}
