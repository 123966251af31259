//! The first thing a newcomer runs: dtcp in the real kernel beside reno and cubic. The host is as before afterwards.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::setup::{self, SetupPurpose};
use crate::{guest, host_state, process, web};

const SCENARIO: &str = "scenarios/smoke/loss-sweep.toml";
/// Pause between two readings of the registered algorithms.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// `cargo xtask demo`. Errors: a step fails; the host is not as before.
///
/// Side effects: installs packages; during the run, namespaces and registered algorithms.
pub fn run() -> Result<()> {
    let mut steps = DemoSteps::default();
    steps.step("setup", || setup::set_up(SetupPurpose::Demo))?;
    web::bundle_if_possible();
    steps.step("build", process::build_fast_tccc)?;
    let before = host_state::lines();
    let shown = show(&mut steps);
    let restored = steps.step("host as before", || compare(&before));
    steps.print();
    shown.and(restored)
}

/// The steps that change the host.
fn show(steps: &mut DemoSteps) -> Result<()> {
    let results = process::target().join("demo");
    let report = results.join("report.html");
    // A missing capability is an error only in the run that needs it.
    steps.step("doctor", || tccc().arg("doctor").status().context("start `tccc doctor`").map(drop))?;
    steps.step("run", || experiment(&results))?;
    steps.step("report", || {
        let mut command = tccc();
        command.arg("report").arg(&results).args(["-o", "html", "--out"]).arg(&report);
        process::output("report", &mut command).map(drop)
    })?;
    println!("report: {}", report.display());
    if guest::is_there() {
        steps.step("virtual time", in_virtual_time)?;
    }
    Ok(())
}

/// Runs the same experiment with ten times as many runs.
fn in_virtual_time() -> Result<()> {
    let results = process::target().join("demo-virtual");
    process::remove(&results)?;
    let mut run = tccc();
    run.args(["run", SCENARIO, "--engine", "virtual", "--runs", "30", "--quiet", "--out"]).arg(&results);
    process::run("run in virtual time", &mut run)
}

fn tccc() -> std::process::Command {
    process::program(process::fast_tccc())
}

fn experiment(results: &Path) -> Result<()> {
    process::remove(results)?;
    let is_over = AtomicBool::new(false);
    let run = |one_by_one: &[&str]| {
        let mut command = tccc();
        command.args(["run", SCENARIO, "--out"]).arg(results).args(one_by_one);
        process::run("run", &mut command)
    };
    let (done, seen) = thread::scope(|scope| {
        let watch = scope.spawn(|| watch_algorithms(&is_over));
        // Other work may delay parallel runs: the second attempt runs one at a time.
        let done = run(&[]).or_else(|_| run(&["--jobs", "1"]));
        is_over.store(true, Ordering::Relaxed);
        (done, watch.join().unwrap_or_default())
    });
    println!("registered in the kernel during the run: {}", seen.into_iter().collect::<Vec<_>>().join(" "));
    println!("registered in the kernel now: {}", host_state::algorithms().join(" "));
    done
}

/// Every algorithm that was registered at any moment.
fn watch_algorithms(is_over: &AtomicBool) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    while !is_over.load(Ordering::Relaxed) {
        seen.extend(host_state::algorithms());
        thread::sleep(WATCH_INTERVAL);
    }
    seen
}

/// Fails if something on the host is left behind or missing, after the kernel had time for its cleanup.
pub fn compare(before: &BTreeSet<String>) -> Result<()> {
    if let Some(change) = host_state::change(before, host_state::SETTLING, host_state::lines) {
        bail!("the host is not as before: {change}; `tccc status` shows what is ours");
    }
    println!("the host is as before: algorithms, default, pins, namespaces, cgroups, interfaces");
    Ok(())
}

/// Steps and their durations.
#[derive(Debug, Default)]
struct DemoSteps(Vec<(&'static str, Duration)>);

impl DemoSteps {
    fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        let done = work().with_context(|| format!("demo, step \"{name}\""));
        self.0.push((name, start.elapsed()));
        done
    }

    fn print(&self) {
        println!("\nelapsed");
        for (name, time) in &self.0 {
            println!("  {name:16} {:7.1} s", time.as_secs_f64());
        }
        let total: Duration = self.0.iter().map(|(_, time)| *time).sum();
        println!("  {:16} {:7.1} s", "total", total.as_secs_f64());
    }
}
