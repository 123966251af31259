//! Hostile and large result directories.

use std::fs;

use tccc::trace::event::Event;

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::{FORMATS, as_page, load, render};

#[test]
fn html_is_self_contained_and_escapes_what_comes_from_files() {
    let hostile = SCENARIO
        .replace("Packets delivered", "<script>alert(1)</script> & 'Packets' delivered")
        .replace("Table 2", "<img src=x>")
        .replace("Other", "\"<b>Other\"");
    let directory = Directory::of(&hostile);
    directory.add(&run("1%", "SACK", 0, 5000));
    directory.add(&run("1%", "<b>Other", 0, 7500));
    let page = as_page(&load(&directory));
    let loading = ["<script", "<link", "src=\"", "url(", "@import", "http:", "https:", "javascript:", " onclick"];
    for markup in loading.into_iter().chain(["<img", "<b>Other"]) {
        let found = page.replace("http://www.w3.org/2000/svg", "").contains(markup);
        assert!(!found, "{markup} is in the page");
    }
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;Packets&#39;"));
    assert!(page.contains("&lt;b&gt;Other"));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for part in ["prefers-color-scheme: dark", "scope=\"col\"", "<caption>"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn extreme_numbers_in_records_and_events_break_no_format() {
    let directory = Directory::of(SCENARIO);
    for repeat in 0..5 {
        directory.add(&run("1%", "SACK", repeat, 0));
        let mut record = run("1%", "Other", repeat, 9000);
        directory.add(&record);
        let folder = directory.folder(&format!("loss-1pct-Other-{repeat}"));
        record.flows[0].goodput_bps = f64::MAX;
        record.flows[0].delivered_pkts = u64::MAX;
        record.duration_s = f64::MIN_POSITIVE;
        fs::write(folder.join("run.json"), serde_json::to_string(&record).unwrap()).unwrap();
        let file = folder.join("events.jsonl");
        let text = fs::read_to_string(&file).unwrap();
        let mut event: Event = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (event.time_ns, event.cwnd_pkts, event.srtt_us) = (u64::MAX, u32::MAX, Some(u32::MAX));
        fs::write(&file, format!("{text}{}\n", serde_json::to_string(&event).unwrap())).unwrap();
    }
    let report = load(&directory);
    let left_out = |notice: &tccc::model::notice::Notice| notice.cause.starts_with("1 unreadable line in the events");
    assert_eq!(report.notices.iter().filter(|notice| left_out(notice)).count(), 5, "{:?}", report.notices);
    for format in FORMATS {
        let text = render(&report, format);
        assert!(text.contains("Other") && !text.contains("NaN"), "{format:?}: {text}");
    }
}

#[test]
fn page_of_200_runs_stays_small() {
    let directory = Directory::of(SCENARIO);
    directory.add_each(&["0", "0.1%", "1%"], 34, &[("SACK", 9000), ("Other", 9000)], 10);
    let report = load(&directory);
    assert_eq!(report.cells.iter().filter_map(|cell| cell.measured.as_ref()).map(|one| one.n).min(), Some(34));
    let page = as_page(&report);
    assert!(page.len() < 500_000, "{} bytes", page.len());
}
