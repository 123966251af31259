//! Variants that leave flows out, in virtual time.

use std::fs;
use std::path::Path;

use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::Bench;
use crate::scene::{flow, link};

/// Pages, a download and datagrams over one link. `host_delay` is fixed, because it depends on the number of flows.
fn scenario(flows: &[&str], rest: &str) -> String {
    let head = "title = \"x\"\nclaim = \"y\"\nprofile = \"native\"\nkernel = \"6.12\"\nduration = \"5s\"\nruns = 2\nseed = 7\n\
                virtual = { host_delay = \"0s\" }\n";
    let ends = ["s", "r"];
    let all = [
        ("page", "algorithm = \"cubic\"\nsize = \"100kB\"\ncount = 8\ninterval = \"500ms\""),
        ("download", "algorithm = \"cubic\""),
        ("noise", "protocol = \"udp\"\nrate = \"1mbit\""),
    ];
    let flows = all.iter().filter(|(name, _)| flows.contains(name)).map(|(name, fields)| flow(name, ends, fields));
    let path = link(ends, "rate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"60pkts\"\nloss = \"0.1%\"\njitter = \"1ms\"");
    format!("{head}{path}{}{rest}", flows.collect::<String>())
}

/// The events of the runs whose id contains this, in order.
fn events(out: &Path, part: &str) -> Vec<Vec<u8>> {
    let mut runs: Vec<_> = fs::read_dir(out.join("runs")).unwrap().map(|run| run.unwrap().path()).collect();
    runs.retain(|run| run.file_name().unwrap().to_str().unwrap().contains(part));
    runs.sort();
    runs.iter().map(|run| fs::read(run.join("events.jsonl")).unwrap()).collect()
}

#[test]
fn flow_runs_without_another_as_if_that_were_not_in_the_file() {
    needs!(guest);
    const ALL: [&str; 3] = ["page", "download", "noise"];
    let variants = "[variant]\nwith = {}\nwithout = { without = [\"download\", \"noise\"] }\n\
                    [report]\nbaseline = \"without\"\nmetrics = [\"fct_mean_s\", \"friendliness_ratio\"]\n";
    let bench = Bench::new(&scenario(&ALL, variants));
    let out = bench.runs("out", "");
    let [with, without] = ["-with", "-without"].map(|variant| events(&out, variant));
    let with: Vec<_> = with.into_iter().filter(|it| !without.contains(it)).collect();
    assert_eq!((with.len(), without.len()), (2, 2));
    bench.write("x.toml", &scenario(&ALL, ""));
    assert!(events(&bench.runs("all", ""), "") == with, "the same events to the byte");
    bench.write("x.toml", &scenario(&ALL[..1], ""));
    assert!(events(&bench.runs("alone", ""), "") == without, "the same events to the byte");
    let report = check(0, tccc().arg("report").arg(&out)).stdout();
    let row = |variant: &str| report.lines().find(|line| line.trim_start().starts_with(variant)).map(str::to_owned);
    let (with, without) = (row("with "), row("without"));
    assert!(with.is_some() && without.is_some(), "{report}");
    for format in ["csv", "json", "html", "markdown"] {
        check(0, tccc().arg("report").arg(&out).args(["-o", format])).stdout_has("without");
    }
}

#[test]
fn dry_run_shows_the_flows_that_each_variant_runs() {
    let variants = "[variant]\nquiet = { without = [\"noise\"] }\nsolo = { without = [\"download\"] }\n";
    let bench = Bench::new(&scenario(&["page", "download", "noise"], variants));
    let plan = check(0, bench.command("out", "").arg("--dry-run")).stdout();
    let flows = |variant: &str| {
        let line = plan.lines().find(|line| line.contains(&format!("variant = {variant},"))).unwrap();
        ["page", "download", "noise"].map(|flow| line.contains(&format!("{flow} by")))
    };
    assert_eq!(flows("quiet"), [true, true, false], "{plan}");
    assert_eq!(flows("solo"), [true, false, true], "{plan}");
}
