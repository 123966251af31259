//! Defects outside the papers' conditions, on the kernel's own stack in virtual time: what the papers' algorithms do to a
//! neighbour or to themselves, and that the defaults do not.

use std::collections::BTreeMap;

use crate::common::experiment::finished;
use crate::common::needs;
use crate::lab::virtual_time::Bench;
use serde_json::Value;

/// A path of 20 Mbit/s without its traffic.
fn head(duration: &str) -> String {
    format!("title = \"x\"\nclaim = \"y\"\nprofile = \"paper\"\nduration = \"{duration}\"\nruns = 2\nseed = 17\n")
}

fn variant(name: &str, lines: &str) -> String {
    format!("[variant.{name}]\nflows = [\"data\"]\n{lines}\n")
}

/// Mean goodput by variant, then flow, Mbit/s.
fn goodputs(scenario: &str) -> BTreeMap<String, BTreeMap<String, f64>> {
    let bench = Bench::new(scenario);
    let out = bench.runs("out", "");
    let mut sums: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let mut runs: BTreeMap<String, f64> = BTreeMap::new();
    for (_, bytes) in finished(&out) {
        let record: Value = serde_json::from_slice(&bytes).unwrap();
        let flows = record["flows"].as_array().unwrap();
        let variant = flows.iter().find_map(|flow| flow["variant"].as_str()).expect("one flow is the variant's");
        *runs.entry(variant.into()).or_default() += 1.0;
        for flow in flows {
            let name = flow["name"].as_str().unwrap();
            *sums.entry(variant.into()).or_default().entry(name.into()).or_default() +=
                flow["goodput_bps"].as_f64().unwrap() / 1e6;
        }
    }
    for (variant, flows) in &mut sums {
        flows.values_mut().for_each(|sum| *sum /= runs[variant]);
    }
    sums
}

/// Its losses at a full queue were all bit errors to it: it took 15 of 20 Mbit/s from three neighbours.
#[test]
fn msack_leaves_its_neighbours_more_than_half_of_what_reno_leaves_them() {
    needs!(guest);
    let neighbours = ["dtcp", "bpf_cubic", "reno"];
    let flows: String = ["reno"]
        .iter()
        .chain(&neighbours)
        .enumerate()
        .map(|(at, id)| {
            let (name, end) = (if at == 0 { "data" } else { id }, at + 1);
            format!("[[flow]]\nname = \"{name}\"\nfrom = \"s{end}\"\nto = \"r{end}\"\nalgorithm = \"{id}\"\n")
        })
        .collect();
    let path = "[dumbbell]\npairs = 4\naccess = { rate = \"100mbit\", delay = \"1ms\" }\n\
                bottleneck = { rate = \"20mbit\", delay = \"18ms\", queue = \"1bdp\", loss = \"0.3%\" }\n";
    let variants = variant("reno", "algorithm = \"reno\"")
        + &variant("msack", "algorithm = \"msack\"")
        + &variant("paper", "algorithm = \"msack\"\ntunables = { guard = 0 }");
    let goodputs = goodputs(&format!("{}{path}{flows}{variants}", head("40s")));
    for neighbour in neighbours {
        let share = |variant: &str| goodputs[variant][neighbour] / goodputs["reno"][neighbour];
        assert!(share("msack") > 0.5, "{neighbour} keeps {:.2} beside msack", share("msack"));
        assert!(share("paper") < 0.5, "{neighbour} keeps {:.2} beside msack as the paper has it", share("paper"));
    }
}

/// Its lowest RTT was for life: growth stood still, and every burst of losses halved the window, down to 2 packets.
#[test]
fn adaptive_grows_again_on_a_longer_route() {
    needs!(guest);
    let losses: String = [6, 15, 25, 35, 45]
        .map(|at| {
            format!("    {{ at = \"{at}s\", loss = \"5%\" }}, {{ at = \"{}ms\", loss = \"0%\" }},\n", at * 1000 + 50)
        })
        .concat();
    let path = format!(
        "[[link]]\nends = [\"s\", \"r\"]\nrate = \"20mbit\"\ndelay = \"10ms\"\nqueue = \"15pkts\"\nchange = [\n    \
         {{ at = \"5s\", delay = \"30ms\" }},\n{losses}]\n\
         [[flow]]\nname = \"data\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\n"
    );
    let variants = variant("reno", "algorithm = \"reno\"")
        + &variant("adaptive", "algorithm = \"adaptive\"")
        + &variant("paper", "algorithm = \"adaptive\"\ntunables = { longest_stop_s = 0 }");
    let goodputs = goodputs(&format!("{}{path}{variants}", head("70s")));
    let share = |variant: &str| goodputs[variant]["data"] / goodputs["reno"]["data"];
    assert!(share("adaptive") > 0.75, "{:.2} of Reno's goodput", share("adaptive"));
    assert!(share("paper") < 0.5, "{:.2} of Reno's goodput as the paper has it", share("paper"));
}
