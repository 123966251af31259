//! Requests before responses, in virtual time.

use serde_json::Value;

use crate::common::{check, needs, tccc};
use crate::lab::virtual_time::{Bench, record};
use crate::scene::{flow, link};

/// A flow over 20 Mbit/s and a round trip of 20 ms, whose start is exact.
fn scenario(fields: &str, path: &str) -> String {
    let head = "title = 'x'\nclaim = 'y'\nprofile = 'native'\nkernel = '6.12'\nduration = '5s'\nruns = 1\nseed = 3\n\
                virtual = { start_spread = '0s', host_delay = '0s' }\n\n";
    let path = link(["a", "b"], &format!("rate = '20mbit'\ndelay = '10ms'\nqueue = '100pkts'\n{path}"));
    format!("{head}{path}{}", flow("web", ["a", "b"], &format!("algorithm = 'cubic'\n{fields}")))
}

/// Start and completion time of each transfer in milliseconds, and whether it is done.
fn completions(fields: &str, path: &str) -> Vec<(f64, f64, bool)> {
    let bench = Bench::new(&scenario(fields, path));
    let record = record(&bench.runs("out", ""));
    let one = |one: &Value| {
        let ms = |name: &str| one[name].as_f64().unwrap() * 1e3;
        (ms("start_s"), ms("took_s"), one["done"].as_bool().unwrap())
    };
    record["flows"][0]["completions"].as_array().unwrap().iter().map(one).collect()
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 0.5
}

/// The request and the first byte of the response take a round trip, and ten kilobytes 4.2 ms.
#[test]
fn completion_counts_from_the_request() {
    needs!(guest);
    let size = "size = '10kB'\ncount = 3\ninterval = '1s'";
    let [plain, asked] = [size.to_owned(), format!("{size}\nrequest = '300B'")].map(|fields| completions(&fields, ""));
    for (number, (plain, asked)) in plain.iter().zip(&asked).enumerate() {
        let start_ms = 1e3 * number as f64;
        assert!(near(plain.0, start_ms) && near(plain.1, 34.2) && plain.2, "{plain:?}");
        assert!(near(asked.0, start_ms + 30.0) && near(asked.1, 24.3) && asked.2, "{asked:?}");
    }
    // At 1 Mbit/s the way back takes 130 ms for sixteen kilobytes and their headers.
    let large = completions("size = '10kB'\nrequest = '16kB'", "reverse = { rate = '1mbit' }");
    assert!((150.0..175.0).contains(&large[0].1), "{large:?}");
}

#[test]
fn request_over_an_open_connection_waits_for_the_response_before_it() {
    needs!(guest);
    let fields = |size: &str, interval: &str| {
        format!("size = '{size}'\ncount = 3\ninterval = '{interval}'\nkeep_alive = 1\nrequest = '300B'")
    };
    for (number, one) in completions(&fields("10kB", "1s"), "").iter().enumerate() {
        assert!(near(one.0, 30.1 + 1e3 * number as f64) && near(one.1, 24.3) && one.2, "{one:?}");
    }
    let busy = completions(&fields("1MB", "10ms"), "");
    assert_eq!(busy.len(), 3);
    for pair in busy.windows(2) {
        assert!(near(pair[1].0, pair[0].0 + pair[0].1) && pair[1].1 > 400.0, "{busy:?}");
    }
    // 10 MB take four seconds, so the second is not done, and the third is not asked for.
    let late = completions(&fields("10MB", "10ms"), "");
    assert!(late.len() == 2 && late[0].2 && !late[1].2 && near(late[1].0 + late[1].1, 5_000.0), "{late:?}");
}

/// The sender waits for its retransmission, so the completion has the timeout in it.
#[test]
fn lost_request_is_retransmitted_before_the_response() {
    needs!(guest);
    let lost = completions("size = '10kB'\nrequest = '300B'", "reverse = { loss = [2] }");
    assert!(lost[0].2 && near(lost[0].0, 30.1) && (200.0..300.0).contains(&lost[0].1), "{lost:?}");
    let never = completions("size = '10kB'\nrequest = '300B'", "loss = [1, 2, 3, 4, 5, 6, 7, 8, 9]");
    assert_eq!(never, [(0.0, 5e3, false)], "it counts from the start of its connection");
}

#[test]
fn load_asks_for_each_of_its_transfers() {
    needs!(guest);
    let load = "size = 'lognormal:median=20kB,sigma=1'\narrivals = 'poisson:mean=50ms'\nduration = '4s'";
    let [plain, asked] = [load.to_owned(), format!("{load}\nrequest = '1kB'")].map(|fields| completions(&fields, ""));
    assert!(plain.len() == asked.len() && plain.len() > 50 && asked.iter().all(|one| one.2), "{asked:?}");
    assert!(asked.is_sorted_by_key(|one| one.0 as u64) && asked.iter().all(|one| one.1 > 20.0), "{asked:?}");
}

#[test]
fn other_engines_send_requests_or_refuse_them() {
    let bench =
        Bench::new(&(scenario("size = '9kB'\nrequest = '300B'", "") + "[ns2]\nagents = { cubic = 'TCP/Linux' }\n"));
    let dry_run = |code: i32, engine: &str| {
        let mut command = tccc();
        command.args(["run", "--engine", engine, "--dry-run"]).arg(bench.folder.path().join("x.toml"));
        check(code, &mut command)
    };
    dry_run(2, "ns2").stderr_has("cannot simulate the flow \"web\": ns-2 sends no requests here");
    dry_run(0, "kernel").stdout_has("web by cubic (9000B, each after a request of 300B)");
}
