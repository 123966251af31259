//! The ports of the kernel's own algorithms beside the originals, in virtual time: both lose the same packets, so that
//! every difference is the port's.
//!
//! A port is a catalogue algorithm `bpf_NAME`. Its run is its original's, event by event, or `twins/bpf_NAME.patch`
//! undoes deviations that its header numbers under `Differs`. The patched port then makes the original's run, and the
//! port as it is stays within the patch's limit. `cargo xtask twins` prints the table.

mod run;
mod undone;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{needs, tccc};
use run::{Run, difference, rms};
use tccc::catalog;
use undone::Undone;

const ORIGINAL: &str = "original";
const PORT: &str = "port";
const UNDONE: &str = "undone";
const HEAD: &str = "| port | first difference | RMS, lossy path, % | RMS, full queue, % | undone, identical then |\n\
                    | --- | --- | ---: | ---: | --- |\n";

/// What the runs go over: duration, repeats and the fields of the link.
struct Course {
    name: &'static str,
    duration_s: u32,
    runs: usize,
    link: &'static str,
}

/// The queue of the first never fills: its losses are decided by number. The second loses nothing but what its queue drops.
const COURSES: [Course; 2] = [
    Course {
        name: "lossy path",
        duration_s: 8,
        runs: 3,
        link: "rate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"64bdp\"\nloss = \"0.2%\"",
    },
    Course {
        name: "full queue",
        duration_s: 20,
        runs: 1,
        link: "rate = \"10mbit\"\ndelay = \"50ms\"\nqueue = \"1bdp\"",
    },
];

/// A port beside its original.
struct Twin {
    original: String,
    port: &'static str,
    undone: Option<Undone>,
}

/// The runs of a course by variant, in the order of their seeds.
type Runs = BTreeMap<String, Vec<Run>>;

#[test]
fn ports_make_the_runs_of_the_kernels_originals() {
    needs!(guest, gcc, patch);
    let twins = twins();
    assert!(!twins.is_empty(), "no port was chosen");
    let mut table = HEAD.to_owned();
    let mut faults = Vec::new();
    for twin in &twins {
        let courses = COURSES.map(|course| twin.runs_over(&course));
        table += &twin.row(&courses);
        faults.extend(twin.faults(&courses));
    }
    println!("{table}");
    if let Some(path) = std::env::var_os("TCCC_TWINS_TABLE") {
        fs::write(path, &table).expect("the table is written");
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// A deviation that is undone is one that the port's header states, so that users know of it.
#[test]
fn undone_deviations_are_stated_in_the_header() {
    for twin in twins() {
        let Some(undone) = &twin.undone else { continue };
        assert!(!undone.numbers.is_empty(), "{}: its patch names no deviation", twin.port);
        let header = catalog::find(twin.port).unwrap().card.section("Differs").unwrap_or_default();
        for number in &undone.numbers {
            let stated = format!("{number}. From the kernel's {}", twin.original);
            assert!(header.contains(&stated), "{}: its header lacks \"{stated}\"", twin.port);
        }
    }
}

/// Every port, or those that `TCCC_ALGORITHMS` names.
fn twins() -> Vec<Twin> {
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let is_wanted = |port: &str| wanted.is_empty() || wanted.split_whitespace().any(|one| one == port);
    let ports = catalog::all().iter().map(|one| one.id.as_str()).filter(|port| is_wanted(port));
    ports
        .filter_map(|port| {
            Some(Twin { original: port.strip_prefix("bpf_")?.to_owned(), port, undone: Undone::of(port) })
        })
        .collect()
}

impl Twin {
    fn runs_over(&self, course: &Course) -> Runs {
        let place = tempfile::tempdir().unwrap();
        let (file, out) = (place.path().join("twins.toml"), place.path().join("results"));
        if let Some(undone) = &self.undone {
            fs::write(place.path().join(undone::FILE), undone.source()).unwrap();
        }
        fs::write(&file, self.scenario(course)).unwrap();
        let command = ["--engine", "virtual", "--out"];
        let output = tccc().arg("run").arg(&file).args(command).arg(&out).output().unwrap();
        assert!(output.status.success(), "{}: {}", self.port, String::from_utf8_lossy(&output.stderr));
        let runs = runs_in(&out);
        let variants = if self.undone.is_some() { 3 } else { 2 };
        assert_eq!(runs.values().map(Vec::len).collect::<Vec<_>>(), vec![course.runs; variants], "{}", self.port);
        runs
    }

    fn scenario(&self, course: &Course) -> String {
        let Twin { original, port, .. } = self;
        let Course { duration_s, runs, link, .. } = course;
        let undone = match self.undone {
            Some(_) => format!("[variant.{UNDONE}]\nalgorithm = \"{}\"\n", undone::FILE),
            None => String::new(),
        };
        format!(
            r#"
title = "{port} beside {original}"
claim = "They are the same."
profile = "paper"
duration = "{duration_s}s"
runs = {runs}
seed = 793
sample = "2ms"

[[link]]
ends = ["a", "b"]
{link}

[[flow]]
name = "data"
from = "a"
to = "b"
initial_cwnd = 10

[variant.{ORIGINAL}]
algorithm = "{original}"

[variant.{PORT}]
algorithm = "{port}"

{undone}
[report]
baseline = "{ORIGINAL}"
metrics = ["delivered_pkts"]
"#
        )
    }

    /// What the test refuses.
    fn faults(&self, courses: &[Runs]) -> Vec<String> {
        let exact = if self.undone.is_some() { UNDONE } else { PORT };
        let mut faults: Vec<String> = first_difference(courses, exact)
            .map(|found| format!("{}, {exact}: unexplained: {found}", self.port))
            .into_iter()
            .collect();
        let Some(undone) = &self.undone else { return faults };
        if first_difference(courses, PORT).is_none() {
            faults.push(format!("{} makes its original's runs: its patch undoes nothing", self.port));
        }
        for (course, runs) in COURSES.iter().zip(courses) {
            let found = percent_apart(runs);
            if found > undone.limit_percent {
                faults.push(format!(
                    "{}, {}: {found:.2} %, its patch allows {}",
                    self.port, course.name, undone.limit_percent
                ));
            }
        }
        faults
    }

    fn row(&self, courses: &[Runs]) -> String {
        let first = first_difference(courses, PORT).unwrap_or("none: identical".to_owned());
        let apart: Vec<String> = courses.iter().map(|runs| format!("{:.2}", percent_apart(runs))).collect();
        let undone =
            self.undone.as_ref().map_or("-".to_owned(), |undone| format!("Differs {}", undone.numbers.join(", ")));
        println!("{:15}  {first}", self.port);
        format!("| `{}` | {first} | {} | {undone} |\n", self.port, apart.join(" | "))
    }
}

/// The first difference between the runs of a variant and the original's, over all courses.
fn first_difference(courses: &[Runs], variant: &str) -> Option<String> {
    COURSES.iter().zip(courses).find_map(|(course, runs)| {
        let pairs = runs[ORIGINAL].iter().zip(&runs[variant]);
        let found = pairs.filter_map(|(original, other)| difference(original, other)).next()?;
        Some(format!("{}: {found}", course.name))
    })
}

/// Median over the seeds of how far the port's window is from its original's, in percent of the mean window.
fn percent_apart(runs: &Runs) -> f64 {
    let pairs = runs[ORIGINAL].iter().zip(&runs[PORT]);
    let mut apart: Vec<f64> = pairs.map(|(original, port)| 100.0 * rms(original, port)).collect();
    apart.sort_by(f64::total_cmp);
    apart[apart.len() / 2]
}

fn runs_in(out: &Path) -> Runs {
    let mut folders: Vec<_> = fs::read_dir(out.join("runs")).unwrap().map(|folder| folder.unwrap().path()).collect();
    folders.sort();
    let mut runs = Runs::new();
    for (variant, run) in folders.iter().filter_map(|folder| Run::read(folder)) {
        runs.entry(variant).or_default().push(run);
    }
    runs
}
