//! Which runs send at the same time: a run's record says how many did, at most, while it did.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The runs that send now, each with the most that sent at once since it began.
#[derive(Debug, Default)]
pub struct Together(Mutex<Sending>);

#[derive(Debug, Default)]
struct Sending {
    begun: u64,
    now: Vec<(u64, u32)>,
}

/// One run that sends, until it is dropped.
#[derive(Debug)]
pub struct Sender<'a> {
    together: &'a Together,
    number: u64,
}

impl Together {
    /// A run begins to send.
    pub fn begin(&self) -> Sender<'_> {
        let mut sending = self.sending();
        let number = sending.begun;
        sending.begun += 1;
        sending.now.push((number, 0));
        let count = sending.now.len() as u32;
        sending.now.iter_mut().for_each(|(_, most)| *most = count.max(*most));
        Sender { together: self, number }
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // a list of numbers is whole after every step
    }
}

impl Sender<'_> {
    /// Runs that sent at once since this one began, at most, this one included.
    pub fn most(&self) -> u32 {
        self.together.sending().now.iter().find(|(number, _)| *number == self.number).map_or(1, |(_, most)| *most)
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.together.sending().now.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_counts_those_that_begin_after_it_and_not_those_that_ended_before() {
        let together = Together::default();
        let first = together.begin();
        assert_eq!(first.most(), 1);
        let second = together.begin();
        let third = together.begin();
        assert_eq!([first.most(), second.most(), third.most()], [3, 3, 3]);
        drop((second, third));
        let last = together.begin();
        assert_eq!([first.most(), last.most()], [3, 2]);
    }
}
