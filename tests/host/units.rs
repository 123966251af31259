//! The package's systemd units: their exposure, capabilities and notifications.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::needs;
use tccc::cli::capabilities::NEEDS;

/// Largest exposure in tenths, as in `systemd-analyze security`; 100 is a service without protection.
const EXPOSURE_MAX: &str = "26";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("xtask/package")
}

/// Names and texts of the units with this ending.
fn units(ending: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.path());
    let units = entries.filter(|path| path.extension().is_some_and(|it| it == ending));
    units
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

fn value<'a>(unit: &'a str, key: &str) -> Option<&'a str> {
    unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
}

/// The verb of tccc that a unit starts under this key.
fn verb<'a>(unit: &'a str, key: &str) -> Option<&'a str> {
    value(unit, key)?.strip_prefix("/usr/bin/tccc ")?.split(' ').next()
}

#[test]
fn no_service_is_exposed_more_than_it_must_be() {
    needs!(systemd_analyze);
    let services = units("service");
    assert!(services.len() >= 3, "{services:?}");
    for (name, _) in services {
        let mut analyze = Command::new("systemd-analyze");
        analyze
            .args(["security", "--offline=true", "--no-pager", "--threshold", EXPOSURE_MAX])
            .arg(folder().join(&name));
        let output = analyze.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("Overall exposure level"), "{said}");
    }
}

/// Each unit has all capabilities that the help of its verbs lists, and notifies systemd if systemd waits for that.
///
/// The units lacked CAP_SYS_PTRACE. So an upgrade missed the namespaces of nearly all containers.
#[test]
fn services_have_the_capabilities_of_their_verbs() {
    for (name, unit) in units("service") {
        let verb = verb(&unit, "ExecStart").unwrap();
        let bounds: Vec<&str> = value(&unit, "CapabilityBoundingSet").unwrap().split(' ').collect();
        for verb in ["ExecStart", "ExecStop"].iter().filter_map(|key| self::verb(&unit, key)) {
            let needs = NEEDS.iter().find(|it| it.verb == if verb == "guard" { "apply" } else { verb }).unwrap();
            let sometimes = needs.sometimes.iter().flat_map(|(capabilities, _)| *capabilities);
            for capability in needs.always.iter().chain(sometimes) {
                assert!(bounds.contains(&capability.name()), "{name} lacks {}", capability.name());
            }
        }
        let tells = ["serve", "guard"].contains(&verb);
        assert_eq!(value(&unit, "Type") == Some("notify"), tells, "{name}");
        assert_eq!(value(&unit, "WatchdogSec").is_some(), tells, "{name}");
    }
    for (name, _) in units("socket") {
        assert!(folder().join(name.replace(".socket", ".service")).exists(), "{name} starts nothing");
    }
}
