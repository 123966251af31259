//! `tccc guard --stand-by`: clears what dead guards left, and has interrupted rollouts begun again.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::signals::stop_flag;
use super::systemd;
use crate::cli::output::{note, warn};
use host::declaration;
use host::gate;
use host::policy;
use host::policy::ending::TrialResult;
use host::policy::record::{CachedRecord, TrialSubject};
use host::trial::journal::{LatestEnd, TrialEnd};
use shared::kernel::privilege;
use shared::kernel::probe::Features;

/// Longer than any wait for a lock.
const STUCK_AFTER: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The unit that applies the declaration.
const UNIT: &str = "tccc.service";
const NOT_AGAIN: &str = "the declared trial was interrupted and does not begin again";
/// So often within [`PERIOD`] an interrupted trial begins again by itself.
const RESTARTS: usize = 3;
const PERIOD: Duration = Duration::from_secs(3600);

/// Clears what dead guards left. The kernel's lease has already ended their trials for new connections. A declared trial that
/// was interrupted begins again.
///
/// # Errors
/// Not permitted. Warns once about what cannot be cleared now, and retries.
pub fn run() -> Result<()> {
    let stop = stop_flag()?;
    privilege::require("clean up after a dead guard", &privilege::FOR_LOAD)?;
    let features = Features::probe()?;
    let looked = Arc::new(Mutex::new(Instant::now()));
    let seen = Arc::clone(&looked);
    let is_late = move || {
        let late = seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (late > STUCK_AFTER).then(|| format!("no check for {} s", late.as_secs()))
    };
    systemd::ready("standing by");
    systemd::start_watchdog(is_late);
    let (mut failure, mut cache) = (String::new(), CachedRecord::default());
    let (mut latest, mut restarts) = (LatestEnd::from_now(), Restarts::default());
    while !stop.load(Ordering::Relaxed) {
        let cleared = clear(&features, &mut cache).err().map(|error| format!("{error:#}")).unwrap_or_default();
        if cleared != failure && !cleared.is_empty() {
            warn(&format!("cannot clean up after a dead guard: {cleared}"), Some("it is tried again every second"));
        }
        failure = cleared;
        if latest.news().is_some_and(|end| is_to_begin_again(&end)) {
            restarts.apply_declaration();
        }
        *looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        std::thread::sleep(POLL_INTERVAL); // a signal ends the loop at most this much later
    }
    systemd::stopping();
    Ok(())
}

fn clear(features: &Features, cache: &mut CachedRecord) -> Result<()> {
    if let Some(what) = gate::clear_over(cache)? {
        note(&what);
    }
    gate::clear_overdue(features)?.iter().for_each(|what| note(what));
    Ok(())
}

/// Whether this is an interrupted trial of the declared policy, which no command ended.
fn is_to_begin_again(end: &TrialEnd) -> bool {
    let declared = || declaration::file::read(Path::new(declaration::FOLDER)).ok()?.policy;
    end.ending.result == TrialResult::Interrupted
        && end.ending.by.is_none()
        && end.subject == TrialSubject::Policy
        && declared().is_some_and(|declared| Some(policy::file::digest(&declared.policy)) == end.policy)
}

/// The times at which interrupted trials began again.
#[derive(Default)]
struct Restarts(Vec<Instant>);

impl Restarts {
    /// Has systemd apply the declaration, unless a person stopped its unit. The new guard then belongs to that unit.
    fn apply_declaration(&mut self) {
        let verb = match state_of(UNIT).as_deref() {
            Ok("active" | "reloading" | "activating") => "reload",
            Ok("failed") => "start",
            Ok(_) => return,
            Err(error) => return warn(&format!("{NOT_AGAIN}: systemctl: {error}"), None),
        };
        self.0.retain(|time| time.elapsed() < PERIOD);
        if self.0.len() >= RESTARTS {
            let what = format!("{NOT_AGAIN}: this is the interruption number {} within an hour", RESTARTS + 1);
            warn(&what, Some(&format!("find out why its guards end, then `systemctl {verb} {UNIT}` begins it again")));
            return;
        }
        self.0.push(Instant::now());
        match Command::new("systemctl").args(["--no-block", verb, UNIT]).stdin(Stdio::null()).status() {
            Ok(status) if status.success() => note(&format!("systemd was asked to {verb} {UNIT}")),
            Ok(status) => warn(&format!("{NOT_AGAIN}: systemctl ended with {status}"), None),
            Err(error) => warn(&format!("{NOT_AGAIN}: systemctl: {error}"), None),
        }
    }
}

/// For example `active`.
fn state_of(unit: &str) -> io::Result<String> {
    let output = Command::new("systemctl").args(["show", "--property", "ActiveState", "--value", unit]).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
