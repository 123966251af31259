//! Queue disciplines of the kernel on links of virtual time.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::common::{check, needs, stderr, tccc};
use crate::lab::overload::{ARRIVALS, DELAY, DROPS, INTERVAL, QUEUE_PKTS, RATE_MBIT};
use crate::lab::virtual_time::{Bench, record};
use tccc::model::queue::QueueSample;

/// Flows of CUBIC over one link of 20 Mbit/s and 40 ms, with a queue of this discipline.
fn scenario(flows: usize, queue: &str, discipline: &str) -> String {
    let discipline = match discipline {
        "" => String::new(),
        words => format!("discipline = \"{words}\"\n"),
    };
    let queue = if discipline.contains("cake") { String::new() } else { format!("queue = \"{queue}\"\n") };
    let flow = |number: usize| {
        format!("[[flow]]\nname = \"f{number}\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"cubic\"\necn = 1\n\n")
    };
    format!(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"native\"\nkernel = \"6.12\"\nduration = \"20s\"\nruns = 1\nseed = 3\nsample = \"10ms\"\n\n\
         [[link]]\nends = [\"s\", \"r\"]\nrate = \"20mbit\"\ndelay = \"20ms\"\n{queue}{discipline}\n{}",
        (0..flows).map(flow).collect::<String>()
    )
}

fn run_of(out: &Path) -> std::path::PathBuf {
    fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path()
}

fn samples(out: &Path) -> Vec<QueueSample> {
    let lines = fs::read_to_string(run_of(out).join("queues.jsonl")).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|it: &QueueSample| it.from == "s").collect()
}

fn counters(out: &Path) -> Value {
    record(out)["links"][0]["counters"][0].clone()
}

/// The kernel's own drop tail decides when a packet leaves, ours when it arrives.
#[test]
fn pfifo_makes_the_run_of_the_drop_tail_queue() {
    needs!(guest);
    let copied = |text: String| text.replace("rate =", "duplicate = \"20%\"\nrate =");
    for (flows, change) in [(1, None), (4, None), (4, Some(copied))] {
        let written = |discipline: &str| {
            let text = scenario(flows, "60pkts", discipline);
            change.map_or(text.clone(), |change| change(text))
        };
        let bench = Bench::new(&written(""));
        let plain = bench.runs("plain", "");
        bench.write("x.toml", &written("pfifo"));
        let child = bench.runs("child", "");
        let [mut own, mut kernels] = [&plain, &child].map(|out| counters(out));
        // Ours counts a wait when the packet arrives, so also of those that wait at the end.
        let [own_wait, wait] = [&mut own, &mut kernels].map(|counters| counters["wait_us"].take());
        for name in ["mean", "p50", "p95", "p99", "max"] {
            let [own, kernels] = [&own_wait, &wait].map(|wait| wait[name].as_f64().unwrap());
            assert!((own / kernels - 1.0).abs() < 0.02, "{flows} flows: {name} {own} {kernels}");
        }
        assert_eq!(kernels, own, "{flows} flows");
        assert!(counters(&plain)["overflow_pkts"].as_u64() > Some(10), "{}", counters(&plain));
        let events = |out: &Path| fs::read(run_of(out).join("events.jsonl")).unwrap();
        assert!(events(&child) == events(&plain), "{flows} flows: the same events to the byte");
        let queues = |out: &Path| -> Vec<[u64; 4]> {
            let state = |it: QueueSample| [it.time_ns, it.queue_pkts, it.overflow_pkts, it.marked_pkts];
            samples(out).into_iter().map(state).collect()
        };
        assert_eq!(queues(&child), queues(&plain), "{flows} flows: the same queue at every sample");
    }
}

/// Every discipline runs, loses no packet uncounted, gives the same run twice, and keeps a shorter queue than drop tail.
#[test]
fn every_discipline_runs_again_to_the_byte_and_counts_each_packet() {
    needs!(guest);
    let disciplines = [
        "codel ecn",
        "fq_codel",
        "pie",
        "fq_pie ecn",
        "red min 12kB max 36kB probability 10%",
        "red min 12kB max 36kB ecn adaptive",
        "fq flow_limit 50",
        "cake",
        "cake bandwidth 18mbit besteffort",
    ];
    let bench = Bench::new("");
    for (number, discipline) in disciplines.iter().enumerate() {
        bench.write("x.toml", &scenario(3, "1000pkts", discipline));
        let [first, second] = ["first", "second"].map(|name| bench.runs(&format!("{name}-{number}"), ""));
        for file in ["events.jsonl", "queues.jsonl"] {
            let read = |out: &Path| fs::read(run_of(out).join(file)).unwrap();
            assert!(read(&first) == read(&second), "{discipline}: {file}");
        }
        let counted = counters(&first);
        let count = |name: &str| counted[name].as_u64().unwrap();
        // The run ends while packets are on their way.
        let on_the_way = count("received_pkts").checked_sub(count("sent_pkts") + count("overflow_pkts"));
        assert!(on_the_way.is_some_and(|packets| packets < 200), "{discipline}: {counted}");
        assert!(count("overflow_pkts") + count("marked_pkts") > 10, "{discipline}: {counted}");
        let has_ecn = ["ecn", "fq_codel", "cake"].iter().any(|word| discipline.contains(word));
        assert_eq!(count("marked_pkts") > 0, has_ecn, "{discipline}: {counted}");
        let goodput: f64 =
            record(&first)["flows"].as_array().unwrap().iter().map(|it| it["goodput_bps"].as_f64().unwrap()).sum();
        assert!(goodput > 16e6, "{discipline}: {goodput}");
        let last = samples(&first).pop().unwrap();
        // The queue empties after the last sample.
        let seen = last.overflow_pkts + last.marked_pkts;
        let all = count("overflow_pkts") + count("marked_pkts");
        assert!(seen <= all && 10 * seen > 9 * all, "{discipline}: {seen} of {all}");
    }
}

/// `tc qdisc replace` with a new handle drops what waits. The samples count from a second before the run.
#[test]
fn changed_discipline_takes_over_at_its_time_and_drops_what_waits() {
    needs!(guest);
    let change = "change = [{ at = \"5s\", discipline = \"fq_codel\" }, { at = \"10s\", discipline = \"pie ecn\", queue = \
                  \"100pkts\", rate = \"10mbit\" }, { at = \"15s\", discipline = \"cake\" }]\nrate =";
    let bench = Bench::new(&scenario(2, "1000pkts", "pfifo").replace("rate =", change));
    let [first, second] = ["first", "second"].map(|name| bench.runs(name, ""));
    for file in ["events.jsonl", "queues.jsonl"] {
        let read = |out: &Path| fs::read(run_of(out).join(file)).unwrap();
        assert!(read(&first) == read(&second), "{file}");
    }
    let samples = samples(&first);
    let begin = samples[0].time_ns;
    let at = |ms: u64| samples.iter().find(|it| it.time_ns - begin == ms * 1_000_000).unwrap();
    let [before, after] = [at(4_990), at(5_000)];
    assert!(before.queue_pkts > 300 && after.queue_pkts == 0, "{before:?} {after:?}");
    let dropped = after.overflow_pkts - before.overflow_pkts;
    assert!(dropped.abs_diff(before.queue_pkts) < 20, "{before:?} {after:?}");
    assert!(at(9_990).wait_ns < 30_000_000, "FQ-CoDel keeps it short: {:?}", at(9_990));
    let marked = [10_000, 15_000, 20_000].map(|ms| at(ms).marked_pkts);
    assert!(marked[1] > marked[0], "only PIE and CAKE mark what FQ-CoDel does not drop: {marked:?}");
    let counted = counters(&first);
    let count = |name: &str| counted[name].as_u64().unwrap();
    let on_the_way = count("received_pkts").checked_sub(count("sent_pkts") + count("overflow_pkts"));
    assert!(on_the_way.is_some_and(|packets| packets < 200), "{counted}");
}

/// A change to the same discipline that never comes is no change, and one at once is the link's own discipline.
#[test]
fn discipline_that_is_there_from_the_start_makes_the_run_of_the_links_own() {
    needs!(guest);
    let written = |text: &str| scenario(2, "60pkts", "codel").replace("discipline =", text);
    let bench = Bench::new(&written("discipline ="));
    let plain = bench.runs("plain", "");
    let changed = "change = [{ at = \"1us\", discipline = \"codel\", queue = \"60pkts\" }]\ndiscipline = \"fq\" #";
    bench.write("x.toml", &written(changed));
    let events = |out: &Path| fs::read(run_of(out).join("events.jsonl")).unwrap();
    assert!(events(&plain) == events(&bench.runs("changed", "")));
}

/// The same arrivals as in the test of netem links, which has the same numbers.
#[test]
fn disciplines_drop_in_virtual_time_what_they_drop_by_netem() {
    needs!(guest);
    let bench = Bench::new("");
    let sent_s = (INTERVAL * ARRIVALS as u32).as_secs();
    let sent_mbit = 1500.0 * 8.0 / INTERVAL.as_micros() as f64;
    for (number, (discipline, [least, most])) in DROPS.into_iter().enumerate() {
        let queue =
            if discipline.starts_with("cake") { String::new() } else { format!("queue = \"{QUEUE_PKTS}pkts\"\n") };
        bench.write(
            "x.toml",
            &format!(
                "title = \"x\"\nclaim = \"y\"\nprofile = \"native\"\nkernel = \"6.12\"\nduration = \"{sent_s}s\"\nruns = 1\nseed = 3\n\n\
                 [[link]]\nends = [\"s\", \"r\"]\nrate = \"{RATE_MBIT}mbit\"\ndelay = \"{}ms\"\n{queue}\
                 discipline = \"{discipline}\"\n\n[[flow]]\nname = \"datagrams\"\nfrom = \"s\"\nto = \"r\"\n\
                 protocol = \"udp\"\nrate = \"{sent_mbit}mbit\"\n",
                DELAY.as_millis()
            ),
        );
        let counted = counters(&bench.runs(&format!("out{number}"), ""));
        let count = |name: &str| counted[name].as_u64().unwrap();
        println!("overload: {discipline}: {} dropped, {least} to {most} allowed", count("overflow_pkts"));
        assert!(count("received_pkts").abs_diff(ARRIVALS) <= 2, "{discipline}: {counted}");
        assert!((least..=most).contains(&count("overflow_pkts")), "{discipline}: {counted}");
    }
}

/// A discipline that holds packets back waits although the link is idle.
#[test]
fn longest_queue_counts_what_a_shaper_holds_back() {
    needs!(guest);
    let bench = Bench::new(&scenario(1, "1000pkts", "cake bandwidth 5mbit"));
    let out = bench.runs("out", "");
    let longest = samples(&out).iter().map(|sample| sample.queue_pkts).max();
    assert!(
        longest > Some(5) && counters(&out)["max_queue_pkts"].as_u64() >= longest,
        "{longest:?}: {}",
        counters(&out)
    );
}

#[test]
fn policed_packets_are_in_the_report_and_another_kernel_is_another_experiment() {
    needs!(guest, guest7);
    let bench = Bench::new(&scenario(1, "60pkts", "").replace("rate =", "policer = \"rate=5mbit,burst=20kB\"\nrate ="));
    let out = bench.runs("out", "");
    let policed = counters(&out)["policed_pkts"].as_u64().unwrap();
    check(0, tccc().arg("report").arg(&out).args(["-o", "html"])).stdout_has("dropped by the policer");
    let report = check(0, tccc().arg("report").arg(&out).args(["-o", "json"])).stdout();
    assert!(policed > 10 && report.contains("\"policed_pkts\""), "{policed}: {report}");
    let refused = stderr(&check(2, &mut bench.command("out", "--kernel 7.3")));
    assert!(refused.contains("its guest has Linux 6.12, not 7.3"), "{refused}");
}

/// The packets of one direction are those of its only flow, so the link and the flow have the same waits.
#[test]
fn waits_of_an_only_flow_are_those_of_the_link_with_and_without_a_discipline() {
    needs!(guest);
    let bench = Bench::new("");
    for (number, discipline) in ["", "codel", "fq"].into_iter().enumerate() {
        bench.write("x.toml", &scenario(1, "60pkts", discipline));
        let out = bench.runs(&number.to_string(), "");
        let waits = record(&out)["flows"][0]["waits"].clone();
        let expected = serde_json::json!([{ "from": "s", "to": "r", "us": counters(&out)["wait_us"] }]);
        assert!(waits == expected && waits[0]["us"]["p99"].as_f64() > Some(1e3), "{discipline}: {waits} {expected}");
    }
}

/// FQ-CoDel serves a sparse flow first (RFC 8290, 4.1), while drop tail makes it wait behind the others.
#[test]
fn flows_wait_alike_in_drop_tail_and_a_sparse_one_shortly_under_fq_codel() {
    needs!(guest);
    let pages = "[[flow]]\nname = \"pages\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\necn = 1\nsize = \"3kB\"\ncount = \
                 100\ninterval = \"150ms\"\nstart = \"3s\"\n";
    let call = "[[flow]]\nname = \"call\"\nfrom = \"s\"\nto = \"r\"\nprotocol = \"udp\"\nrate = \"64kbit\"\npacket = \
                \"200B\"\nstart = \"3s\"\n";
    let report = "[report]\nmetrics = [\"link_wait_p50_us\", \"link_wait_p95_us\"]\n";
    let bench = Bench::new("");
    let waits_ms = |discipline: &str| {
        bench.write("x.toml", &(scenario(2, "200pkts", discipline) + pages + call + report));
        let out = bench.runs(&format!("out{discipline}"), "");
        let per_run = check(0, tccc().arg("report").arg(&out).args(["--per-run", "-o", "csv"])).stdout();
        let value = |flow: &str| {
            let row =
                per_run.lines().find(|row| row.contains(&format!(",{flow},")) && row.contains("link_wait_p95_us"));
            row.unwrap_or_else(|| panic!("no wait of {flow}: {per_run}")).to_owned()
        };
        let flows = record(&out)["flows"].as_array().unwrap().clone();
        let p95 = |flow: &Value| flow["waits"][0]["us"]["p95"].as_f64().unwrap();
        for flow in &flows[..3] {
            assert!(value(flow["name"].as_str().unwrap()).contains(&format!(",{}", p95(flow))), "{per_run}");
        }
        [0, 2, 3].map(|number| p95(&flows[number]) / 1e3)
    };
    let [bulk, pages, call] = waits_ms("");
    assert!(bulk > 40.0 && pages > 40.0 && call > 40.0, "{bulk} {pages} {call}");
    let [bulk, pages, call] = waits_ms("fq_codel");
    assert!(bulk > 7.0 && pages < 6.0 && call < 2.0, "{bulk} {pages} {call}");
}

/// RFC 8033, 4.1: the latency target is 15 ms. RFC 8289, 4.2: CoDel keeps the delay at its target of 5 ms except for bursts.
#[test]
fn pie_holds_its_target_and_codel_its_own() {
    needs!(guest);
    let bench = Bench::new("");
    let wait_ms = |discipline: &str, share: f64| {
        bench.write("x.toml", &scenario(1, "1000pkts", discipline));
        let mut waits: Vec<u64> =
            samples(&bench.runs(discipline, "")).iter().filter(|it| it.time_ns > 0).map(|it| it.wait_ns).collect();
        waits.drain(..waits.len() / 4); // slow start
        waits.sort_unstable();
        waits[(share * (waits.len() - 1) as f64) as usize] as f64 / 1e6
    };
    let [pie, codel, tail] = [wait_ms("pie", 0.5), wait_ms("codel", 0.95), wait_ms("pfifo", 0.5)];
    assert!((10.0..20.0).contains(&pie), "{pie}");
    assert!((3.0..9.0).contains(&codel), "{codel}");
    assert!(tail > 100.0, "{tail}");
}

/// RFC 9768: the receiver counts marks. RFC 3168: it repeats a mark until the sender has answered.
#[test]
fn accurate_ecn_counts_each_mark_and_classic_ecn_repeats_it() {
    needs!(guest7);
    let bench = Bench::new("");
    let counted = |ecn: &str| {
        bench.write("x.toml", &scenario(1, "1000pkts", "codel ecn").replace("ecn = 1", &format!("ecn = {ecn}")));
        let out = bench.runs(ecn.trim_matches('"'), "--kernel 7.3");
        let reported = record(&out)["flows"][0]["ecn"].clone();
        (counters(&out)["marked_pkts"].as_u64().unwrap(), reported)
    };
    let (marked, reported) = counted("\"accurate\"");
    assert_eq!(reported["accurate"], true);
    assert!(
        marked > 5 && reported["delivered_ce_pkts"].as_u64().unwrap().abs_diff(marked) <= 1,
        "{marked}: {reported}"
    );
    let (marked, reported) = counted("1");
    assert_eq!(reported["accurate"], false);
    assert!(reported["delivered_ce_pkts"].as_u64().unwrap() > 10 * marked, "{marked}: {reported}");
}

/// With Accurate ECN, DCTCP needs no receiver of its own.
#[test]
fn both_dctcps_know_each_mark_by_accurate_ecn() {
    needs!(guest7);
    let marked = scenario(1, "1000pkts", "")
        .replace("queue =", "mark = \"20pkts\"\nqueue =")
        .replace("ecn = 1", "ecn = \"accurate\"");
    let bench = Bench::new("");
    for algorithm in ["dctcp", "bpf_dctcp"] {
        bench.write("x.toml", &marked.replace("\"cubic\"", &format!("\"{algorithm}\"")));
        let out = bench.runs(algorithm, "--kernel 7.3");
        let ecn = &record(&out)["flows"][0]["ecn"];
        let marks = counters(&out)["marked_pkts"].as_f64().unwrap();
        let reported = ecn["delivered_ce_pkts"].as_f64().unwrap();
        assert!(ecn["accurate"] == true && marks > 300.0, "{algorithm}: {ecn} of {marks}");
        assert!((reported / marks - 1.0).abs() < 0.01, "{algorithm}: {reported} of {marks}");
    }
}

/// RFC 3168, 18.1: a router that clears the field turns marks into drops.
#[test]
fn bleached_packets_are_dropped_instead_of_marked() {
    needs!(guest);
    let bench = Bench::new("");
    let counted = |remark: &str| {
        let remark = if remark.is_empty() { String::new() } else { format!("remark = \"{remark}\"\n") };
        bench.write("x.toml", &scenario(1, "1000pkts", "codel ecn").replace("rate =", &format!("{remark}rate =")));
        let counted = counters(&bench.runs(&format!("out{}", remark.len()), ""));
        ["marked_pkts", "overflow_pkts"].map(|name| counted[name].as_u64().unwrap())
    };
    let [kept, bleached] = ["", "ecn=bleached"].map(counted);
    assert!(kept[0] > 5 && kept[1] == 0, "{kept:?}");
    assert!(bleached[0] == 0 && bleached[1] > 5, "{bleached:?}");
    assert_eq!(counted("ecn=ect0"), kept, "ECT(0) stays");
}

/// DCTCP that sends ECT(1) and asks for Accurate ECN.
fn l4s() -> String {
    let dctcp = fs::read_to_string(crate::compile::in_tree("bpf/cc/bpf_dctcp.bpf.c")).unwrap();
    dctcp
        .replace(
            ".flags = TCP_CONG_NEEDS_ECN",
            ".flags = TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION",
        )
        .replace("ALGORITHM(bpf_dctcp,", "ALGORITHM(l4s,")
        .replace(".name = \"bpf_dctcp\"", ".name = \"l4s\"")
}

/// The receiver gives back the sender's ECT(1), not ECT(0).
#[test]
fn marks_of_a_flow_with_ect1_are_hidden_too() {
    needs!(guest7);
    let text = scenario(1, "1000pkts", "dualpi2").replace("ecn = 1", "ecn = \"accurate\"\nreceiver = \"hides_marks\"");
    let bench = Bench::new(&text.replace("\"cubic\"", "\"l4s.bpf.c\""));
    bench.write("l4s.bpf.c", &l4s());
    let out = bench.runs("out", "--kernel 7.3");
    assert!(counters(&out)["marked_pkts"].as_u64() > Some(100), "{}", counters(&out));
    let ecn = &record(&out)["flows"][0]["ecn"];
    assert_eq!(*ecn, serde_json::json!({ "accurate": true, "delivered_ce_pkts": 0 }));
}

/// RFC 9332: a scalable flow that sends ECT(1) has its own queue, whose marks begin at 1 ms; the classic queue aims at 15.
#[test]
fn dualpi2_keeps_a_flow_with_ect1_below_its_step_beside_a_classic_flow() {
    needs!(guest7);
    let alone = scenario(1, "1000pkts", "dualpi2").replace("ecn = 1", "ecn = \"accurate\"");
    let bench = Bench::new(&alone.replace("\"cubic\"", "\"l4s.bpf.c\""));
    bench.write("l4s.bpf.c", &l4s());
    let median = |out: &Path| {
        let mut waits: Vec<u64> = samples(out).iter().map(|it| it.wait_ns).collect();
        waits.drain(..waits.len() / 4); // slow start
        waits.sort_unstable();
        waits[waits.len() / 2] as f64 / 1e6
    };
    let [scalable, classic] = [bench.runs("scalable", "--kernel 7.3"), {
        bench.write("x.toml", &alone);
        bench.runs("classic", "--kernel 7.3")
    }];
    let waits = [median(&scalable), median(&classic)];
    assert!(waits[0] < 1.5 && (8.0..22.0).contains(&waits[1]), "{waits:?}");
    assert!(counters(&scalable)["marked_pkts"].as_u64() > Some(100), "{}", counters(&scalable));
    // With ECT(0), the same algorithm is in the classic queue.
    bench.write(
        "x.toml",
        &alone.replace("\"cubic\"", "\"l4s.bpf.c\"").replace("rate =", "remark = \"ecn=ect0\"\nrate ="),
    );
    assert!(median(&bench.runs("remarked", "--kernel 7.3")) > 5.0);
}

#[test]
fn what_the_older_kernel_lacks_is_refused_with_its_line_and_a_way_out() {
    let bench = Bench::new(&scenario(1, "1000pkts", "dualpi2"));
    let refused = bench.fails("out", 2);
    assert!(refused.contains("x.toml:") && refused.contains("link.discipline: Linux 6.12 has no dualpi2"), "{refused}");
    assert!(refused.contains("--kernel 7.3"), "{refused}");
    let change = "change = [{ at = \"1s\", discipline = \"dualpi2\" }]\nrate =";
    bench.write("x.toml", &scenario(1, "1000pkts", "codel").replace("rate =", change));
    let refused = bench.fails("out", 2);
    assert!(refused.contains("link.change: Linux 6.12 has no dualpi2"), "{refused}");
    bench.write("x.toml", &scenario(1, "1000pkts", "codel").replace("ecn = 1", "ecn = \"accurate\""));
    let refused = bench.fails("out", 2);
    assert!(refused.contains("flow.ecn: Linux 6.12 has no Accurate ECN"), "{refused}");
}

#[test]
fn host_without_guest_refuses_a_discipline_and_names_the_engine() {
    let bench = Bench::new(&scenario(1, "1000pkts", "codel"));
    let refused =
        check(4, tccc().arg("run").arg(bench.out("x.toml")).args(["--link", "tunlink", "--out", "/nonexistent"]));
    refused.stderr_has("cannot emulate discipline \"codel\"").stderr_has("--engine virtual");
}
