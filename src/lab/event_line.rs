//! One line of `events.jsonl`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use shared::catalog::{StateLayout, StateValue};
use shared::event::Event;

/// Layout of the private state of each algorithm, by its name in the kernel. Unknown ones are missing.
pub type StateLayouts = BTreeMap<String, StateLayout>;

/// An event, with what its private state says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EventLine<'a> {
    #[serde(flatten)]
    pub event: &'a Event,
    /// Phase of the algorithm, in its paper's words. `None` if the algorithm declares none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'a str>,
    /// Fields of the private state by their names in C, also of the kernel's own algorithms. `None` if the layout is
    /// unknown: in virtual time, that of your own file and of some of the kernel's algorithms.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    pub state: BTreeMap<&'a str, StateValue>,
}

impl<'a> EventLine<'a> {
    pub fn of(event: &'a Event, layouts: &'a StateLayouts) -> EventLine<'a> {
        let layout = layouts.get(&event.algorithm);
        let phase = layout.and_then(|layout| layout.phase_name(&event.private_state));
        let state = layout.into_iter().flat_map(|layout| layout.values(&event.private_state));
        EventLine { event, phase, state: state.filter(|(name, _)| *name != "phase").collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::catalog;
    use shared::model::live::samples::sample;

    #[test]
    fn private_state_has_names_and_the_line_is_still_an_event() {
        let cubic = catalog::find("bpf_cubic").unwrap();
        let layouts = StateLayouts::from([("bpf_cubic".to_owned(), cubic.layout.clone())]);
        let mut event = Event { algorithm: "bpf_cubic".into(), ..sample(1, 5) };
        event.private_state[0] = cubic.layout.phases[0].value;
        let line = serde_json::to_value(EventLine::of(&event, &layouts)).unwrap();
        assert_eq!(line["phase"], cubic.layout.phases[0].name);
        let state = line["state"].as_object().unwrap();
        assert_eq!(state.len(), cubic.layout.fields.len() - 1, "all but the phase: {state:?}");
        assert_eq!(serde_json::from_value::<Event>(line).unwrap(), event);
        let unknown = StateLayouts::new();
        let line = serde_json::to_value(EventLine::of(&event, &unknown)).unwrap();
        assert!(line.get("state").is_none() && line.get("phase").is_none(), "{line}");
    }
}
