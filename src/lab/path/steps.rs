//! A value that changes at known times. Queries never go back in time.

#[derive(Debug)]
pub struct Steps<T> {
    current: T,
    next_at: u64,
    /// Last first.
    to_come: Vec<(u64, T)>,
}

impl<T> Steps<T> {
    /// A value that never changes.
    pub fn fixed(value: T) -> Self {
        Steps { current: value, next_at: u64::MAX, to_come: Vec::new() }
    }

    /// The changes are ascending in time.
    pub fn new(value: T, changes: impl Iterator<Item = (u64, T)>) -> Self {
        let mut to_come: Vec<(u64, T)> = changes.collect();
        to_come.reverse();
        let next_at = to_come.last().map_or(u64::MAX, |(at, _)| *at);
        Steps { current: value, next_at, to_come }
    }

    pub fn at(&mut self, time: u64) -> &T {
        self.pass(time);
        &self.current
    }

    /// Advances to this time. Returns whether the value changed.
    pub fn pass(&mut self, time: u64) -> bool {
        if time < self.next_at {
            return false;
        }
        while let Some((_, value)) = self.to_come.pop_if(|(at, _)| *at <= time) {
            self.current = value;
        }
        self.next_at = self.to_come.last().map_or(u64::MAX, |(at, _)| *at);
        true
    }

    /// The value at the latest query.
    pub fn current(&self) -> &T {
        &self.current
    }

    /// Time of the next change, or `u64::MAX`.
    pub fn next_at(&self) -> u64 {
        self.next_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_that_of_the_last_change_before() {
        let mut steps = Steps::new('a', [(10, 'b'), (20, 'c'), (30, 'd')].into_iter());
        assert_eq!((*steps.at(9), steps.next_at()), ('a', 10));
        assert_eq!((*steps.at(10), steps.next_at()), ('b', 20));
        assert_eq!((*steps.at(30), steps.next_at()), ('d', u64::MAX));
        assert!(!steps.pass(99));
        assert_eq!(*Steps::fixed('x').at(u64::MAX), 'x');
    }
}
