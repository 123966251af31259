//! Parsers of text: files by people, words on a command line, and output of other programs.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use tccc::lab::traffic::iperf3;
use tccc::model::live::filter::SocketFilter;
use tccc::model::run::Engine;
use tccc::ns2::output;
use tccc::ns2::script::Simulation;
use tccc::path::loss::{LossPositions, LossText};
use tccc::path::rate_trace::{RateText, RateTrace};
use tccc::path::{hold, jitter, reorder};
use tccc::policy::rule::{GuardLimit, Ports};
use tccc::scenario::{Cell, Ns2Spec, Scenario};
use tccc::units::prefix::Prefix;
use tccc::units::{BitsPerSec, Bytes, QueueSize, Share};
use tccc::{catalog, policy, sanitize, serve, units};

use crate::{content, files_below, in_tree, joined, parts, text};

pub fn policies() -> Vec<Vec<u8>> {
    let files = files_below("scenarios/policy", ".toml").into_iter().filter(|file| !file.ends_with("10-site.toml"));
    files.map(content).collect()
}

pub fn read_policy(bytes: &[u8], _scratch: &Path) {
    let text = text(bytes);
    match policy::file::parse("policy.toml", &text) {
        Ok(read) => {
            let written = policy::file::write(&read);
            let again = policy::file::parse("written.toml", &written);
            let again = again.unwrap_or_else(|why| panic!("what tccc wrote is refused: {why}\n{written}"));
            assert_eq!(policy::file::digest(&read), policy::file::digest(&again), "the rules change:\n{written}");
        }
        Err(mistakes) => assert!(!mistakes.to_string().is_empty()),
    }
}

pub fn scenarios() -> Vec<Vec<u8>> {
    let mut files = files_below("scenarios", ".toml");
    files.retain(|file| !file.starts_with(in_tree("scenarios/policy")));
    files.into_iter().map(content).collect()
}

/// Cells of a sweep that are computed.
const CELLS_SHOWN: usize = 4;

pub fn read_scenario(bytes: &[u8], scratch: &Path) {
    let text = text(bytes);
    match Scenario::parse("scenario.toml", &text) {
        Ok(scenario) => assert!(scenario.cells.iter().take(CELLS_SHOWN).all(|cell| !format!("{cell:?}").is_empty())),
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    let file = scratch.join("scenario.toml");
    std::fs::write(&file, bytes).expect("the scratch folder takes a file");
    for engine in [Engine::Kernel, Engine::Ns2, Engine::Virtual] {
        let _ = Scenario::load(&file, engine);
    }
}

/// Inputs in a text that separates them by `|`.
fn split(texts: &str) -> Vec<Vec<u8>> {
    texts.split('|').map(|text| text.as_bytes().to_vec()).collect()
}

pub fn paths() -> Vec<Vec<u8>> {
    split(
        "# a trace\n0\n1\n1\n5\n12\n|3\n17\n18\n|10mbit|trace:lte.trace|cellular:mean=10mbit,seed=1|1%|\
         gilbert:p=1%,r=25%,1-h=100%,1-k=0%|bursts:loss=1%,mean=4|list:1,2,3|file:losses|share=1%,delay=10ms|\
         count=4,time=1ms",
    )
}

pub fn read_path(bytes: &[u8], _scratch: &Path) {
    let text = text(bytes);
    if let Ok(trace) = RateTrace::read("x".to_owned(), &text) {
        let time = Duration::from_millis(u64::from(trace.length_ms) + 1);
        let told = (trace.mean(), trace.longest_gap(), trace.most_within(time), trace.bits_by(time));
        assert!(told.3.is_finite(), "{told:?}");
    }
    let _ = LossPositions::read("x", &text);
    let _ = text.parse::<reorder::Reorder>();
    let _ = text.parse::<hold::Hold>();
    let _ = text.parse::<hold::PacketHold>();
    let _ = text.parse::<jitter::Jitter>();
    if let Ok(loss) = text.parse::<LossText>() {
        let _ = format!("{loss:?}");
    }
    let _ = text.parse::<RateText>();
}

pub fn words() -> Vec<Vec<u8>> {
    split(
        "10mbit|1.5%|100pkts|8MiB|1h 30m|443|8000-8099|10.0.0.0/8|2001:db8::/32|retransmitted<1.2x|abnormal_ends<1%|\
         goodput>0.9x|alpha=4|srtt>50ms goodput>10mbit retrans>2% [::1]:443 algorithm:dtcp|0123456789abcdef|\
         \u{1b}[2J\u{202e}text",
    )
}

pub fn read_words(bytes: &[u8], _scratch: &Path) {
    let text = text(bytes);
    let shown = sanitize::plain(&text);
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    assert!(!sanitize::plain_lines(&text).chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
    let _ = (units::parse_duration(&text), text.parse::<Share>(), text.parse::<QueueSize>(), text.parse::<Bytes>());
    if let Ok(rate) = text.parse::<BitsPerSec>() {
        assert_eq!(rate.exact().parse::<BitsPerSec>().ok(), Some(rate), "\"{text}\" is written as another rate");
    }
    if let Ok(prefix) = text.parse::<Prefix>() {
        assert_eq!(prefix.to_string().parse::<Prefix>().ok(), Some(prefix), "\"{text}\"");
    }
    if let Ok(ports) = text.parse::<Ports>() {
        assert_eq!(ports.to_string().parse::<Ports>().ok(), Some(ports), "\"{text}\"");
    }
    if let Ok(limit) = text.parse::<GuardLimit>() {
        assert_eq!(limit.to_string().parse::<GuardLimit>().ok(), Some(limit), "\"{text}\"");
    }
    if let Err(refusal) = SocketFilter::parse(&text) {
        let _ = format!("{refusal:?}");
    }
    let _ = (serve::AccessToken::parse(&text), catalog::check_name(&text), catalog::find(&text));
    for algorithm in catalog::all().iter().take(3) {
        let _ = algorithm.settings(&[&*text]);
    }
}

/// A scenario that names ns-2's agents, with its first cell.
fn simulated() -> &'static (Scenario, Cell, Ns2Spec) {
    static SIMULATED: OnceLock<(Scenario, Cell, Ns2Spec)> = OnceLock::new();
    SIMULATED.get_or_init(|| {
        let text = content(in_tree("scenarios/adaptive-2019/figure-10.toml"));
        let scenario = Scenario::parse("figure-10.toml", &self::text(&text)).expect("a scenario of the tree is read");
        let scenario = scenario.simulated().expect("it can be simulated");
        let (cell, spec) = (scenario.cells[0].clone(), scenario.ns2.clone().expect("it names ns-2's agents"));
        (scenario, cell, spec)
    })
}

pub fn simulations() -> Vec<Vec<u8>> {
    let flows = 0..simulated().1.flows.len();
    let lines = flows.map(|flow| {
        let state = |time: u32| format!("flow {flow} {time}.5 10.5 20 {time}7 {time}9 {time}8 1 80 10 0.1\n");
        [state(1), state(2), state(3), format!("datagrams {flow} 100 2 3.5\n")].concat()
    });
    let links = "link 0 100 2 1 50000\nqueue 0 100 2 1 50000\n";
    let whole = format!("{}{links}end\n", lines.collect::<String>());
    vec![whole.into_bytes(), b"end\n".to_vec()]
}

pub fn read_simulation(bytes: &[u8], _scratch: &Path) {
    let (scenario, cell, spec) = simulated();
    let profile = scenario.profile;
    let simulation = Simulation { cell, spec, profile, sample: Duration::from_millis(100), seed: 1 };
    let _ = output::read(&simulation, &text(bytes));
}

pub fn iperf3() -> Vec<Vec<u8>> {
    let sender = r#"{"start": {"tcp_mss_default": 1460}, "end": {"sender_tcp_congestion": "reno", "streams": [
        {"sender": {"seconds": 2.0, "bytes": 100, "retransmits": 3}, "receiver": {"seconds": 2.0, "bytes": 99}}]}}"#;
    let receiver = r#"{"intervals": [{"sum": {"end": 1.001, "bytes": 40}}, {"sum": {"end": 2.003, "bytes": 50}},
        {"sum": {"end": 2.6, "bytes": 9}}]}"#;
    let error = "warning: old\n{\"error\": \"busy\"}\n";
    vec![joined([sender, receiver].map(Into::into)), joined([error, receiver].map(Into::into))]
}

pub fn read_iperf3(bytes: &[u8], _scratch: &Path) {
    let mut files = parts(bytes).map(|part| text(part).into_owned());
    let outputs = [files.next().unwrap_or_default(), files.next().unwrap_or_default()];
    let _ = iperf3::report(&outputs, "reno", Duration::from_secs(2));
}
