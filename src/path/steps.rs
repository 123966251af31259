//! A value that changes at known moments, asked for at moments that never go back.

/// The value of now and those to come.
#[derive(Debug)]
pub struct Steps<T> {
    current: T,
    next_at: u64,
    /// Last first.
    to_come: Vec<(u64, T)>,
}

impl<T> Steps<T> {
    /// A value that stays.
    pub fn fixed(value: T) -> Self {
        Steps { current: value, next_at: u64::MAX, to_come: Vec::new() }
    }

    /// A value that changes to each of these at its moment; ascending.
    pub fn new(value: T, changes: impl Iterator<Item = (u64, T)>) -> Self {
        let mut to_come: Vec<(u64, T)> = changes.collect();
        to_come.reverse();
        let next_at = to_come.last().map_or(u64::MAX, |(at, _)| *at);
        Steps { current: value, next_at, to_come }
    }

    /// The value at this moment.
    pub fn at(&mut self, time: u64) -> &T {
        self.pass(time);
        &self.current
    }

    /// Goes on to this moment; whether the value changed.
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

    /// The value of the moment asked for last.
    pub fn current(&self) -> &T {
        &self.current
    }

    /// When it changes next; the end of time when it does not.
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
