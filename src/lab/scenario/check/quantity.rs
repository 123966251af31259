//! The quantities that a condition can be about, and what their values are measured in.

use host::toml_reader::{Read, Result, Value};
use shared::catalog::{FieldKind, StateField, StateLayout};
use shared::event::{CaState, Event};
use shared::model::series::SERIES;
use shared::suggest::nearest;

/// Begins the names of the algorithm's own fields.
const STATE: &str = "state.";
const PHASE: &str = "phase";
const NEXT_PHASE: &str = "next_phase";
const SENT: &str = "sent_pkts";
const DELIVERY_RATE: &str = "delivery_rate_bps";
const CA_STATE: &str = "ca_state";
const APP_LIMITED: &str = "app_limited";
/// Fields of an event whose values are words or truths.
const WORDS: [&str; 2] = [CA_STATE, APP_LIMITED];
/// Counts that grow over a whole run.
const COUNTS: [&str; 7] =
    ["delivered_pkts", "delivered_ce_pkts", "lost_pkts", "retrans_pkts", SENT, "overflow_pkts", "marked_pkts"];

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Packets,
    /// Microseconds.
    Time,
    /// Bits per second.
    BitRate,
    /// Packets per second.
    PacketRate,
    /// A number without a unit.
    Plain,
    /// No number, but one of some words.
    Word,
}

impl Unit {
    /// The unit that the end of a name says.
    fn of(name: &str) -> Option<Unit> {
        let units =
            [("_pkts", Unit::Packets), ("_us", Unit::Time), ("_bps", Unit::BitRate), ("_pps", Unit::PacketRate)];
        units.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| unit)
    }
}

/// A quantity of a flow, or of a queue on its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity {
    /// As it is written.
    pub name: String,
    pub of: QuantityOf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityOf {
    /// A field of the events, by its name.
    Event,
    /// Packets sent so far, retransmissions included: delivered, lost and in flight.
    Sent,
    /// Payload per second of the packets that were delivered over some time.
    DeliveryRate,
    Phase,
    /// The phase that follows the present one.
    NextPhase,
    /// A field of the algorithm's private state; of an array, the item of this number.
    State {
        field: String,
        item: Option<usize>,
    },
    /// A series of the queue of a link.
    Queue,
}

impl Read for Quantity {
    fn read(value: &Value<'_>) -> Result<Self> {
        let name = value.quoted()?;
        Quantity::find(&name).ok_or_else(|| {
            let names = names();
            let mut known = names.join(", ");
            known.push_str(" or state.FIELD");
            let mistake = value.refuse(format!("expected one of {known}"));
            mistake.suggest(nearest(&name, names)).into()
        })
    }
}

/// The names of all quantities but the algorithm's own.
pub fn names() -> Vec<&'static str> {
    let own = [PHASE, NEXT_PHASE, DELIVERY_RATE, SENT];
    let fields = Event::FIELDS.iter().map(|field| field.name);
    let fields = fields.filter(|name| WORDS.contains(name) || Unit::of(name).is_some());
    own.into_iter().chain(fields).chain(queues()).collect()
}

fn queues() -> impl Iterator<Item = &'static str> {
    SERIES.iter().filter(|series| series.is_of_queue()).map(|series| series.name)
}

impl Quantity {
    /// `None`: no quantity has the name.
    pub fn find(name: &str) -> Option<Quantity> {
        let of = match name {
            PHASE => QuantityOf::Phase,
            NEXT_PHASE => QuantityOf::NextPhase,
            SENT => QuantityOf::Sent,
            DELIVERY_RATE => QuantityOf::DeliveryRate,
            _ if queues().any(|queue| queue == name) => QuantityOf::Queue,
            _ if names().contains(&name) => QuantityOf::Event,
            _ => {
                let (field, item) = item_of(name.strip_prefix(STATE).filter(|field| !field.is_empty())?)?;
                QuantityOf::State { field, item }
            }
        };
        Some(Quantity { name: name.to_owned(), of })
    }

    pub fn unit(&self) -> Unit {
        match &self.of {
            QuantityOf::Phase | QuantityOf::NextPhase => Unit::Word,
            QuantityOf::Event if WORDS.contains(&self.name.as_str()) => Unit::Word,
            QuantityOf::State { field, .. } => Unit::of(field).unwrap_or(Unit::Plain),
            _ => Unit::of(&self.name).unwrap_or(Unit::Plain),
        }
    }

    /// Whether it only grows, so that its growth over some time says more than its value.
    pub fn is_count(&self) -> bool {
        COUNTS.contains(&self.name.as_str())
    }

    /// The words that its values are with every algorithm. Empty if there are none.
    pub fn fixed_words(&self) -> Vec<&'static str> {
        match self.name.as_str() {
            CA_STATE => CaState::ALL.iter().map(|state| state.name()).collect(),
            APP_LIMITED => vec!["true", "false"],
            _ => Vec::new(),
        }
    }

    /// The words that its values can be, for an algorithm with this layout. Empty if they are numbers.
    ///
    /// # Errors
    /// What the layout lacks, and what it has instead.
    pub fn words_in(&self, layout: &StateLayout) -> Result<Vec<String>, (String, String)> {
        let listed = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        match &self.of {
            QuantityOf::Phase | QuantityOf::NextPhase => {
                let phases: Vec<&str> = layout.phases.iter().map(|phase| phase.name.as_str()).collect();
                match phases.is_empty() {
                    true => Err(("phases".to_owned(), "none".to_owned())),
                    false => Ok(phases.into_iter().map(str::to_owned).collect()),
                }
            }
            QuantityOf::State { field, item } => {
                let known = layout.fields.iter().find(|one| one.name == *field);
                let Some(StateField { kind, size, .. }) = known else {
                    let names = layout.fields.iter().map(|one| one.name.as_str());
                    return Err((format!("field {field}"), listed(names.collect())));
                };
                match (kind, item) {
                    (FieldKind::Array { element_size, .. }, Some(item)) if *item < size / element_size.max(&1) => {
                        Ok(Vec::new())
                    }
                    (FieldKind::Array { element_size, .. }, _) => {
                        let last = (size / element_size.max(&1)).saturating_sub(1);
                        Err((format!("single value {field}"), format!("{field}[0] to {field}[{last}]")))
                    }
                    (_, Some(_)) => Err((format!("array {field}"), format!("the single value {field}"))),
                    (FieldKind::Enum { names }, None) => Ok(names.iter().map(|(_, name)| name.clone()).collect()),
                    _ => Ok(Vec::new()),
                }
            }
            _ => Ok(Vec::new()),
        }
    }
}

/// Splits `max_bw[1]`. `None`: the brackets hold no number.
fn item_of(field: &str) -> Option<(String, Option<usize>)> {
    match field.split_once('[') {
        None => Some((field.to_owned(), None)),
        Some((array, item)) => Some((array.to_owned(), Some(item.strip_suffix(']')?.parse().ok()?))),
    }
}
