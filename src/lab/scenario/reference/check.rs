//! `[[check]]`: properties of events over time.

use std::time::Duration;

use Kind::{Is, Tables, Time, Words};
use host::fields;
use host::toml_reader::Kind;

use crate::scenario::check::Words as Said;
use crate::scenario::check::{Bound, Condition, FieldUnit, Must, Quantity, Span};
use crate::scenario::document::link::Nodes;
use crate::scenario::document::shown::Points;

const BOUND: Kind = Is("number, with a unit or a reference");
const WORD: Kind = Is("word, number, true or false, or a list of them");
const SPAN: Kind = Is("time or number of rounds");
const NO_LIMIT: &str = "no limit";
const ANY: &str = "any value";

fields! {
    /// A condition on a quantity, as it is written.
    #[derive(Debug, Clone, PartialEq)]
    pub struct ConditionFields: CONDITION {
        /// Quantity of a flow, of its algorithm, or of a queue on its way. Counts, levels and rates have the names of
        /// `events.jsonl`, such as `cwnd_pkts` and `ca_state`. `sent_pkts` is delivered, lost and in flight.
        /// `delivery_rate_bps` is the payload that was delivered per second. `phase` is the algorithm's phase, and
        /// `next_phase` the one that follows. `state.FIELD` is a field of its private state. Queues have the series of
        /// figures, such as `queue_pkts`.
        /// Example: what = "inflight_pkts"
        /// Example: what = "state.max_bw[1]"
        what: Quantity = Is("quantity"), needed;
        /// Lower limit: a number with a unit. `2bdp` means bandwidth-delay products of the flow's path, and `1.5rtt` its
        /// round trips without queues. `98%` is a share of its bottleneck's rate, in payload. `0.7 before` compares with
        /// the value just before the window. `0.85 cwnd_pkts` compares with another quantity at the same moment.
        /// Example: at_least = "98%"
        at_least: Bound = BOUND, unless NO_LIMIT;
        /// Upper limit, like `at_least`.
        /// Example: at_most = "2bdp"
        at_most: Bound = BOUND, unless NO_LIMIT;
        /// Words of which the value is one.
        /// Example: is = "drain"
        /// Example: is = ["up", "down"]
        is: Said = WORD, unless ANY;
        /// Words of which the value is none.
        /// Example: is_not = "startup"
        is_not: Said = WORD, unless ANY;
        /// Time over which a count grows; then the growth is compared. A delivery rate is the mean over this time.
        /// Example: over = "1s"
        over: Span = SPAN, unless "the whole count; the last round of a delivery rate";
        /// Sender and receiver of the link whose queue it is.
        /// Example: link = ["left", "right"]
        link: Nodes = Is("two nodes"), unless "the flow's bottleneck";
        /// What 1 of a private field is worth: a number or a fraction, a unit, or both.
        /// Example: unit = "1/256"
        /// Example: unit = "0.001pps"
        unit: FieldUnit = Is("number with a unit"), unless "the unit that the field's name ends with";
    }
}

fields! {
    /// A check, as it is written.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CheckFields: CHECK {
        /// What is checked, in a few words. Each check has its own name.
        /// Example: name = "Startup ends within 5 rounds of the full rate"
        name: String = Is("text"), needed;
        /// Reason and source, in one sentence.
        /// Example: why = "RFC 5681, section 3.1"
        why: String = Is("text"), needed;
        /// When the condition must hold: at every moment of the window, at one moment, or at none.
        /// Example: must = "reach"
        must: Must = Words(&["always", "reach", "never"]), or "always";
        /// Start of the window, on the clock of the links' changes.
        /// Example: from = "2s"
        from: Duration = Time(None), unless "the start of the flow";
        /// End of the window, on the same clock.
        /// Example: to = "8s"
        to: Duration = Time(None), unless "the end of the flow";
        /// Conditions after which the window begins: at the first moment at which all of them hold. If there is none,
        /// the check does not hold.
        /// Example: after = [{ what = "delivery_rate_bps", at_least = "98%" }]
        after: Vec<Condition> = Tables(&CONDITION), empty "the window begins with `from`";
        /// Conditions that begin a window each time that all of them begin to hold. A window that the end of the flow
        /// cuts short counts only if it decides.
        /// Example: each = [{ what = "lost_pkts", over = "1round", at_least = 1 }]
        each: Vec<Condition> = Tables(&CONDITION), empty "one window";
        /// Longest length of a window. A round ends when all that was in flight at its start is delivered or lost.
        /// Example: within = "5rounds"
        within: Span = SPAN, unless "to the end";
        /// Conditions before which a window ends: at the first later moment at which all of them hold.
        /// Example: until = [{ what = "phase", is = "drain" }]
        until: Vec<Condition> = Tables(&CONDITION), empty "to the end";
        /// Conditions without which a moment does not count.
        /// Example: while = [{ what = "phase", is = "startup" }]
        r#while: Vec<Condition> = Tables(&CONDITION), empty "all moments count";
        /// Name of the flow, with all its copies.
        /// Example: flow = "data"
        flow: String = Is("name"), unless "the compared flows";
        /// Points of the sweep that are checked.
        /// Example: at = { algorithm = ["reno"], loss = ["1%"] }
        at: Points = Is("variables with a value or a list"), empty "every point";
        from CONDITION [what: Quantity]: needed;
        from CONDITION [at_least: Bound, at_most: Bound]: unless NO_LIMIT;
        from CONDITION [is: Said, is_not: Said]: unless ANY;
        from CONDITION [over: Span]: unless "the whole count; the last round of a delivery rate";
        from CONDITION [link: Nodes]: unless "the flow's bottleneck";
        from CONDITION [unit: FieldUnit]: unless "the unit that the field's name ends with";
    }
}
