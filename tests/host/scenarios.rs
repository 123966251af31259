//! The scenarios in the tree: each can be read and planned and names its source. The reference's examples are scenarios.

use std::fs;
use std::path::{Path, PathBuf};

use tccc::catalog;
use tccc::lab::plan::{Choices, Plan};
use tccc::model::run::Engine;
use tccc::model::series::SERIES;
use tccc::scenario::{Cell, Scenario};

/// Kernel algorithms that scenarios may name. The run reports those that the host lacks.
const OF_THE_KERNEL: [&str; 10] =
    ["reno", "cubic", "bbr", "vegas", "scalable", "highspeed", "hybla", "veno", "illinois", "dctcp"];
/// The folder of policies.
const POLICIES: &str = "policy";
/// Folders of scenarios without a paper.
const OURS: [&str; 3] = ["smoke", "compare", "evaluate"];
const REFERENCE: &str = include_str!("../../scenarios/REFERENCE.md");

fn scenarios() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.is_dir() && !path.ends_with(POLICIES));
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    files
}

#[test]
fn every_scenario_reads_plans_and_names_its_source() {
    let files = scenarios();
    assert!(files.len() > 30, "{} scenarios", files.len());
    for file in files {
        let place = file.display();
        let scenario = Scenario::load(&file, Engine::Kernel).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        let plan = Plan::new(&scenario, &Choices::default()).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert!(!plan.runs.is_empty() && scenario.claim.ends_with('.'), "{place}: {}", scenario.claim);
        for flow in plan.cells.iter().flat_map(|cell| &cell.flows).filter(|flow| flow.is_tcp()) {
            let id = flow.algorithm.as_str();
            if OF_THE_KERNEL.contains(&id) {
                continue;
            }
            let algorithm = catalog::find(id).unwrap_or_else(|error| panic!("{place}: {error}"));
            let settings: Vec<String> = flow.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            algorithm.settings(&settings).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
        let folder = file.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        if !OURS.contains(&folder.as_str()) {
            let source = scenario.source.as_ref().unwrap_or_else(|| panic!("{place}: no [source]"));
            assert!(!source.paper.is_empty() && !source.r#where.is_empty(), "{place}");
        }
    }
}

/// After a mistake, a second pass looks for others. It must not refuse what the reader accepts.
#[test]
fn one_mistake_in_a_scenario_of_the_tree_is_reported_alone() {
    const WRONG: &str = "[[figure]]\ntitle = \"t\"\nx = \"time\"\ny = \"nothing\"\n";
    for file in scenarios() {
        let text = fs::read_to_string(&file).unwrap() + WRONG;
        let mistakes = Scenario::parse(file.to_str().unwrap(), &text).unwrap_err().mistakes;
        let fields: Vec<&str> = mistakes.iter().map(|mistake| mistake.field.as_str()).collect();
        assert_eq!(fields, ["figure.y"], "{mistakes:#?}");
    }
}

#[test]
fn scenarios_of_every_algorithm_have_every_algorithm() {
    // Those that need a newer kernel than the scenarios' have scenarios of their own.
    let all = catalog::all().iter().filter(|algorithm| algorithm.need.is_none());
    let all = all.map(|algorithm| algorithm.id.clone()).collect::<Vec<String>>();
    let mut claim_it = 0;
    for file in scenarios() {
        let scenario = Scenario::load(&file, Engine::Kernel).unwrap();
        if scenario.title.contains("every algorithm") {
            let swept = scenario.values_of("algorithm");
            let missing: Vec<&String> = all.iter().filter(|id| !swept.contains(id)).collect();
            assert!(missing.is_empty(), "{}: without {missing:?}", file.display());
            claim_it += 1;
        }
    }
    assert_eq!(claim_it, 2, "one over a cellular link, one with random loss");
}

/// The TOML blocks of the reference under a heading; "" for the text before the first.
fn shown(heading: &str) -> Vec<String> {
    let section = REFERENCE.split("\n## ").find(|section| match heading {
        "" => section.starts_with("# "),
        _ => section.starts_with(heading),
    });
    let section = section.unwrap_or_else(|| panic!("no heading \"{heading}\""));
    section.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn examples_of_the_reference_are_scenarios() {
    let read = |text: &str| Scenario::parse("reference.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let whole = &shown("")[0];
    assert_eq!(read(whole).cells.len(), 4);
    let head = whole[..whole.find("[[link]]").unwrap()].replace("10s", "20s");
    let head = head.replace("loss = [\"0%\", \"1%\"]\n", "");
    let shapes = &shown("Topologies")[0];
    let (dumbbell, parking_lot) = shapes.split_at(shapes.find("[parking_lot]").unwrap());
    let flows = &shown("Flows")[0];
    let cell = &read(&format!("{head}{dumbbell}{flows}")).cells[0];
    assert_eq!((cell.links.len(), cell.flows.len()), (5, 5));
    let long = "[[flow]]\nname = \"long\"\nfrom = \"s0\"\nto = \"r0\"\nalgorithm = \"$algorithm\"\n";
    assert_eq!(read(&format!("{head}{parking_lot}{long}")).cells[0].links.len(), 8);
    let link = "[[link]]\nends = [\"s\", \"r\"]\n\n";
    let head = head[..head.find("[sweep]").unwrap()].to_owned() + link;
    let beside = read(&(head + &shown("Variants")[1]));
    assert_eq!(beside.unmeasurable(), []);
    let compared =
        |cell: &Cell| cell.flows.iter().map(|flow| (flow.algorithm.clone(), flow.compared)).collect::<Vec<_>>();
    assert_eq!(compared(&beside.cells[1]), [("dtcp".to_owned(), false), ("cubic".to_owned(), true)]);
}

/// The test of `tccc run --explain` compares the metrics.
#[test]
fn reference_names_every_series() {
    let names = SERIES.iter().map(|series| series.name);
    let missing: Vec<&str> = names.filter(|name| !REFERENCE.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
