//! The needs of virtual time, as lines of `tccc doctor`.

use std::env;

use super::guest::Guest;
use super::sandbox;
use crate::scenario::GuestKernel;
use shared::failure::Failure;
use shared::kernel::probe::checks::{HostCheck, Weight};

/// Programs that compile and link the guest's modules.
const PROGRAMS: [&str; 4] = ["gcc", "ld", "tar", "xz"];
const ENGINE: &str = "`tccc run --engine virtual`";

/// Checks the host without changing it.
pub fn all() -> Vec<HostCheck> {
    let is_met = sandbox::is_available();
    let found = if is_met { "Landlock" } else { "no Landlock" }.to_owned();
    let fix = "a kernel with CONFIG_SECURITY_LANDLOCK, of Linux 6.2 or later".to_owned();
    let sandbox = check("sandbox of the guest's process", is_met, (found, "keeping a guest in its folder", fix));
    let older = guest(GuestKernel::Linux6, ("guest of virtual time", ENGINE));
    let newer = guest(GuestKernel::Linux7, ("guest with Linux 7.3", "`--engine virtual --kernel 7.3`"));
    vec![older, newer, compiler(), sandbox]
}

fn guest(kernel: GuestKernel, (what, needed_for): (&'static str, &'static str)) -> HostCheck {
    let (found, fix) = match Guest::find(kernel) {
        Ok(guest) => (format!("Linux {}", guest.facts.release), String::new()),
        Err(error) => {
            let hint = error.downcast_ref::<Failure>().and_then(|failure| failure.hint.clone());
            (format!("{error}"), hint.unwrap_or_default())
        }
    };
    check(what, fix.is_empty(), (found, needed_for, fix))
}

/// Checks for the compiler. Modules are compiled again when an algorithm changes.
fn compiler() -> HostCheck {
    let paths = env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &&str| env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    let (there, missing): (Vec<&str>, Vec<&str>) = PROGRAMS.iter().partition(|program| is_there(program));
    let found = if missing.is_empty() { there.join(", ") } else { format!("no {}", missing.join(", ")) };
    let fix = "`apt-get install gcc binutils tar xz-utils`".to_owned();
    check("compiler of the guest's modules", missing.is_empty(), (found, ENGINE, fix))
}

fn check(what: &'static str, is_met: bool, (found, needed_for, fix): (String, &'static str, String)) -> HostCheck {
    HostCheck { what, is_met, weight: Weight::Useful, found, needed_for, fix }
}
