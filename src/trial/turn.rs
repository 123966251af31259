//! One process at a time begins, changes or ends a trial.
//!
//! Each of these takes several steps, and the records' own lock is held for one step at a time. The BPF file system's
//! folder is what is locked: it holds the trial's pins, is the same in every mount namespace that shows them, and is never
//! removed.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::failure::Failure;
use crate::kernel::bpffs;
use crate::state::Store;

/// Confirming an upgrade takes longest: the kernel verifies the new code first.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a lock that is held is asked for again.
const PAUSE: Duration = Duration::from_millis(2);

/// The right to begin, change or end a trial, until it is dropped or the process dies.
#[derive(Debug)]
pub struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    /// Waits until no other process has it.
    ///
    /// Errors: no BPF file system is mounted; not permitted; another process has it for too long.
    pub fn take() -> Result<Turn> {
        let place = match bpffs::mount() {
            Some(place) => place,
            None => {
                let store = Store::of_host();
                let _locked = store.lock()?;
                bpffs::mount_missing()?
            }
        };
        let mut folder = File::open(&place).with_context(|| format!("open {}", place.display()))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(Turn { _lock: lock }),
                Err((_, errno)) if errno != Errno::EWOULDBLOCK => {
                    return Err(errno).with_context(|| format!("lock {}", place.display()));
                }
                Err((unlocked, _)) => folder = unlocked,
            }
            if Instant::now() >= deadline {
                let what = format!("another tccc process is changing a trial for more than {PATIENCE:?}");
                return Err(Failure::failed(what).hint(format!("`fuser {}` shows it", place.display())).into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}
