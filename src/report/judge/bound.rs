//! What runs that ended before what a metric waits for leave of a number: a bound, or nothing.

use super::number::NOTHING;

/// What a measured number says of the one that longer runs would give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bound {
    /// It is that number.
    #[default]
    Exact,
    /// That one is as large or larger.
    Lower,
    /// That one is as large or smaller.
    Upper,
    /// Nothing: both sides of a ratio are cut off.
    Nothing,
}

impl Bound {
    /// What a machine reads beside the number: nothing for the number itself.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Exact | Bound::Nothing => "",
            Bound::Lower => "lower",
            Bound::Upper => "upper",
        }
    }

    /// A shown number with the sign of its bound, where it is one.
    pub fn signed(self, number: &str) -> String {
        match self {
            Bound::Exact => number.to_owned(),
            Bound::Lower => format!("≥ {number}"),
            Bound::Upper => format!("≤ {number}"),
            Bound::Nothing => NOTHING.to_owned(),
        }
    }

    /// Whether longer runs may still meet a target that the number misses.
    pub fn may_meet(self, number: f64, target: f64) -> bool {
        match self {
            Bound::Exact => false,
            Bound::Lower => number < target,
            Bound::Upper => number > target,
            Bound::Nothing => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_may_meet_only_what_lies_beyond_it() {
        let beyond = |bound: Bound| [bound.may_meet(5.0, 4.0), bound.may_meet(5.0, 6.0)];
        assert_eq!(beyond(Bound::Exact), [false, false]);
        assert_eq!(beyond(Bound::Lower), [false, true]);
        assert_eq!(beyond(Bound::Upper), [true, false]);
        assert_eq!(beyond(Bound::Nothing), [true, true]);
    }
}
