//! Statistics of a guard: do connections changed by a rule perform worse than those it left alone?
//!
//! Input: sums per arm and fold. Output: an estimate, an interval and a verdict. A guard looks every few seconds and
//! acts at the first look that shows harm. The evidence is therefore an e-value, whose error rate holds for any number of
//! looks.

mod estimate;
mod forecast;
mod look;
mod sample_ratio;
mod value;

pub use estimate::{
    ArmSums, CONNECTIONS_MIN, EVENTS_MIN, Effect, Estimate, FOLDS, NotYet, PEER_FOLDS_MIN, Sums, estimate,
};
pub use forecast::{FOLDS_TYPICAL, ForecastPlan, SPREAD_DEFAULT, detectable};
pub use look::{ALPHA, Limit, LimitVerdict, Look, MIXTURE_SD, Worse, look};
pub use sample_ratio::{MISMATCH, sample_ratio_e};
pub use value::{ValueNoise, ValueVerdict, WindowSums, judge_value};

#[cfg(test)]
mod tests;
