//! The words of an algorithm for its private state, for events that carry bytes.

use std::collections::HashMap;

use serde::{Serialize, Serializer};

use super::columns::tcp_state_name;
use crate::catalog::{self, StateLayout, Value};
use crate::kernel::btf::{RUNNING_KERNEL, module_types};
use crate::loader::survey;
use crate::state::Store;
use crate::trace::event::Event;
use crate::trace::gather::Layouts;

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

    /// Learns what an algorithm keeps in a socket.
    pub fn learn(&mut self, algorithm: String, layout: StateLayout) {
        self.layouts.insert(algorithm, Some(layout));
    }

    /// Names what an event's algorithm keeps in the socket; the phase is not repeated among the fields.
    pub fn name(&mut self, event: &Event) -> Named {
        let Some(layout) = self.layout(&event.algorithm) else {
            return Named::default();
        };
        let phase = layout.phase_name(&event.private_state).map(str::to_owned);
        let fields = layout.decode(&event.private_state).into_iter();
        let fields = fields.filter(|(name, _)| *name != "phase").map(|(name, value)| (name.to_owned(), value));
        Named { phase, fields: fields.collect() }
    }

    fn layout(&mut self, algorithm: &str) -> Option<&StateLayout> {
        if !self.layouts.contains_key(algorithm) {
            let found = if self.is_recorded { None } else { find_layout(algorithm) };
            self.layouts.insert(algorithm.to_owned(), found);
        }
        self.layouts[algorithm].as_ref()
    }
}

/// Finds the layouts of this host's algorithms.
pub fn layouts() -> Layouts {
    Box::new(find_layout)
}

/// The layout of an algorithm that tccc registered under this name, that this binary carries, or of the kernel's own.
fn find_layout(algorithm: &str) -> Option<StateLayout> {
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
    #[serde(serialize_with = "as_object")]
    pub state: &'a [(String, Value)],
}

impl<'a> NamedEvent<'a> {
    /// The event with its words.
    pub fn of(event: &'a Event, named: &'a Named) -> Self {
        let tcp_state = tcp_state_name(event.tcp_state);
        NamedEvent { event, tcp_state, phase: named.phase.as_deref(), state: &named.fields }
    }
}

fn as_object<S: Serializer>(fields: &&[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(fields.iter().map(|(name, value)| (name, value)))
}
