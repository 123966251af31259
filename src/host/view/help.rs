//! The help window: keys, signs, units.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget};

use super::{paint, theme};

const WIDTH: u16 = 76;

const LINES: [&str; 21] = [
    " Keys                                       any key closes this",
    "  q, Ctrl-C  quit         Tab  next view       space  pause",
    "  up down PgUp PgDn Home End, j k g G  move    Enter  open a flow",
    "  < > left right  sort by another column       r      reverse",
    "  /  filter               Esc  clear, back     a      algorithms",
    "  z  time span of a flow  t    table           mouse  click, wheel",
    "  replay: + - speed   [ ] 10 s   { } 60 s   0-9 tenths of it",
    " Filter: all words must match",
    "  nginx   process:curl   cgroup:system   algorithm:cubic   rule:web",
    "  srtt>50ms   goodput<10mbit   retrans>2%   cwnd>100   age<10s",
    " Signs before a row",
    "  >   sends                       !   recovers from a loss",
    "  ~   Disorder or CWR             !!  Loss: retransmission timeout",
    "  x   closed a moment ago         (blank) idle, or only receives",
    " Marks of a flow: x packets lost, T retransmission timeout",
    " cwnd, ssthresh and inflight are packets of mss; rates are bits per",
    " second. goodput: payload acknowledged in the last 1 to 2 s. retrans:",
    " share retransmitted in the last 10 to 20 s. Sampled when packets arrive.",
    " Dropped events are counted above. In the algorithms view, c makes the",
    " kernel count the time of callbacks, which costs two clock reads per call.",
    " hidden: processes whose network namespace is unknown; may be more.",
];

pub(super) fn draw(frame: &mut Frame, area: Rect) {
    let (width, height) = (WIDTH.min(area.width), (LINES.len() as u16).min(area.height));
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let buffer = frame.buffer_mut();
    Clear.render(area, buffer);
    let style = |(row, line): (usize, &&str)| {
        let is_heading = !line.starts_with("  ") && row < 15;
        if is_heading { theme::HEADING } else { Style::new() }
    };
    paint::lines(buffer, place, LINES.iter().enumerate().map(|line| (line.1, style(line))));
}
