//! Names the phases and private fields of an algorithm, for events that carry only bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::arms::read_arms;
use host::loader::survey;
use host::state::Store;
use host::trace::gather::Layouts;
use shared::catalog::{self, StateField, StateLayout};
use shared::event::Event;

/// A kernel has few algorithms; a hostile recording may name any number.
const ALGORITHMS_MAX: usize = 256;

/// The names of phases and fields of each algorithm met so far, by the algorithm's kernel name.
#[derive(Debug, Default)]
pub struct Naming {
    known: HashMap<String, Arc<StateWords>>,
    unknown: Arc<StateWords>,
    /// Uses only layouts from the recording: this host's algorithm of the same name may have another layout.
    pub is_recorded: bool,
}

#[derive(Debug, Default)]
pub struct StateWords {
    layout: StateLayout,
    /// The fields except the phase, each with its JSON key `"name":`; empty if the layout is unknown.
    pub fields: Vec<(Vec<u8>, StateField)>,
}

impl Naming {
    pub fn of_recording() -> Self {
        Naming { is_recorded: true, ..Naming::default() }
    }

    /// Ignores new names beyond the limit.
    pub fn learn(&mut self, algorithm: &str, layout: &StateLayout) {
        if self.known.len() < ALGORITHMS_MAX || self.known.contains_key(algorithm) {
            self.known.insert(algorithm.to_owned(), Arc::new(StateWords::of(layout.clone())));
        }
    }

    /// Looks for an algorithm's layout once. Names beyond the limit count as unknown.
    pub fn words(&mut self, algorithm: &str) -> &Arc<StateWords> {
        if self.known.len() < ALGORITHMS_MAX && !self.known.contains_key(algorithm) {
            let found = if self.is_recorded { None } else { find_layout(algorithm) };
            let words = found.map_or_else(|| Arc::clone(&self.unknown), |layout| Arc::new(StateWords::of(layout)));
            self.known.insert(algorithm.to_owned(), words);
        }
        self.known.get(algorithm).unwrap_or(&self.unknown)
    }
}

impl StateWords {
    pub fn of(layout: StateLayout) -> Self {
        let named = layout.fields.iter().filter(|field| field.name != "phase").cloned();
        let key = |field: &StateField| format!("{}:", serde_json::Value::from(field.name.as_str())).into_bytes();
        StateWords { fields: named.map(|field| (key(&field), field)).collect(), layout }
    }

    pub fn phase(&self, event: &Event) -> Option<&str> {
        self.layout.phase_name(&event.private_state)
    }

    /// `name=value name=value`.
    pub fn phrase(&self, event: &Event) -> Option<String> {
        let value = |field: &StateField| Some(format!("{}={}", field.name, field.value(&event.private_state)?));
        let words: Vec<String> = self.fields.iter().filter_map(|(_, field)| value(field)).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

pub fn layouts() -> Layouts {
    Layouts { find: Box::new(find_layout), arms: read_arms() }
}

/// Looks in the records of tccc, then in this binary, then in the kernel's own types.
fn find_layout(algorithm: &str) -> Option<StateLayout> {
    if let Some(record) = survey::trusted_record(algorithm, &Store::of_host()) {
        return Some(record.layout);
    }
    let carried = catalog::all().iter().find(|carried| carried.id == algorithm);
    carried.map(|carried| carried.layout.clone()).or_else(|| survey::layout_in_kernel(algorithm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::catalog::Phase;
    use shared::model::live::samples::sample;

    /// A recording with endless names used to fill the memory.
    #[test]
    fn algorithms_beyond_those_of_any_host_are_not_kept() {
        let layout = |phase: &str| {
            let phases = vec![Phase { value: 0, name: phase.to_owned() }];
            StateLayout { size: 1, phases, fields: Vec::new() }
        };
        let mut met = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| drop(met.words(&format!("met{n}")).clone()));
        let mut naming = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| naming.learn(&format!("learnt{n}"), &layout("probe")));
        drop(naming.words("met").clone());
        assert_eq!([&met, &naming].map(|naming| naming.known.len()), [ALGORITHMS_MAX; 2]);
        naming.learn("learnt0", &layout("startup"));
        let learnt = [0, ALGORITHMS_MAX - 1, ALGORITHMS_MAX].map(|n| {
            let words = naming.words(&format!("learnt{n}"));
            words.phase(&sample(1, 0)).map(str::to_owned)
        });
        assert_eq!(learnt, [Some("startup".to_owned()), Some("probe".to_owned()), None]);
    }
}
