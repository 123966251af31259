//! `[[check]]`: verdicts on events in every format, in old results, and in virtual time.

use std::fs;
use std::path::Path;

use tccc::failure::FailureKind;
use tccc::report::{self, CheckVerdict, Report, ReportCheck};

use crate::common::{check, needs, tccc};
use crate::lab::results::{Directory, SCENARIO};
use crate::lab::virtual_time::Bench;
use crate::report::{FORMATS, as_csv, as_json, as_page, as_text, before, load, render};

/// The windows of the made events are at most 50 packets.
const CAP: &str = "[[check]]\nname=\"cap\"\nwhy=\"window_cap\"\nwhat=\"cwnd_pkts\"\nat_most=50\nat={ loss=\"1%\" }\n";
const LAST: &str = "loss-1pct-SACK-2";

/// Three runs of two variants at a loss of 1 %, in a scenario with checks only.
fn directory(checks: &str) -> Directory {
    let directory = Directory::of(&format!("{}{checks}", before(SCENARIO, "[[published]]")));
    directory.add_each(&["1%"], 3, &[("SACK", 6000), ("Other", 10_000)], 0);
    directory
}

fn of<'a>(report: &'a Report, variant: &str) -> &'a ReportCheck {
    report.checks.iter().find(|check| check.at["variant"] == variant).unwrap()
}

/// Replaces text in the events of a run.
fn change(directory: &Directory, run: &str, change: impl FnOnce(&str) -> String) {
    let file = directory.folder(run).join("events.jsonl");
    fs::write(&file, change(&fs::read_to_string(&file).unwrap())).unwrap();
}

#[test]
fn one_run_of_several_breaks_a_check_which_names_run_flow_moment_and_value() {
    let directory = directory(CAP);
    let report = load(&directory);
    assert_eq!((report.checks.len(), report::check(std::slice::from_ref(&report))), (2, None), "{:?}", report.checks);
    let held = of(&report, "SACK");
    assert_eq!((held.verdict, held.reason.as_str()), (CheckVerdict::Holds, "in 3 runs, at 300 moments"));
    change(&directory, LAST, |text| {
        let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
        let at = last.find("\"cwnd_pkts\":").unwrap();
        let end = at + last[at..].find(',').unwrap();
        format!("{head}\n{}\"cwnd_pkts\":99{}\n", &last[..at], &last[end..])
    });
    let report = load(&directory);
    let broken = of(&report, "SACK");
    assert_eq!((broken.verdict, broken.runs, broken.broken_runs), (CheckVerdict::DoesNotHold, 3, 1));
    let first = broken.first.as_ref().unwrap();
    assert_eq!((first.run.as_str(), first.flow.as_str(), first.value.as_deref()), (LAST, "data", Some("99 pkts")));
    // The flow began 0.25 s after the links, and had an event every second.
    assert_eq!(first.time_s, Some(99.25));
    let why = "cwnd_pkts is 99 pkts at 99.250 s, and must be at most 50";
    assert_eq!(broken.reason, format!("in 1 of 3 runs, first in {LAST}, flow data: {why}"));
    assert_eq!(of(&report, "Other").verdict, CheckVerdict::Holds);
    let failure = report::check(std::slice::from_ref(&report)).unwrap();
    assert_eq!(failure.kind, FailureKind::Outside);
    assert!(
        failure.what.starts_with("1 of 2 checks do not hold: cap at loss 1%, variant SACK: in 1 of 3"),
        "{failure}"
    );
    assert_eq!(failure.hint.as_deref(), Some("the check: cwnd_pkts must be at most 50"));
    for format in FORMATS {
        assert!(render(&report, format).contains("at most 50") || format == report::ReportFormat::Csv, "{format}");
    }
    let (_, rows) = as_csv(&report);
    let row = rows.iter().find(|row| row["metric"] == "check: cap" && row["variant"] == "SACK").unwrap();
    assert_eq!([&row["place"], &row["n"], &row["values"], &row["verdict"]], ["loss 1%", "3", "0 1 1", "outside"]);
    assert_eq!(as_json(&report)["checks"][0]["verdict"], "does_not_hold");
    assert!(as_page(&report).contains("<h2 id=\"r0-checks\">Checks</h2>"));
    assert!(as_text(&report).contains("\n  does not hold: cap at loss 1%, variant SACK: "), "{}", as_text(&report));
}

#[test]
fn what_was_not_recorded_is_not_judged_and_fails_the_check_with_the_way_to_record_it() {
    let unrecorded = |checks: &str, runs: fn(&Directory)| {
        let directory = directory(checks);
        runs(&directory);
        let failure = report::check(&[load(&directory)]).unwrap();
        assert_eq!(failure.kind, FailureKind::Outside);
        format!("{}; {}", failure.what, failure.hint.unwrap_or_default())
    };
    let check =
        |what: &str| format!("[[check]]\nname=\"n\"\nwhy=\"w\"\n{what}\nat={{ variant=\"SACK\", loss=\"1%\" }}\n");
    let of = "1 of 1 check could not be judged: n at loss 1%, variant SACK: ";
    assert_eq!(
        unrecorded(&check("what=\"state.bw\"\nat_most=1"), |_| {}),
        format!(
            "{of}the events of \"reno\" have no state.bw in loss-1pct-SACK-0; virtual time records phases and \
             private fields of the algorithms that `tccc list` shows, not those of a file"
        )
    );
    assert_eq!(
        unrecorded(&check("what=\"cwnd_pkts\"\nat_most=50"), |directory| {
            fs::remove_file(directory.folder(LAST).join("events.jsonl")).unwrap();
        }),
        format!(
            "{of}the events of flow \"data\" are missing in {LAST}; remove the run's folder, and `tccc run` on the same \
             directory repeats it"
        )
    );
    let elsewhere = check("what=\"cwnd_pkts\"\nat_most=50").replace("1%", "0.1%");
    assert_eq!(
        unrecorded(&elsewhere, |_| {}),
        "1 of 1 check could not be judged: n at loss 0.1%, variant SACK: there is no finished run; `tccc run` on the same \
         directory measures it"
    );
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let copied = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &copied),
            false => drop(fs::copy(entry.path(), copied).unwrap()),
        }
    }
}

/// Results of an older version lack the start of their flows and the fields of private states.
#[test]
fn checks_of_results_in_the_first_format_are_judged() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("results");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/loss-sweep-schema-1"), &path);
    let scenario = fs::read_to_string(path.join("scenario.toml")).unwrap();
    let only = "at={ algorithm=[\"reno\", \"dtcp\"], loss=\"1%\" }";
    let checks = format!(
        "[[check]]\nname=\"starts\"\nwhy=\"w\"\nwhat=\"cwnd_pkts\"\nat_least=10\nto=\"500ms\"\n{only}\n\
         [[check]]\nname=\"small\"\nwhy=\"w\"\nwhat=\"inflight_pkts\"\nat_most=\"3bdp\"\n{only}\n\
         [[check]]\nname=\"phases\"\nwhy=\"w\"\nwhat=\"phase\"\nis=\"x\"\n{only}\n"
    );
    fs::write(path.join("scenario.toml"), scenario + &checks).unwrap();
    let report = report::load(&path).unwrap();
    let verdicts: Vec<(&str, CheckVerdict)> =
        report.checks.iter().map(|check| (check.name.as_str(), check.verdict)).collect();
    let [holds, open] = [CheckVerdict::Holds, CheckVerdict::NotJudged];
    let expected =
        [("starts", holds), ("starts", holds), ("small", holds), ("small", holds), ("phases", open), ("phases", open)];
    assert_eq!(verdicts, expected, "{:?}", report.checks);
}

/// Reno over 10 Mbit/s: a round trip of 40 ms, a queue of one BDP, so losses end slow start at 67 packets.
fn reno(checks: &str) -> Bench {
    Bench::new(&format!(
        "title=\"Reno\"\nclaim=\"It halves its window.\"\nprofile=\"paper\"\nduration=\"10s\"\nruns=2\nseed=3\nsample=\"1ms\"\n\
         [[link]]\nends=[\"s\",\"r\"]\nrate=\"10mbit\"\ndelay=\"20ms\"\nqueue=\"1bdp\"\n\
         [[flow]]\nname=\"data\"\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"bpf_reno\"\n{checks}"
    ))
}

const HALVED: &str = r#"
[[check]]
name = "The window is halved at a loss"
why = "RFC 5681, section 3.2"
what = "cwnd_pkts"
at_most = "0.5 before"
must = "reach"
each = [{ what = "ca_state", is = "Recovery" }]
until = [{ what = "ca_state", is = "Open" }, { what = "lost_pkts", over = "1round", at_most = 0 }]
from = "2s"
[[check]]
name = "Slow start ends within three rounds of the first loss"
why = "RFC 5681, section 3.1"
what = "ssthresh_pkts"
at_most = "4bdp"
must = "reach"
after = [{ what = "lost_pkts", at_least = 1 }]
within = "3rounds"
[[check]]
name = "The flow fills the link"
why = "the queue holds a BDP"
what = "delivery_rate_bps"
over = "1s"
at_least = "98%"
from = "4s"
[[check]]
name = "No more is sent than the link takes, and the queue"
why = "833 packets per second, and 33 in the queue"
what = "sent_pkts"
over = "1s"
at_most = 880
from = "2s"
[[check]]
name = "The queue is within its size"
why = "queue of 1bdp"
what = "queue_pkts"
at_most = "1bdp"
"#;

#[test]
fn reno_in_virtual_time_halves_its_window_and_fills_the_link() {
    needs!(guest);
    let bench = reno(HALVED);
    let planned = check(0, bench.command("plan", "").arg("--dry-run"));
    let asks = "  The window is halved at a loss: cwnd_pkts must become at most 0.5 before each time that ca_state is Recovery, \
                from 2s on until ca_state is Open and lost_pkts over 1 round is at most 0\n";
    assert!(planned.stdout().contains(asks), "{}", planned.stdout());
    let out = bench.runs("out", "");
    let judged = check(0, tccc().arg("report").arg(&out).args(["--check", "-o", "json"])).json();
    let checks = judged["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 5);
    assert!(checks.iter().all(|check| check["verdict"] == "holds" && check["runs"] == 2), "{judged}");
}

#[test]
fn reno_in_virtual_time_does_not_keep_its_window() {
    needs!(guest);
    let kept = HALVED.replace("at_most = \"0.5 before\"", "at_most = \"0.3 before\"");
    let bench = reno(&kept);
    let out = bench.runs("out", "");
    let failed = check(3, tccc().arg("report").arg(&out).arg("--check"));
    let said = "tccc: error: 1 of 5 checks do not hold: The window is halved at a loss: in all of 2 runs, first in ";
    assert!(failed.stderr().starts_with(said), "{}", failed.stderr());
}
