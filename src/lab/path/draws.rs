//! The random numbers of a direction, and the losses that they decide.

use std::sync::Arc;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};
use strum::VariantArray;

use crate::path::loss::{Gilbert, LossModel};

/// The streams of random numbers of a direction. Each has its own generator, so that they are independent: a link with
/// jitter loses the same packets as one without.
///
/// These values must never change, because published results are repeated with their seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
#[repr(u64)]
pub enum RandomStream {
    /// Whether a packet is lost. Every loss model uses the same number.
    Loss = 0,
    /// Changes of the state of a loss model.
    State = 0x0073_7461_7465,
    Jitter = 0x6a69_7474_6572,
    Reorder = 0x7265_6f72_6465,
    Duplicate = 0x6475_706c_6963,
    AckLoss = 0x6163_6b6c_6f73,
    /// Whether an ACK begins a batch.
    AckHold = 0x6163_6b68_6f6c,
    /// Delays inside the sending host.
    Host = 0x0068_6f73_7464,
}

impl RandomStream {
    /// The generator for a direction with this seed.
    pub fn generator(self, seed: u64) -> Pcg64 {
        Pcg64::seed_from_u64(seed ^ self as u64)
    }
}

/// Most numbers of lost packets that are kept for the record. They show whether two runs had the same losses, and can
/// be given to another run as `positions`.
const POSITIONS_KEPT: usize = 1_000;

#[derive(Debug)]
enum Law {
    Independent(f64),
    States { model: Gilbert, is_bad: bool },
    Positions { positions: Arc<[u64]>, next: usize },
}

#[derive(Debug)]
pub struct Losses {
    law: Law,
    draws: Pcg64,
    state_draws: Pcg64,
    /// Number of the latest packet, from 1.
    packet: u64,
    last_lost: u64,
    runs: u64,
    first_lost: Vec<u64>,
}

impl Losses {
    pub fn new(model: &LossModel, seed: u64) -> Self {
        let mut losses = Losses {
            law: Law::Independent(0.0),
            draws: RandomStream::Loss.generator(seed),
            state_draws: RandomStream::State.generator(seed),
            packet: 0,
            last_lost: 0,
            runs: 0,
            first_lost: Vec::with_capacity(POSITIONS_KEPT),
        };
        losses.change(model);
        losses
    }

    /// Switches to another model, which begins in the good state. The random numbers and the count of packets continue.
    pub fn change(&mut self, model: &LossModel) {
        self.law = match (model, model.gilbert()) {
            (LossModel::Positions(trace), _) => {
                let next = trace.positions.partition_point(|&position| position <= self.packet);
                Law::Positions { positions: Arc::clone(&trace.positions), next }
            }
            (LossModel::Independent(share), _) => Law::Independent(share.0),
            (_, Some(model)) => Law::States { model, is_bad: false },
            (_, None) => Law::Independent(0.0),
        };
    }

    /// Whether the next packet is lost.
    ///
    /// Independent losses draw one number for each packet, even with a share of 0. So the packets that are lost with a
    /// small probability are also lost with a larger one.
    pub fn takes_next(&mut self) -> bool {
        self.packet += 1;
        let is_lost = match &mut self.law {
            Law::Independent(loss) => draw(&mut self.draws) < *loss,
            Law::States { model, is_bad } => {
                let (loss, change) =
                    if *is_bad { (model.bad_loss, model.to_good) } else { (model.good_loss, model.to_bad) };
                *is_bad ^= draw(&mut self.state_draws) < change.0;
                draw(&mut self.draws) < loss.0
            }
            Law::Positions { positions, next } => {
                let is_lost = positions.get(*next) == Some(&self.packet);
                *next += usize::from(is_lost);
                is_lost
            }
        };
        if is_lost {
            self.runs += u64::from(self.last_lost + 1 != self.packet || self.runs == 0);
            self.last_lost = self.packet;
            if self.first_lost.len() < POSITIONS_KEPT {
                self.first_lost.push(self.packet);
            }
        }
        is_lost
    }

    /// Number of runs of consecutive losses since the last [`Losses::restart_runs`].
    pub fn runs(&self) -> u64 {
        self.runs
    }

    /// Numbers of the first lost packets since the last [`Losses::restart_runs`].
    pub fn first_lost(&self) -> &[u64] {
        &self.first_lost
    }

    pub fn restart_runs(&mut self) {
        self.runs = 0;
        self.first_lost.clear();
    }
}

/// A random number in [0, 1) with all 53 bits of an `f64`.
pub fn draw(draws: &mut Pcg64) -> f64 {
    const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
    (draws.next_u64() >> 11) as f64 * SCALE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::loss::LossText;

    const PACKETS: u64 = 400_000;
    /// Half the width of an interval in standard deviations: seeds are fixed, so a test that passes once always does.
    const WIDTH: f64 = 3.5;

    fn model(text: &str) -> LossModel {
        match text.parse().unwrap() {
            LossText::Model(model) => model,
            LossText::File(file) => panic!("a file: {file}"),
        }
    }

    fn pattern(text: &str, seed: u64, packets: u64) -> Vec<bool> {
        let mut losses = Losses::new(&model(text), seed);
        (0..packets).map(|_| losses.takes_next()).collect()
    }

    /// Lengths of the runs of losses.
    fn runs(pattern: &[bool]) -> Vec<f64> {
        pattern.chunk_by(|a, b| a == b).filter(|run| run[0]).map(|run| run.len() as f64).collect()
    }

    fn assert_within(what: &str, measured: f64, expected: f64, deviation: f64) {
        let distance = (measured - expected) / deviation;
        assert!(distance.abs() < WIDTH, "{what}: {measured} for {expected}, {distance:.2} standard deviations away");
    }

    #[test]
    fn every_model_loses_as_many_as_expected() {
        let models = [
            "1%",
            "30%",
            "gilbert:p=1%",
            "gilbert:p=0.5%,r=25%",
            "gilbert:p=2%,r=10%,1-h=70%,1-k=0.5%",
            "gilbert:p=90%,r=80%,1-h=60%,1-k=10%",
            "bursts:loss=1%,mean=4",
            "bursts:loss=20%,mean=50",
        ];
        for (text, seed) in models.iter().flat_map(|text| (1..=5).map(move |seed| (text, seed))) {
            let lost = pattern(text, seed, PACKETS).iter().filter(|lost| **lost).count() as f64;
            let expected = model(text).expected(PACKETS);
            assert_within(&format!("{text} with seed {seed}"), lost, expected.mean, expected.variance.sqrt());
        }
    }

    /// Geometric: mean 1/r, standard deviation sqrt(1-r)/r.
    #[test]
    fn runs_of_losses_have_their_mean_and_their_distribution() {
        for (text, mean) in [("bursts:loss=2%,mean=4", 4.0), ("gilbert:p=1%,r=12.5%", 8.0), ("2%", 1.0 / 0.98)] {
            let runs = runs(&pattern(text, 3, PACKETS));
            let (count, end) = (runs.len() as f64, 1.0 / mean);
            let measured = runs.iter().sum::<f64>() / count;
            assert_within(text, measured, mean, (1.0 - end).sqrt() / end / count.sqrt());
            for length in 1..=3 {
                let share: f64 = (1.0 - end).powi(length - 1) * end;
                let of_length = runs.iter().filter(|run| **run == f64::from(length)).count() as f64;
                let deviation = (count * share * (1.0 - share)).sqrt();
                assert_within(&format!("{text}, runs of {length}"), of_length, count * share, deviation);
            }
        }
    }

    /// The chance of a loss after a loss tells models of one loss share apart.
    #[test]
    fn loss_after_a_loss_is_as_likely_as_the_states_say() {
        let after_loss = |text| {
            let pattern = pattern(text, 9, PACKETS);
            let pairs = pattern.windows(2).filter(|pair| pair[0]);
            let (both, all) = pairs.fold((0.0, 0.0), |(both, all), pair| (both + f64::from(pair[1]), all + 1.0));
            (both / all, all)
        };
        // Independent: the loss itself. Simple Gilbert: the state stays with 1-r.
        for (text, expected) in [("10%", 0.1), ("gilbert:p=2%,r=18%", 0.82)] {
            let (share, of) = after_loss(text);
            assert_within(text, share, expected, (expected * (1.0 - expected) / of).sqrt());
        }
    }

    /// Published results are repeated with their seeds.
    #[test]
    fn seed_stands_for_these_packets_for_ever() {
        let lost = |text| {
            let pattern = pattern(text, 1, 1_000);
            (1..).zip(&pattern).filter(|(_, lost)| **lost).map(|(packet, _)| packet).collect::<Vec<u64>>()
        };
        assert_ne!(pattern("1%", 1, 1_000), pattern("1%", 2, 1_000));
        assert_eq!(lost("1%"), [159, 221, 224, 246, 300, 405, 445, 593, 829, 841]);
        let bursts = [212, 213, 214, 215, 216, 217, 429, 430, 431, 485, 486, 487, 534, 535, 536, 537];
        assert_eq!(lost("bursts:loss=1%,mean=4"), bursts);
        let states = [212, 246, 286, 287, 429, 430, 431, 454, 485, 486, 487, 497, 534, 535, 536, 908, 909];
        assert_eq!(lost("gilbert:p=1%,r=50%,1-h=80%,1-k=0.1%"), states);
    }

    #[test]
    fn given_positions_are_lost_and_no_others() {
        let lost = |text| pattern(text, 1, 10).iter().map(|lost| u8::from(*lost)).collect::<Vec<_>>();
        assert_eq!(lost("positions:1,4,5,99"), [1, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn model_that_changes_goes_on_with_the_numbers_and_the_count() {
        let mut losses = Losses::new(&model("0%"), 5);
        let mut changed: Vec<bool> = (0..500).map(|_| losses.takes_next()).collect();
        losses.change(&model("5%"));
        changed.extend((0..500).map(|_| losses.takes_next()));
        let steady = pattern("5%", 5, 1_000);
        assert!(changed[..500].iter().all(|lost| !lost));
        assert_eq!(changed[500..], steady[500..]);
        losses.change(&model("positions:3,1002"));
        assert_eq!([losses.takes_next(), losses.takes_next(), losses.takes_next()], [false, true, false]);
    }

    #[test]
    fn runs_are_counted_from_the_last_restart() {
        let mut losses = Losses::new(&model("positions:1,2,4,7,8"), 1);
        assert_eq!((0..5).filter(|_| losses.takes_next()).count(), 3);
        assert_eq!((losses.runs(), losses.first_lost()), (2, &[1, 2, 4][..]));
        losses.restart_runs();
        assert_eq!((0..5).filter(|_| losses.takes_next()).count(), 2);
        assert_eq!((losses.runs(), losses.first_lost()), (1, &[7, 8][..]));
    }
}
