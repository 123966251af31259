//! The test of the arms' shares: false alarms behind proxies, whose few ports come round again and again, and its power.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use tccc::model::guard::{MISMATCH, sample_ratio_e};

use super::normal;

/// Whether the counts of the arms raise an alarm at any of 2,000 looks, 100 connections apart.
fn shares_alarm(seed: u64, treated_share: f64, is_alarm: impl Fn(&[u64]) -> bool) -> bool {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut counts = [0u64; 2];
    (0..2000).any(|_| {
        let mean = 100.0 * treated_share;
        let deviation = (mean * (1.0 - treated_share)).sqrt() * normal(&mut random);
        let treated = (mean + deviation).round().clamp(0.0, 100.0) as u64;
        counts[0] += treated;
        counts[1] += 100 - treated;
        is_alarm(&counts)
    })
}

#[test]
fn right_shares_raise_no_alarm_over_2000_looks() {
    const SEEDS: u64 = 300;
    const SHARES: [f64; 2] = [0.1, 0.9];
    let count =
        |is_alarm: &dyn Fn(&[u64]) -> bool| (0..SEEDS).filter(|&seed| shares_alarm(seed, 0.1, is_alarm)).count();
    assert_eq!(count(&|counts| sample_ratio_e(counts, &SHARES).unwrap() >= MISMATCH), 0);
    // Ville's inequality at a level that so few seeds can test.
    assert!(count(&|counts| sample_ratio_e(counts, &SHARES).unwrap() >= 20.0) <= 15);
    // Pearson's chi-square with one degree of freedom is above 10.83 with a probability of 0.001, at one look.
    let chi_square = |counts: &[u64]| {
        let total = counts.iter().sum::<u64>() as f64;
        (counts[0] as f64 - total * SHARES[0]).powi(2) / (total * SHARES[0] * SHARES[1])
    };
    assert!(count(&|counts| chi_square(counts) > 10.83) > 3, "the fixed test would do as well");
}

#[test]
fn wrong_shares_raise_an_alarm() {
    let is_alarm = |counts: &[u64]| sample_ratio_e(counts, &[0.1, 0.9]).unwrap() >= MISMATCH;
    assert!((0..20).all(|seed| shares_alarm(seed, 0.11, is_alarm)));
}

/// Ephemeral ports of a proxy.
const PORTS: f64 = 28_232.0;
/// Bits that tell units apart. Units that share one count once.
const UNIT_BITS: f64 = 4_194_304.0;
/// Looks of six hours.
const LOOKS: usize = 2160;

/// Connections from proxies to one service.
#[derive(Clone, Copy)]
struct SimulatedProxies {
    proxies: f64,
    /// Of each proxy.
    connections_per_s: f64,
    /// Whether a proxy takes its ports in turn, or at random.
    in_turn: bool,
    treated_share: f64,
}

const PROXIES: SimulatedProxies =
    SimulatedProxies { proxies: 32.0, connections_per_s: 200.0, in_turn: true, treated_share: 0.1 };

impl SimulatedProxies {
    /// Units that were counted after so many looks.
    fn units(&self, looks: usize) -> f64 {
        let tuples = PORTS * self.proxies;
        let connections = self.proxies * self.connections_per_s * looks as f64 * 10.0;
        let seen = if self.in_turn { connections.min(tuples) } else { tuples * -(-connections / tuples).exp_m1() };
        (UNIT_BITS * -(-seen / UNIT_BITS).exp_m1()).round()
    }

    /// Whether the shares raise an alarm at any look of six hours.
    ///
    /// The arm of a unit is a hash, so the arms of the units that a look adds are binomial, whoever they belong to and
    /// however often they come round. `expected` is the treated share that the split says.
    fn alarms(&self, seed: u64, expected: f64) -> bool {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (mut counts, mut seen) = ([0u64; 2], 0.0);
        (1..=LOOKS).any(|look| {
            let added = self.units(look) - seen;
            if added < 1.0 {
                return false; // the evidence stays as it was
            }
            seen += added;
            let deviation = (added * self.treated_share * (1.0 - self.treated_share)).sqrt() * normal(&mut random);
            let treated = (added * self.treated_share + deviation).round().clamp(0.0, added);
            counts[0] += treated as u64;
            counts[1] += (added - treated) as u64;
            sample_ratio_e(&counts, &[expected, 1.0 - expected]).unwrap() >= MISMATCH
        })
    }

    /// Whether the numbers of connections raise an alarm at the end of six hours.
    fn alarms_by_connections(&self, seed: u64) -> bool {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let [tuples, share] = [PORTS * self.proxies, self.treated_share];
        let treated_tuples = share + (share * (1.0 - share) / tuples).sqrt() * normal(&mut random);
        let connections = self.proxies * self.connections_per_s * LOOKS as f64 * 10.0;
        let treated = connections * treated_tuples;
        let counts = [treated, connections - treated].map(|count| count.round() as u64);
        sample_ratio_e(&counts, &[share, 1.0 - share]).unwrap() >= MISMATCH
    }
}

/// Connections were counted, and up to 86 of 100 healthy trials were called broken.
#[test]
fn healthy_split_behind_proxies_is_called_broken_in_at_most_1_of_1000_trials() {
    const SEEDS: u64 = 250;
    let mut trials = 0;
    let mut alarms = 0;
    for treated_share in [0.05, 0.1, 0.5] {
        for connections_per_s in [50.0, 200.0] {
            for in_turn in [true, false] {
                let host = SimulatedProxies { connections_per_s, in_turn, treated_share, ..PROXIES };
                alarms += (0..SEEDS).filter(|&seed| host.alarms(seed + trials, treated_share)).count();
                trials += SEEDS;
            }
        }
    }
    assert!(alarms as u64 <= trials / 1000, "{alarms} of {trials} trials");
    let by_connections = (0..SEEDS).filter(|&seed| PROXIES.alarms_by_connections(seed)).count() as u64;
    assert!(by_connections > SEEDS / 2, "{by_connections} of {SEEDS} by connections: units would not matter");
}

/// The proxies' 903,000 address pairs show a share that is wrong by a fortieth. A tenth needs some 100,000 units.
#[test]
fn lopsided_split_behind_proxies_is_found() {
    let found = |host: SimulatedProxies, share: f64| {
        (0..200).filter(|&seed| SimulatedProxies { treated_share: share, ..host }.alarms(seed, 0.1)).count()
    };
    assert!(found(PROXIES, 0.1025) >= 198);
    assert!(found(PROXIES, 0.0975) >= 198);
    let four = SimulatedProxies { proxies: 4.0, ..PROXIES };
    assert!(found(four, 0.11) >= 198);
    // A tenth of the treated connections is lost before the first count, and none of these comes back.
    assert!(found(four, 0.09 / 0.99) >= 198);
}
