//! Compares the ports of the kernel's algorithms with the originals in virtual time, where both lose the same packets.
//!
//! A port is a catalogue algorithm `bpf_NAME`. Its events equal its original's, or `twins/bpf_NAME.patch` undoes deviations
//! that its header numbers under `Differs`. Then the patched port's events equal the original's, and the port stays within
//! the patch's limit. `cargo xtask twins` prints the table.

mod run;
mod undone;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{check, needs, tccc};
use run::{TwinRun, difference, rms};
use tccc::catalog;
use undone::Undone;

const ORIGINAL: &str = "original";
const PORT: &str = "port";
const UNDONE: &str = "undone";
const HEAD: &str = "| port | first difference | RMS, lossy path, % | RMS, full queue, % | undone, identical then |\n\
                    | --- | --- | ---: | ---: | --- |\n";

struct Course {
    name: &'static str,
    duration_s: u32,
    runs: usize,
    link: &'static str,
}

/// The first course loses packets by number, and its queue never fills. The second loses only what its queue drops.
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

struct Twin {
    original: String,
    port: &'static str,
    undone: Option<Undone>,
}

/// The runs of a course by variant, in order of seeds.
type Runs = BTreeMap<String, Vec<TwinRun>>;

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

/// The header must state every undone deviation.
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

/// Every port, or those in `TCCC_ALGORITHMS`.
fn twins() -> Vec<Twin> {
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let is_wanted = |port: &str| wanted.is_empty() || wanted.split_whitespace().any(|one| one == port);
    let ports = catalog::all().iter().map(|one| one.id.as_str()).filter(|port| is_wanted(port));
    let twin = |port: &'static str| {
        Some(Twin { original: port.strip_prefix("bpf_")?.to_owned(), port, undone: Undone::of(port) })
    };
    ports.filter_map(twin).collect()
}

impl Twin {
    fn runs_over(&self, course: &Course) -> Runs {
        let place = tempfile::tempdir().unwrap();
        let (file, out) = (place.path().join("twins.toml"), place.path().join("results"));
        if let Some(undone) = &self.undone {
            fs::write(place.path().join(undone::FILE), undone.source()).unwrap();
        }
        fs::write(&file, self.scenario(course)).unwrap();
        check(0, tccc().arg("run").arg(&file).args(["--engine", "virtual", "--out"]).arg(&out));
        let runs = runs_in(&out);
        let variants = if self.undone.is_some() { 3 } else { 2 };
        assert_eq!(runs.values().map(Vec::len).collect::<Vec<_>>(), vec![course.runs; variants], "{}", self.port);
        runs
    }

    fn scenario(&self, course: &Course) -> String {
        let undone = match self.undone {
            Some(_) => format!("[variant.{UNDONE}]\nalgorithm = \"{}\"\n", undone::FILE),
            None => String::new(),
        };
        include_str!("../fixtures/scenarios/twins.toml.in")
            .replace("ORIGINAL", &self.original)
            .replace("PORT", self.port)
            .replace("DURATION", &format!("{}s", course.duration_s))
            .replace("RUNS", &course.runs.to_string())
            .replace("LINK", course.link)
            .replace("UNDONE", &undone)
    }

    /// The deviations without an explanation.
    fn faults(&self, courses: &[Runs]) -> Vec<String> {
        let exact = if self.undone.is_some() { UNDONE } else { PORT };
        let unexplained = first_difference(courses, exact);
        let mut faults = Vec::from_iter(unexplained.map(|it| format!("{}, {exact}: unexplained: {it}", self.port)));
        let Some(undone) = &self.undone else { return faults };
        if first_difference(courses, PORT).is_none() {
            faults.push(format!("{} makes its original's runs: its patch undoes nothing", self.port));
        }
        for (course, runs) in COURSES.iter().zip(courses) {
            let (found, allowed) = (percent_apart(runs), undone.limit_percent);
            if found > allowed {
                faults.push(format!("{}, {}: {found:.2} %, its patch allows {allowed}", self.port, course.name));
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

/// The first difference between a variant's runs and the original's.
fn first_difference(courses: &[Runs], variant: &str) -> Option<String> {
    COURSES.iter().zip(courses).find_map(|(course, runs)| {
        let pairs = runs[ORIGINAL].iter().zip(&runs[variant]);
        let found = pairs.filter_map(|(original, other)| difference(original, other)).next()?;
        Some(format!("{}: {found}", course.name))
    })
}

/// Median over the seeds of the RMS difference of the windows, in percent of the mean window.
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
    for (variant, run) in folders.iter().filter_map(|folder| TwinRun::read(folder)) {
        runs.entry(variant).or_default().push(run);
    }
    runs
}
