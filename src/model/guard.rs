//! Statistics of a guard: are the connections that a rule changed worse than those that it left alone?
//!
//! Sums per arm and fold come in; an estimate, an interval and a verdict come out. A guard looks every few seconds and acts
//! at the first look that shows harm. The evidence is therefore an e-value: its error rate holds however often one looks.

mod estimate;
mod forecast;
mod look;
mod sample_ratio;

pub use estimate::{
    ArmSums, CONNECTIONS_MIN, EVENTS_MIN, Effect, Estimate, FOLDS, NotYet, PEER_FOLDS_MIN, Sums, estimate,
};
pub use forecast::{FOLDS_TYPICAL, ForecastPlan, SPREAD_DEFAULT, detectable};
pub use look::{ALPHA, Limit, LimitVerdict, Look, MIXTURE_SD, Worse, exceeds, look};
pub use sample_ratio::{MISMATCH, sample_ratio_e};

#[cfg(test)]
mod tests;
