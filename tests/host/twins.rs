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
    link: &'static str,
    /// More fields of the flow, or another flow.
    flow: &'static str,
}

/// The courses whose windows are compared. The others only tell whether runs are equal.
const COMPARED: usize = 2;

/// The first course loses packets by number, and its queue never fills. The second loses only what its queue drops. The
/// others reach what these do not: timeouts, undone reductions, late ACKs and long RTTs; pauses; a queue that another flow
/// fills; windows of thousands of packets; and marks instead of losses.
const COURSES: [Course; 7] = [
    Course {
        name: "lossy path",
        duration_s: 8,
        link: "rate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"64bdp\"\nloss = \"0.2%\"",
        flow: "",
    },
    Course {
        name: "full queue",
        duration_s: 20,
        link: "rate = \"10mbit\"\ndelay = \"50ms\"\nqueue = \"1bdp\"",
        flow: "",
    },
    Course {
        name: "changing path",
        duration_s: 20,
        link: "rate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"64bdp\"\nloss = \"bursts:loss=0.5%,mean=3\"\n\
               acks = \"compressed:time=10ms,share=2%\"\nreverse = { loss = \"2%\" }\nchange = [\n\
               { at = \"5s\", delay = \"110ms\" },\n{ at = \"9s\", up = false },\n\
               { at = \"11s\", up = true, rate = \"5mbit\" },\n{ at = \"15s\", rate = \"40mbit\", delay = \"10ms\" },\n]",
        flow: "",
    },
    Course {
        name: "pauses",
        duration_s: 20,
        link: "rate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"2bdp\"\nloss = \"0.1%\"\n\
               reverse = { acks = \"aggregated:time=4ms,pkts=4\" }",
        flow: "size = \"2500kB\"\ncount = 5\ninterval = \"4s\"\nkeep_alive = 1",
    },
    Course {
        name: "beside reno",
        duration_s: 20,
        link: "rate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"2bdp\"",
        flow: "[[flow]]\nname = \"other\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"reno\"",
    },
    Course {
        name: "large window",
        duration_s: 8,
        link: "rate = \"400mbit\"\ndelay = \"50ms\"\nqueue = \"0.3bdp\"\nloss = \"0.001%\"",
        flow: "",
    },
    Course {
        name: "marking queue",
        duration_s: 8,
        link: "rate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"200pkts\"\nmark = \"20pkts\"\nloss = \"0.02%\"",
        flow: "ecn = 1",
    },
];

struct Twin {
    original: String,
    port: &'static str,
    undone: Option<Undone>,
}

/// The runs of a course by variant.
type Runs = BTreeMap<String, TwinRun>;

#[test]
fn ports_make_the_runs_of_the_kernels_originals() {
    needs!(guest, gcc, patch);
    let twins = twins();
    assert!(!twins.is_empty(), "no port was chosen");
    let mut table = HEAD.to_owned();
    let mut faults = Vec::new();
    for twin in &twins {
        let courses = twin.run();
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

/// The kernel has no module of its own for these.
const WITHOUT_ORIGINAL: [&str; 1] = ["bpf_bbr3"];

/// Every port, or those in `TCCC_ALGORITHMS`.
fn twins() -> Vec<Twin> {
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let is_wanted = |port: &str| wanted.is_empty() || wanted.split_whitespace().any(|one| one == port);
    let ports = catalog::all().iter().map(|one| one.id.as_str()).filter(|port| is_wanted(port));
    let twin = |port: &'static str| {
        let port = Some(port).filter(|port| !WITHOUT_ORIGINAL.contains(port))?;
        Some(Twin { original: port.strip_prefix("bpf_")?.to_owned(), port, undone: Undone::of(port) })
    };
    ports.filter_map(twin).collect()
}

impl Course {
    fn folder(&self) -> String {
        self.name.replace(' ', "-")
    }
}

impl Twin {
    /// The runs of every course.
    fn run(&self) -> Vec<Runs> {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("results");
        if let Some(undone) = &self.undone {
            fs::write(place.path().join(undone::FILE), undone.source()).unwrap();
        }
        let mut command = tccc();
        command.args(["run", "--quiet", "--engine", "virtual", "--out"]).arg(&out);
        for course in &COURSES {
            let file = place.path().join(format!("{}.toml", course.folder()));
            fs::write(&file, self.scenario(course)).unwrap();
            command.arg(file);
        }
        check(0, &mut command);
        let variants = if self.undone.is_some() { 3 } else { 2 };
        let runs = COURSES.iter().map(|course| {
            let runs = runs_in(&out.join(course.folder()));
            assert_eq!(runs.len(), variants, "{} over {}", self.port, course.name);
            runs
        });
        runs.collect()
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
            .replace("LINK", course.link)
            .replace("FLOW", course.flow)
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
        for (course, runs) in COURSES.iter().zip(courses).take(COMPARED) {
            let (found, allowed) = (percent_apart(runs), undone.limit_percent);
            if found > allowed {
                faults.push(format!("{}, {}: {found:.2} %, its patch allows {allowed}", self.port, course.name));
            }
        }
        faults
    }

    fn row(&self, courses: &[Runs]) -> String {
        let first = first_difference(courses, PORT).unwrap_or("none: identical".to_owned());
        let apart: Vec<String> = courses[..COMPARED].iter().map(|runs| format!("{:.2}", percent_apart(runs))).collect();
        let undone =
            self.undone.as_ref().map_or("-".to_owned(), |undone| format!("Differs {}", undone.numbers.join(", ")));
        println!("{:15}  {first}", self.port);
        format!("| `{}` | {first} | {} | {undone} |\n", self.port, apart.join(" | "))
    }
}

/// The first difference between a variant's runs and the original's.
fn first_difference(courses: &[Runs], variant: &str) -> Option<String> {
    COURSES.iter().zip(courses).find_map(|(course, runs)| {
        difference(&runs[ORIGINAL], &runs[variant]).map(|found| format!("{}: {found}", course.name))
    })
}

/// RMS difference of the windows, in percent of the mean window.
fn percent_apart(runs: &Runs) -> f64 {
    100.0 * rms(&runs[ORIGINAL], &runs[PORT])
}

fn runs_in(out: &Path) -> Runs {
    let folders = fs::read_dir(out.join("runs")).unwrap().map(|folder| folder.unwrap().path());
    folders.filter_map(|folder| TwinRun::read(&folder)).collect()
}
