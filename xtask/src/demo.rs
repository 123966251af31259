//! The first thing a newcomer runs: dtcp in the real kernel beside reno and cubic. The host is as before afterwards.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, command};
use crate::setup::{self, SetupPurpose};
use crate::{guest, host_state, web};

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
    steps.step("build", build)?;
    let before = host_state::lines();
    let shown = show(&mut steps);
    let restored = steps.step("host as before", || compare(&before));
    steps.print();
    shown.and(restored)
}

/// Builds what the first table needs: neither Parquet nor the author's half, and nothing optimised.
fn build() -> Result<()> {
    process::run("build", process::cargo("build").args(["--no-default-features", "--features", "lab"]))
}

/// The steps that change the host.
fn show(steps: &mut DemoSteps) -> Result<()> {
    let (tccc, results) = (process::tccc(), process::target().join("demo"));
    let report = results.join("report.html");
    // A missing capability is an error only in the run that needs it.
    steps.step("doctor", || command!("{tccc} doctor").status().context("start `tccc doctor`").map(drop))?;
    steps.step("run", || experiment(&results))?;
    steps.step("report", || {
        process::output("report", command!("{tccc} report {results} -o html --out {report}")).map(drop)
    })?;
    println!("report: {}", report.display());
    if guest::is_there() {
        steps.step("virtual time", in_virtual_time)?;
    }
    Ok(())
}

/// Runs the same experiment with ten times as many runs.
fn in_virtual_time() -> Result<()> {
    let (tccc, results) = (process::tccc(), process::target().join("demo-virtual"));
    process::remove(&results)?;
    let options = ["--engine", "virtual", "--runs", "30", "--quiet"];
    process::run("run in virtual time", command!("{tccc} run {SCENARIO} {options...} --out {results}"))
}

fn experiment(results: &Path) -> Result<()> {
    process::remove(results)?;
    let is_over = AtomicBool::new(false);
    let tccc = process::tccc();
    let run =
        |one_by_one: &[&str]| process::run("run", command!("{tccc} run {SCENARIO} --out {results} {one_by_one...}"));
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
