//! The rules for an algorithm's file and object. `tests/host/catalog.rs` and `cargo xtask tidy` apply them to `bpf/cc`.

use std::path::Path;

use super::{header, name};
use shared::catalog::Algorithm;

/// The kernel requires one callback of each row.
const NEEDED: [&[&str]; 3] = [&["ssthresh"], &["undo_cwnd"], &["cong_avoid", "cong_control", "cong_control___2"]];

/// Applies all rules. An object that was not written for tccc has to meet only the kernel's rules.
///
/// Shape: name and faults of each rule, in the order of an algorithm's file.
pub fn rules(algorithm: &Algorithm, file: &Path, source: Option<&str>) -> Vec<(&'static str, Vec<String>)> {
    let mut rules = Vec::new();
    let mut rule = |name, faults| rules.push((name, faults));
    let describes_itself = describes_itself(algorithm);
    if describes_itself || source.is_some() {
        rule("header", header_faults(algorithm, source));
    }
    rule("name", name_faults(algorithm, file, describes_itself));
    if describes_itself || source.is_some() {
        rule("tunables", tunable_faults(algorithm));
        rule("phases and state", state_faults(algorithm));
    }
    rule("callbacks", callback_faults(algorithm));
    rules
}

/// Whether an object was written for tccc, with the macros of `tccc.bpf.h`.
pub fn describes_itself(algorithm: &Algorithm) -> bool {
    !algorithm.title.is_empty() || !algorithm.card.summary.is_empty()
}

fn header_faults(algorithm: &Algorithm, source: Option<&str>) -> Vec<String> {
    let mut faults = Vec::new();
    if algorithm.title.is_empty() || algorithm.source.is_empty() {
        faults.push("ALGORITHM gives no title or no source".to_owned());
    }
    match source {
        Some(text) => {
            faults.extend(header::faults(text).into_iter().map(|(line, what)| format!("line {line}: {what}")))
        }
        None => {
            let missing = header::HEADINGS.iter().filter(|heading| algorithm.card.section(heading).is_none());
            faults.extend(missing.map(|heading| format!("the header has no heading `{heading}`")));
        }
    }
    faults
}

fn name_faults(algorithm: &Algorithm, file: &Path, describes_itself: bool) -> Vec<String> {
    let id = &algorithm.id;
    let mut faults = Vec::new();
    if name::is_of_the_kernel(id) {
        faults.push(format!("\"{id}\" is one of the kernel's own algorithms"));
    }
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let stem = file.trim_end_matches(".bpf.c").trim_end_matches(".bpf.o").trim_end_matches(".o");
    if describes_itself && stem != id {
        faults
            .push(format!("the file is \"{file}\" and the algorithm \"{id}\": the file is named after its algorithm"));
    }
    if describes_itself && algorithm.ops_table != *id {
        faults.push(format!("ALGORITHM({}, …) and .name = \"{id}\" differ", algorithm.ops_table));
    }
    faults
}

fn tunable_faults(algorithm: &Algorithm) -> Vec<String> {
    let mut faults = Vec::new();
    for tunable in &algorithm.tunables {
        let name = &tunable.name;
        if !(tunable.low..=tunable.high).contains(&tunable.default) {
            faults.push(format!("the default of {name} is outside {}", tunable.range()));
        }
        if tunable.unit.is_empty() || tunable.why.is_empty() {
            faults.push(format!("{name} has no unit or no reason"));
        }
    }
    faults
}

fn state_faults(algorithm: &Algorithm) -> Vec<String> {
    let layout = &algorithm.layout;
    let mut faults = Vec::new();
    if layout.phases.is_empty() {
        faults.push("it declares no phases: PHASES(PHASE_A, …)".to_owned());
    }
    match layout.fields.first() {
        None => faults.push("it declares no state: STATE_FITS(struct …)".to_owned()),
        Some(field) if field.name != "phase" || field.offset != 0 => {
            faults.push(format!("the first field of the state is {}, expected u8 phase", field.name));
        }
        Some(_) => {}
    }
    faults
}

fn callback_faults(algorithm: &Algorithm) -> Vec<String> {
    let has = |name: &&str| algorithm.callbacks.iter().any(|callback| callback.member == *name);
    let missing = NEEDED.into_iter().filter(|alternatives| !alternatives.iter().any(has));
    missing.map(|alternatives| format!("it lacks {}, which the kernel requires", alternatives[0])).collect()
}
