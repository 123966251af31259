//! The words of an algorithm for its private state, for events that carry bytes.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::arms::read_arms;
use super::columns::tcp_state_name;
use crate::catalog::{self, StateLayout, Value};
use crate::kernel::btf::{RUNNING_KERNEL, module_types};
use crate::loader::survey;
use crate::state::Store;
use crate::trace::arrival::RuleArm;
use crate::trace::event::Event;
use crate::trace::gather::Layouts;

/// Algorithms that are known at most; the kernel's names for them are few, a hostile recording's need not be.
const ALGORITHMS_MAX: usize = 256;

/// Layouts of the algorithms that were met so far, by their kernel name.
#[derive(Debug, Default)]
pub struct Naming {
    layouts: HashMap<String, Option<StateLayout>>,
    /// Only what was learnt counts: another host's algorithm of the same name may keep other things.
    is_recorded: bool,
}

/// The private state of one event in words.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Named {
    /// The algorithm's own phase.
    pub phase: Option<String>,
    /// Shape: in the order of the algorithm's state; empty when nobody knows its layout.
    pub fields: Vec<(String, Value)>,
}

impl Naming {
    /// Knows only the layouts it is told.
    pub fn of_recording() -> Self {
        Naming { layouts: HashMap::new(), is_recorded: true }
    }

    /// Learns what an algorithm keeps in a socket, unless too many are known.
    pub fn learn(&mut self, algorithm: String, layout: StateLayout) {
        if self.layouts.len() < ALGORITHMS_MAX || self.layouts.contains_key(&algorithm) {
            self.layouts.insert(algorithm, Some(layout));
        }
    }

    /// Names what an event's algorithm keeps in the socket; the phase is not repeated among the fields.
    pub fn name(&mut self, event: &Event) -> Named {
        self.meet(&event.algorithm);
        let Some(layout) = self.layout(&event.algorithm) else {
            return Named::default();
        };
        let phase = layout.phase_name(&event.private_state).map(str::to_owned);
        let fields = own_values(layout, &event.private_state);
        Named { phase, fields: fields.map(|(name, value)| (name.to_owned(), value)).collect() }
    }

    /// Finds out what an algorithm keeps in a socket, once, unless too many are known.
    pub fn meet(&mut self, algorithm: &str) {
        if self.layouts.len() < ALGORITHMS_MAX && !self.layouts.contains_key(algorithm) {
            let found = if self.is_recorded { None } else { find_layout(algorithm) };
            self.layouts.insert(algorithm.to_owned(), found);
        }
    }

    /// An event of an algorithm that was met, with its words and the arm of its connection, for a machine.
    pub fn describe<'a>(&'a self, event: &'a Event, given: Option<&'a RuleArm>) -> NamedEvent<'a> {
        NamedEvent::of(event, self.layout(&event.algorithm), given)
    }

    fn layout(&self, algorithm: &str) -> Option<&StateLayout> {
        self.layouts.get(algorithm)?.as_ref()
    }
}

/// The fields beside the phase.
fn own_values<'a>(layout: &'a StateLayout, state: &[u8]) -> impl Iterator<Item = (&'a str, Value)> {
    layout.values(state).filter(|(name, _)| *name != "phase")
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

impl Named {
    /// The fields as one phrase: `name=value name=value`.
    pub fn phrase(&self) -> Option<String> {
        let words: Vec<String> = self.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// One event as a JSON object, with what its algorithm's state means.
#[derive(Debug, Serialize)]
pub struct NamedEvent<'a> {
    /// The event's own fields.
    #[serde(flatten)]
    pub event: &'a Event,
    /// The kernel's word for the TCP state.
    pub tcp_state: &'static str,
    /// The algorithm's own phase.
    pub phase: Option<&'a str>,
    /// The algorithm's private fields by name.
    pub state: State<'a>,
    /// The rule of a policy that decided the connection.
    pub rule: Option<&'a str>,
    /// The arm of the rule's split: an algorithm, or `keep`.
    pub arm: Option<&'a str>,
}

/// The private state of a socket, named as it is written.
#[derive(Debug)]
pub struct State<'a> {
    layout: Option<&'a StateLayout>,
    bytes: &'a [u8],
}

impl<'a> NamedEvent<'a> {
    fn of(event: &'a Event, layout: Option<&'a StateLayout>, given: Option<&'a RuleArm>) -> Self {
        let tcp_state = tcp_state_name(event.tcp_state);
        let phase = layout.and_then(|layout| layout.phase_name(&event.private_state));
        let (rule, arm) = (given.map(|given| given.rule.as_str()), given.map(|given| given.arm.as_str()));
        NamedEvent { event, tcp_state, phase, state: State { layout, bytes: &event.private_state }, rule, arm }
    }
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.layout.iter().flat_map(|layout| own_values(layout, self.bytes)))
    }
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
        let phase = |naming: &mut Naming, algorithm: &str| {
            naming.name(&Event { algorithm: algorithm.to_owned(), ..sample(1, 0) }).phase
        };
        let mut naming = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| naming.learn(format!("learnt{n}"), layout("probe")));
        (0..2 * ALGORITHMS_MAX).for_each(|n| naming.meet(&format!("met{n}")));
        assert_eq!(naming.layouts.len(), ALGORITHMS_MAX);
        naming.learn("learnt0".to_owned(), layout("startup"));
        let last = format!("learnt{}", ALGORITHMS_MAX - 1);
        let beyond = format!("learnt{ALGORITHMS_MAX}");
        let phases = ["learnt0", &last, &beyond].map(|algorithm| phase(&mut naming, algorithm));
        assert_eq!(phases, [Some("startup".to_owned()), Some("probe".to_owned()), None]);
    }

    #[test]
    fn algorithms_that_are_only_met_are_bounded_too() {
        let mut naming = Naming::of_recording();
        (0..2 * ALGORITHMS_MAX).for_each(|n| naming.meet(&format!("met{n}")));
        assert_eq!(naming.layouts.len(), ALGORITHMS_MAX);
    }
}
