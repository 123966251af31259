//! Draws, means, traces, and refused texts.

use statrs::distribution::{ContinuousCDF, Exp, LogNormal};

use super::*;
use shared::units::Bytes;

fn drawn(mean_ms: u64, sizes: &str, stream: Option<u32>) -> Load {
    let starts = Starts::Poisson { mean: Duration::from_millis(mean_ms), stream };
    Load::Drawn { starts, sizes: sizes.parse().unwrap() }
}

const HOUR: Duration = Duration::from_secs(3600);
const LOGNORMAL: &str = "lognormal:median=20kB,sigma=1.5";
const PARETO: &str = "pareto:shape=1.2,least=2kB,most=10MB";

/// The largest distance between the distribution of a sample and a distribution function. Above 1.95 / sqrt(n) with a
/// probability of 0.1 %.
///
/// Source: A. Kolmogorov, 1933; N. Smirnov, 1948.
fn distance(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let apart = |(index, value): (usize, &f64)| {
        let expected = cdf(*value);
        (expected - index as f64 / n).abs().max((expected - (index + 1) as f64 / n).abs())
    };
    sample.iter().enumerate().map(apart).fold(0.0, f64::max)
}

#[test]
fn draws_have_the_distributions_that_their_models_name() {
    let transfers = drawn(50, LOGNORMAL, None).transfers(HOUR, 0, 7);
    let limit = 1.95 / (transfers.len() as f64).sqrt();
    assert!((70_000..74_000).contains(&transfers.len()), "{}", transfers.len());
    let gaps = transfers.windows(2).map(|pair| (pair[1].start_ns - pair[0].start_ns) as f64 / 1e9).collect();
    let exponential = Exp::new(20.0).unwrap();
    assert!(distance(gaps, |gap| exponential.cdf(gap)) < limit);
    let sizes = |transfers: &[PlannedTransfer]| transfers.iter().map(|one| one.bytes as f64).collect::<Vec<_>>();
    let lognormal = LogNormal::new(20_000f64.ln(), 1.5).unwrap();
    assert!(distance(sizes(&transfers), |size| lognormal.cdf(size)) < limit);
    let transfers = drawn(50, PARETO, None).transfers(HOUR, 0, 7);
    // Sizes are whole bytes, so the step is at half a byte.
    let inside = 1.0 - (2e3_f64 / 1e7).powf(1.2);
    let pareto = |size: f64| (1.0 - (2e3 / (size + 0.5).max(2e3)).powf(1.2)) / inside;
    assert!(distance(sizes(&transfers), pareto) < limit + 1e-3);
    assert!(transfers.iter().all(|one| (2_000..=10_000_000).contains(&one.bytes)));
}

#[test]
fn means_are_those_of_the_models() {
    let close = |text: &str, expected: f64| {
        let mean = text.parse::<Sizes>().unwrap().mean();
        assert!((mean / expected - 1.0).abs() < 1e-9, "{text}: {mean}, not {expected}");
    };
    close("20kB", 20e3);
    close("lognormal:median=10kB,sigma=1", 10e3 * 0.5f64.exp());
    close("pareto:shape=1,least=1kB,most=10kB", 1e3 * 10f64.ln() / 0.9);
    close("pareto:shape=2,least=1kB,most=10kB", 2.0 * 1e3 * 0.9 / 0.99);
    let sizes: Sizes = PARETO.parse().unwrap();
    let transfers = drawn(10, PARETO, None).transfers(HOUR, 3, 9);
    let mean = transfers.iter().map(|one| one.bytes as f64).sum::<f64>() / transfers.len() as f64;
    assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{mean} and {}", sizes.mean());
    let bps = drawn(20, "10kB", None).mean_bps(HOUR).unwrap();
    assert!((bps - 4e6).abs() < 1e-3, "{bps}");
}

/// These numbers must never change: published results are repeated with their seeds.
#[test]
fn draws_are_the_same_on_every_machine_and_in_every_version() {
    let first = |load: &Load| load.transfers(HOUR, 0, 1)[..4].iter().map(|one| (one.start_ns, one.bytes)).collect();
    let all: [Vec<(u64, u64)>; 2] = [LOGNORMAL, PARETO].map(|sizes| first(&drawn(50, sizes, None)));
    assert_eq!(format!("{all:?}"), FIRST);
}

const FIRST: &str = "[[(0, 15846), (336197704, 5471), (410476129, 14538), (455045193, 8315)], \
                     [(0, 2405), (336197704, 5651), (410476129, 3436), (455045193, 3007)]]";

#[test]
fn each_flow_and_seed_draws_its_own_unless_flows_share_a_stream() {
    let plain = drawn(50, LOGNORMAL, None);
    let of = |flow, seed| plain.transfers(HOUR, flow, seed);
    assert_eq!(of(0, 1), of(0, 1));
    assert!(of(0, 1)[1] != of(1, 1)[1] && of(0, 1)[1] != of(0, 2)[1]);
    let shared = drawn(50, LOGNORMAL, Some(1));
    assert_eq!(shared.transfers(HOUR, 0, 1), shared.transfers(HOUR, 1, 1));
    assert_ne!(shared.transfers(HOUR, 0, 1), of(1, 1), "a number is not that of a flow");
    assert_ne!(shared.transfers(HOUR, 0, 1), shared.transfers(HOUR, 0, 2), "repeats differ");
    let starts =
        |sizes| drawn(50, sizes, None).transfers(HOUR, 0, 1).iter().map(|one| one.start_ns).collect::<Vec<_>>();
    assert_eq!(starts(LOGNORMAL), starts(PARETO), "other sizes start alike");
    let short = plain.transfers(Duration::from_secs(9), 0, 1);
    assert_eq!(short, of(0, 1)[..short.len()], "a shorter flow has the first of the same");
}

#[test]
fn regular_starts_may_have_drawn_sizes() {
    let starts = Starts::Regular { count: 3, interval: Duration::from_secs(1) };
    let load = Load::Drawn { starts, sizes: LOGNORMAL.parse().unwrap() };
    let drawn: Vec<u64> = load.transfers(HOUR, 0, 1).iter().map(|one| one.start_ns).collect();
    assert_eq!((drawn, load.expected(HOUR)), (vec![0, 1_000_000_000, 2_000_000_000], 3));
    let alike: Vec<u64> =
        alike(9, Duration::from_secs(1), 5, Duration::from_secs(2)).iter().map(|one| one.start_ns).collect();
    assert_eq!(alike, [0, 1_000_000_000]);
}

#[test]
fn trace_is_read_or_refused_with_its_line() {
    let trace = TransferTrace::read("web.txt", "# a comment\n0 1000\n\n0.25\t20000\n0.25  5\r\n3 7\n").unwrap();
    let told: Vec<(u64, u64)> =
        trace.within(Duration::from_secs(3)).iter().map(|one| (one.start_ns, one.bytes)).collect();
    assert_eq!(told, [(0, 1000), (250_000_000, 20_000), (250_000_000, 5)]);
    assert_eq!((trace.count, trace.name.as_str()), (4, "trace:web.txt"));
    let load = Load::Trace(trace);
    assert_eq!((load.largest(), load.expected(HOUR)), (20_000, 4));
    let read: Load = serde_json::from_str(&serde_json::to_string(&load).unwrap()).unwrap();
    assert_eq!(read, load, "a plan has the digest instead of the lines");
    for (text, expected) in [
        ("", "expected at least one transfer, such as 0.25 20000"),
        ("1 5\n0.5 5", "line 2: \"0.5 5\": expected starts in order"),
        ("1", "line 1: \"1\": expected seconds"),
        ("1 0", "line 1: \"1 0\": expected seconds"),
        ("-1 5", "line 1: \"-1 5\": expected seconds"),
        ("1e3 5", "line 1: \"1e3 5\": expected seconds"),
        ("86401 5", "line 1: \"86401 5\": expected seconds from 0 to 86400 and bytes from 1 to 1000000000000"),
        ("1 5 9", "line 1: \"1 5 9\": expected seconds"),
        ("1,5", "line 1: \"1,5\": expected seconds"),
        ("NaN 5", "line 1: \"NaN 5\": expected seconds"),
        ("1 5kB", "line 1: \"1 5kB\": expected seconds"),
    ] {
        let why = TransferTrace::read("x", text).unwrap_err();
        assert!(why.starts_with(expected), "{text:?}: {why}");
    }
}

#[test]
fn models_are_read_printed_and_refused_by_name() {
    assert_eq!(LOGNORMAL.parse::<Sizes>().unwrap().to_string(), "lognormal:median=20000B,sigma=1.5");
    assert_eq!(PARETO.parse::<Sizes>().unwrap().to_string(), "pareto:shape=1.2,least=2000B,most=10000000B");
    assert_eq!("20kB".parse(), Ok(Sizes::Fixed(Bytes(20_000))));
    let poisson = |text: &str| match text.parse::<Arrivals>().unwrap() {
        Arrivals::Poisson(poisson) => poisson,
        Arrivals::File(file) => panic!("{file}"),
    };
    assert_eq!(poisson("poisson:mean=50ms").rate, StartRate::Mean(Duration::from_millis(50)));
    assert_eq!(poisson("poisson: load=110%, stream=4"), Poisson { rate: StartRate::Load(1.1), stream: Some(4) });
    assert_eq!("trace:a.txt".parse(), Ok(Arrivals::File("a.txt".into())));
    let refused = |text: &str| text.parse::<Arrivals>().unwrap_err().expected;
    for (text, expected) in [
        ("", "expected poisson:mean=50ms, poisson:load=60% or trace:FILE"),
        ("poisson", "expected poisson:mean=50ms, poisson:load=60% or trace:FILE"),
        ("trace:", "expected poisson:mean=50ms, poisson:load=60% or trace:FILE"),
        ("poison:mean=5ms", "expected poisson:mean=50ms, poisson:load=60% or trace:FILE"),
        ("poisson:50ms", "\"50ms\": expected name=value"),
        ("poisson:stream=1", "mean or load is missing, such as mean=50ms or load=60%"),
        ("poisson:mean=5ms,load=5%", "expected either mean or load"),
        ("poisson:mean=0s", "mean = \"0s\": expected more than 0us"),
        ("poisson:mean=5", "mean = \"5\": expected a time"),
        ("poisson:load=0%", "load = \"0%\": expected 0.1% to 1000%"),
        ("poisson:load=0.6", "load = \"0.6\": expected 0.1% to 1000%"),
        ("poisson:load=NaN%", "load = \"NaN%\": expected 0.1% to 1000%"),
        ("poisson:load=-5%", "load = \"-5%\": expected 0.1% to 1000%"),
        ("poisson:mean=5ms,stream=-1", "stream = \"-1\": expected a whole number"),
        ("poisson:mean=5ms,seed=1", "\"seed\": expected one of mean, load, stream"),
    ] {
        let why = refused(text);
        assert!(why.starts_with(expected), "{text}: {why}");
    }
    let refused = |text: &str| text.parse::<Sizes>().unwrap_err().expected;
    for (text, expected) in [
        ("5", "expected a number with B, kB"),
        ("normal:mean=5kB", "expected a number with B, kB"),
        ("lognormal:sigma=1", "median is missing, such as median=20kB"),
        ("lognormal:median=5kB", "sigma is missing, such as sigma=1.5"),
        ("lognormal:median=0B,sigma=1", "median = \"0B\": expected 1B to 1000000000000B"),
        ("lognormal:median=5kB,sigma=0", "sigma = \"0\": expected a number from 0.01 to 4"),
        ("lognormal:median=5kB,sigma=NaN", "sigma = \"NaN\": expected a number from 0.01 to 4"),
        ("lognormal:median=5kB,sigma=9", "sigma = \"9\": expected a number from 0.01 to 4"),
        ("pareto:shape=1.2,least=2kB", "most is missing, such as most=10MB"),
        ("pareto:shape=0,least=2kB,most=9kB", "shape = \"0\": expected a number from 0.1 to 10"),
        ("pareto:shape=1.2,least=9kB,most=9kB", "most = \"9000B\": expected more than least, 9000B"),
        ("pareto:shape=1.2,least=2kB,most=9TB", "most = \"9TB\": expected a number with B"),
        ("pareto:shape=1.2,shape=2,least=2kB,most=9kB", "shape occurs twice"),
    ] {
        let why = refused(text);
        assert!(why.starts_with(expected), "{text}: {why}");
    }
}
