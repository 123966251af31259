//! The windows of every algorithm over every simulated path, with one snapshot per algorithm.
//!
//! A line shows successive rounds with the same threshold, state and phase: the time of the first and the last, then the
//! window at the end of each. A curve that equals Reno's is not shown again. `twins` compares the other ports with the kernel's
//! own algorithms, event by event.

use super::*;

const STATES: [&str; 5] = ["Open", "Disorder", "CWR", "Recovery", "Loss"];

/// The lines of one algorithm over one path.
fn curve(native: &Native, path: SimulatedPath) -> String {
    let layout = &catalog::find(&native.id).unwrap().layout;
    let mut rounds = Vec::new();
    SimulatedSender::new(native.socket(0), path).run(|round, socket| {
        let phase = layout.phase_name(&socket.private()).unwrap_or("?");
        let ssthresh = round.ssthresh.map_or("-".to_owned(), |ssthresh| ssthresh.to_string());
        let conditions = format!("{ssthresh:>8}  {:8}  {phase:13}", STATES[round.ca_state as usize]);
        rounds.push((conditions, (round.now_us - 1_000_000) / 1000, round.cwnd));
    });
    let line = |rounds: &[(String, u64, u32)]| {
        let windows: Vec<String> = rounds.iter().map(|(_, _, cwnd)| cwnd.to_string()).collect();
        format!("{:5} {:5}  {}  {}\n", rounds[0].1, rounds[rounds.len() - 1].1, rounds[0].0, windows.join(" "))
    };
    rounds.chunk_by(|one, next| one.0 == next.0).map(line).collect()
}

#[test]
fn every_algorithm_follows_its_recorded_curves() {
    let curves = |native: &Native| -> Vec<(&str, String)> {
        path::all().into_iter().map(|path| (path.name, curve(native, path))).collect()
    };
    let reno = curves(native::find("bpf_reno"));
    for native in native::every().iter().filter(|native| native.id == "bpf_reno" || !native.id.starts_with("bpf_")) {
        let shown = curves(native).into_iter().zip(&reno).map(|((name, curve), (_, reno))| {
            let is_reno = native.id != "bpf_reno" && curve == *reno;
            format!("\n{name}\n{}", if is_reno { "as bpf_reno\n" } else { &curve })
        });
        let text = format!(" from    to  ssthresh  state     phase          windows\n{}", shown.collect::<String>());
        insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("host__{}", native.id), text);
        });
    }
}
