//! The words of an algorithm for its private state, for events that carry bytes.

use std::collections::HashMap;
use std::sync::Arc;

use super::arms::read_arms;
use crate::catalog::{self, StateField, StateLayout};
use crate::kernel::btf::{RUNNING_KERNEL, module_types};
use crate::loader::survey;
use crate::state::Store;
use crate::trace::event::Event;
use crate::trace::gather::Layouts;

/// Algorithms that are known at most; the kernel's names for them are few, a hostile recording's need not be.
const ALGORITHMS_MAX: usize = 256;

/// The words of the algorithms that were met so far, by their kernel name.
#[derive(Debug, Default)]
pub struct Naming {
    known: HashMap<String, Arc<Words>>,
    /// Those of an algorithm that nobody knows.
    unknown: Arc<Words>,
    /// Only what was learnt counts: another host's algorithm of the same name may keep other things.
    pub is_recorded: bool,
}

#[derive(Debug, Default)]
pub struct Words {
    layout: StateLayout,
    /// The fields beside the phase, each with `"name":`; none when nobody knows the layout.
    pub fields: Vec<(Vec<u8>, StateField)>,
}

impl Naming {
    /// Knows only the layouts that it is given.
    pub fn of_recording() -> Self {
        Naming { is_recorded: true, ..Naming::default() }
    }

    /// Learns what an algorithm keeps in a socket, unless too many are known.
    pub fn learn(&mut self, algorithm: &str, layout: &StateLayout) {
        if self.known.len() < ALGORITHMS_MAX || self.known.contains_key(algorithm) {
            self.known.insert(algorithm.to_owned(), Arc::new(Words::of(layout.clone())));
        }
    }

    /// The words of an algorithm, which are looked for once, unless too many are known.
    pub fn words(&mut self, algorithm: &str) -> &Arc<Words> {
        if self.known.len() < ALGORITHMS_MAX && !self.known.contains_key(algorithm) {
            let found = if self.is_recorded { None } else { find_layout(algorithm) };
            let words = found.map_or_else(|| Arc::clone(&self.unknown), |layout| Arc::new(Words::of(layout)));
            self.known.insert(algorithm.to_owned(), words);
        }
        self.known.get(algorithm).unwrap_or(&self.unknown)
    }
}

impl Words {
    /// The words of an algorithm that keeps this in a socket.
    pub fn of(layout: StateLayout) -> Self {
        let named = layout.fields.iter().filter(|field| field.name != "phase").cloned();
        let key = |field: &StateField| format!("{}:", serde_json::Value::from(field.name.as_str())).into_bytes();
        Words { fields: named.map(|field| (key(&field), field)).collect(), layout }
    }

    pub fn phase(&self, event: &Event) -> Option<&str> {
        self.layout.phase_name(&event.private_state)
    }

    /// The fields as one phrase: `name=value name=value`.
    pub fn phrase(&self, event: &Event) -> Option<String> {
        let value = |field: &StateField| Some(format!("{}={}", field.name, field.value(&event.private_state)?));
        let words: Vec<String> = self.fields.iter().filter_map(|(_, field)| value(field)).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// Finds the layouts of this host's algorithms, and the arms of its policy.
pub fn layouts() -> Layouts {
    Layouts { find: Box::new(find_layout), arms: read_arms() }
}

/// The layout of an algorithm that tccc registered under this name, that this binary carries, or of the kernel's own.
///
/// None: nobody knows it.
pub fn find_layout(algorithm: &str) -> Option<StateLayout> {
    if let Some(record) = survey::trusted_record(algorithm, &Store::of_host()) {
        return Some(record.layout);
    }
    match catalog::all().iter().find(|carried| carried.id == algorithm) {
        Some(carried) => Some(carried.layout.clone()),
        None => kernel_layout(algorithm),
    }
}

/// None: the kernel shows no types, or the algorithm keeps nothing in a socket.
fn kernel_layout(algorithm: &str) -> Option<StateLayout> {
    let kernel = std::fs::read(RUNNING_KERNEL).ok()?;
    let module = std::fs::read(module_types(algorithm)).ok();
    StateLayout::of_kernel(algorithm, &kernel, module.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Phase;
    use crate::model::live::samples::sample;

    /// A recording could name algorithms without end, and each was kept with what it was said to hold.
    #[test]
    fn algorithms_beyond_those_of_any_host_are_not_kept() {
        let layout = |phase: &str| {
            let phases = vec![Phase { value: 0, name: phase.to_owned() }];
            StateLayout { size: 1, phases, fields: Vec::new() }
        };
        let phase =
            |naming: &mut Naming, algorithm: &str| naming.words(algorithm).phase(&sample(1, 0)).map(str::to_owned);
        let mut naming = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| naming.learn(&format!("learnt{n}"), &layout("probe")));
        (0..2 * ALGORITHMS_MAX).for_each(|n| drop(naming.words(&format!("met{n}")).clone()));
        assert_eq!(naming.known.len(), ALGORITHMS_MAX);
        naming.learn("learnt0", &layout("startup"));
        let last = format!("learnt{}", ALGORITHMS_MAX - 1);
        let beyond = format!("learnt{ALGORITHMS_MAX}");
        let phases = ["learnt0", &last, &beyond].map(|algorithm| phase(&mut naming, algorithm));
        assert_eq!(phases, [Some("startup".to_owned()), Some("probe".to_owned()), None]);
    }

    #[test]
    fn algorithms_that_are_only_met_are_bounded_too() {
        let mut naming = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| drop(naming.words(&format!("met{n}")).clone()));
        assert_eq!(naming.known.len(), ALGORITHMS_MAX);
    }
}
