//! What a number means if runs ended before the event that its metric waits for.

use super::number::NOTHING;

/// How a measured number relates to the one from longer runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Bound {
    #[default]
    Exact,
    /// Longer runs give as much or more.
    Lower,
    /// Longer runs give as much or less.
    Upper,
    /// Both sides of a ratio are cut off.
    Unknown,
}

impl Bound {
    /// The bound of a ratio whose own or baseline runs were cut off.
    pub fn of_ratio(cut_off: usize, baseline_cut_off: usize) -> Bound {
        match (cut_off > 0, baseline_cut_off > 0) {
            (false, false) => Bound::Exact,
            (true, false) => Bound::Lower,
            (false, true) => Bound::Upper,
            (true, true) => Bound::Unknown,
        }
    }

    /// The word in CSV.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Exact | Bound::Unknown => "",
            Bound::Lower => "lower",
            Bound::Upper => "upper",
        }
    }

    /// A shown number with the sign of its bound.
    pub fn signed(self, number: &str) -> String {
        match self {
            Bound::Exact => number.to_owned(),
            Bound::Lower => format!("≥ {number}"),
            Bound::Upper => format!("≤ {number}"),
            Bound::Unknown => NOTHING.to_owned(),
        }
    }

    /// Whether longer runs may still meet a target that the number misses.
    pub fn may_meet(self, number: f64, target: f64) -> bool {
        match self {
            Bound::Exact => false,
            Bound::Lower => number < target,
            Bound::Upper => number > target,
            Bound::Unknown => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_bounded_by_the_side_that_is_cut_off_and_may_meet_only_what_lies_beyond() {
        for (cut_off, shown, may_meet) in [
            ([0, 0], "5.00", [false, false]),
            ([1, 0], "≥ 5.00", [false, true]),
            ([0, 3], "≤ 5.00", [true, false]),
            ([1, 1], "-", [true, true]),
        ] {
            let bound = Bound::of_ratio(cut_off[0], cut_off[1]);
            assert_eq!(
                (bound.signed("5.00").as_str(), [4.0, 6.0].map(|target| bound.may_meet(5.0, target))),
                (shown, may_meet)
            );
        }
    }
}
