//! Every view draws any recording with valid checksums, whatever numbers it has.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tccc::model::recap::Recap;
use tccc::trace::event::{EVENT_BYTES, Event, offset};
use tccc::view::app::App;
use tccc::view::draw;
use tccc::view::theme::Theme;

use super::GivenEvents;

/// Sockets of a case: few, so that each has several events.
const SOCKETS: u8 = 3;
const KINDS: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Changes any bytes to an event.
fn event(mut bytes: Vec<u8>) -> Event {
    bytes[offset::kind] = 1 + bytes[offset::kind] % KINDS;
    bytes[offset::family] = if bytes[offset::family].is_multiple_of(2) { AF_INET } else { AF_INET6 };
    bytes[offset::family + 1] = 0;
    bytes[offset::socket] %= SOCKETS;
    bytes[offset::socket + 1..offset::socket + 8].fill(0);
    Event::decode(&bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_event_breaks_a_view(records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), EVENT_BYTES), 1..30)) {
        let events: Vec<Event> = records.into_iter().map(event).collect();
        let mut recap = Recap::default();
        events.iter().for_each(|event| recap.add(event.clone()));
        prop_assert!(recap.flows().len() <= SOCKETS.into());
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
