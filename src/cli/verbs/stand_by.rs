//! `tccc guard --stand-by`: clears what dead guards left, and has interrupted rollouts begun again.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::signals::stop_flag;
use super::systemd;
use crate::cli::output::{note, warn};
use crate::declaration;
use crate::gate;
use crate::kernel::privilege;
use crate::kernel::probe::Features;
use crate::policy::record::CachedRecord;

/// Longer than any wait for a lock.
const STUCK_AFTER: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_secs(1);
/// The unit that applies the declaration.
const UNIT: &str = "tccc.service";
/// So often within [`PERIOD`] an interrupted trial begins again by itself.
const RESTARTS: usize = 3;
const PERIOD: Duration = Duration::from_secs(3600);

/// Clears what dead guards left. The kernel's lease has already ended their trials for new connections. A declared trial that
/// was interrupted begins again.
///
/// Errors: not permitted. Warns once about what cannot be cleared now, and retries.
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
    let (mut failure, mut cache, mut restarts) = (String::new(), CachedRecord::default(), Restarts::default());
    while !stop.load(Ordering::Relaxed) {
        let cleared =
            clear(&features, &mut cache, &mut restarts).err().map(|error| format!("{error:#}")).unwrap_or_default();
        if cleared != failure && !cleared.is_empty() {
            warn(&format!("cannot clean up after a dead guard: {cleared}"), Some("it is tried again every second"));
        }
        failure = cleared;
        *looked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        std::thread::sleep(LOOK); // a signal ends the loop at most this much later
    }
    systemd::stopping();
    Ok(())
}

fn clear(features: &Features, cache: &mut CachedRecord, restarts: &mut Restarts) -> Result<()> {
    if let Some(over) = gate::clear_over(cache)? {
        note(&over.what);
        if over.begins_from.as_deref() == Some(Path::new(declaration::FOLDER)) {
            restarts.apply_declaration();
        }
    }
    gate::clear_overdue(features)?.iter().for_each(|what| note(what));
    Ok(())
}

/// The times at which interrupted trials began again.
#[derive(Default)]
struct Restarts(Vec<Instant>);

impl Restarts {
    /// Has systemd apply the declaration, if its unit is active. The new guard then belongs to that unit.
    fn apply_declaration(&mut self) {
        self.0.retain(|time| time.elapsed() < PERIOD);
        let command = format!("systemctl reload {UNIT}");
        if self.0.len() >= RESTARTS {
            let what = format!("the declared trial was interrupted {} times within an hour and is left", RESTARTS + 1);
            warn(&what, Some(&format!("find out why its guards end, then `{command}` begins it again")));
            return;
        }
        self.0.push(Instant::now());
        let mut systemctl = Command::new("systemctl");
        systemctl.args(["--no-block", "try-reload-or-restart", UNIT]).stdin(Stdio::null()).stdout(Stdio::null());
        match systemctl.status() {
            Ok(status) if status.success() => note("the declaration is applied again"),
            Ok(status) => {
                warn(&format!("the declared trial does not begin again: systemctl ended with {status}"), None)
            }
            Err(error) => warn(&format!("the declared trial does not begin again: systemctl: {error}"), None),
        }
    }
}
