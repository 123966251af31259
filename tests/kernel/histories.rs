//! Random histories of a host, compared with the promises after every step.
//!
//! `histories/model.rs` has the promises. `cargo xtask histories` runs a campaign, also against another build of the program.

mod campaign;
mod model;
mod random;
mod step;
mod world;

use self::campaign::Histories;
use self::step::Algorithm::{Cubic, Msack};
use self::step::{Algorithm, Class, Declaration, Policy, Step, Trying, Version};
use super::*;

/// Seeds of the ring, and the steps of each. A campaign takes longer histories.
const SEEDS: std::ops::Range<u64> = 1..3;
const STEPS: usize = 15;
const STEPS_OF_A_CAMPAIGN: usize = 25;

const GIVES: Policy =
    Policy { class: Class::Local, gives: Some(Msack), trying: Trying::No, current: false, overrides: false };
const GUARDED: Policy = Policy { trying: Trying::Guard, ..GIVES };

fn declare(algorithms: &[(Algorithm, Version)], policy: Option<Policy>) -> Step {
    Step::Declare(Declaration { algorithms: algorithms.iter().copied().collect(), default: None, policy })
}

fn keep(histories: &[&[Step]]) {
    let mut host = enter!(Histories; root, btf, struct_ops, bpffs, cgroup2);
    for steps in histories {
        if let Err(broken) = host.run(steps) {
            panic!("{broken}");
        }
    }
}

/// Once `apply` refused for good a policy whose trial a stop of the host had interrupted.
#[test]
fn interrupted_trial_begins_again() {
    let begin = declare(&[], Some(GUARDED));
    let [shutdown, reboot] = [Step::Shutdown, Step::Reboot];
    keep(&[&[begin, Step::Apply, shutdown, Step::Apply, Step::UnloadAll, Step::Apply, reboot, Step::Apply]]);
}

/// Once a generation got the number of one that was reverted, so that its trial counted the connections of the other.
#[test]
fn number_of_a_reverted_generation_is_not_used_again() {
    let steps = Policy { trying: Trying::Steps, ..GUARDED };
    keep(&[&[Step::Policy(GIVES), Step::Policy(steps), Step::Promote, Step::Abort, Step::Policy(steps)]]);
}

/// Once only `tccc upgrade` gave new code to programs that listen, and refused to change code on trial.
#[test]
fn every_upgrade_reaches_listeners_and_spares_trials() {
    let listen = [Step::Load(Msack, 0), Step::Listen(Msack)];
    keep(&[
        &[&listen[..], &[declare(&[(Msack, 1)], None), Step::Apply]].concat(),
        &[&listen[..], &[Step::Replace(Msack, 1)]].concat(),
        &[Step::Policy(GUARDED), Step::Replace(Msack, 1), declare(&[(Msack, 1)], None), Step::Apply],
    ]);
}

/// Once `apply` unloaded an algorithm that the policy gave to connections.
#[test]
fn undeclared_algorithm_stays_for_the_policy() {
    let [both, policy] = [&[(Msack, 0)][..], &[]].map(|algorithms| declare(algorithms, Some(GIVES)));
    keep(&[&[both, Step::Apply, policy, Step::Apply, declare(&[], None), Step::Apply]]);
}

/// Once the end of any other trial made `apply` forget that a policy was reverted.
#[test]
fn judged_policy_is_not_applied_after_another_trial() {
    let begin = declare(&[], Some(GUARDED));
    let judged = [begin, Step::Apply, Step::Abort];
    let other = [Step::TryDefault(Cubic), Step::Confirm, Step::Apply, Step::Reboot, Step::Apply];
    keep(&[&[&judged[..], &other[..]].concat()]);
}

/// Once every open connection was moved to the algorithm of the rule and back again. Once a connection that was moved and
/// given back counted as chosen by its program.
#[test]
fn live_policy_moves_connections_once_and_the_next_one_again() {
    let current = Policy { current: true, ..GIVES };
    let hold = Step::Hold(Class::Local);
    keep(&[
        &[hold.clone(), Step::PolicyLive(current), Step::RemoveLive, Step::PolicyLive(GIVES)],
        &[hold, Step::PolicyLive(GUARDED), Step::Abort, Step::PolicyLive(GUARDED)],
    ]);
}

/// Once the connections of a trial that a person ended kept its algorithm for good.
#[test]
fn connections_of_an_ended_trial_are_given_back() {
    let trial = Policy { gives: None, overrides: true, ..GUARDED };
    keep(&[&[declare(&[], Some(trial)), Step::Apply, Step::Hold(Class::Local), Step::Abort, Step::RemoveLive]]);
}

#[test]
fn random_histories_keep_the_promises() {
    let mut host = enter!(Histories; root, btf, struct_ops, bpffs, cgroup2);
    for seed in SEEDS {
        if let Err(broken) = host.run_seed(seed, STEPS) {
            panic!("seed {seed}: {}", host.shorten(broken));
        }
    }
}

/// Runs seeds until enough steps are taken. A broken promise does not end the campaign.
#[test]
#[ignore = "a campaign of minutes: `cargo xtask histories`"]
fn campaign() {
    let mut host = enter!(Histories; root, btf, struct_ops, bpffs, cgroup2);
    let variable = |name: &str| std::env::var(name).ok();
    if let Some(steps) = variable("TCCC_HISTORY") {
        let steps: Vec<Step> = serde_json::from_str(&steps).expect("a history in JSON");
        if let Err(broken) = host.run(&steps) {
            panic!("{broken}");
        }
        return;
    }
    let number = |name: &str, default| variable(name).map_or(default, |it| it.parse().expect("a number"));
    let (steps, first) = (number("TCCC_STEPS", 1000), number("TCCC_SEED", 100));
    let limit = Duration::from_secs(number("TCCC_SECONDS", u64::MAX));
    let (mut taken, mut failed) = (0, 0);
    let begin = Instant::now();
    for seed in first.. {
        if taken >= steps || begin.elapsed() >= limit {
            break;
        }
        let before = host.taken;
        let outcome = host.run_seed(seed, STEPS_OF_A_CAMPAIGN);
        taken += (host.taken - before) as u64;
        if let Err(broken) = outcome {
            failed += 1;
            println!("seed {seed}: {broken}");
            println!("seed {seed}, shortened: {}", host.shorten(broken));
        }
        println!("seed {seed}: {taken} steps in {:.0} s, {failed} histories broken", begin.elapsed().as_secs_f64());
    }
    assert_eq!(failed, 0, "histories broke promises");
}
