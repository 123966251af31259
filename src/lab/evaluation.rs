//! An evaluation: the questions of RFC 9743 to one algorithm, judged beside the algorithms in use.
//!
//! The questions are plain scenarios. [`Question::over`] gives a question the candidate and its baselines as variants,
//! [`judge`] turns the reports of the runs into words, and [`page`] writes them. An evaluation starts no runs.

mod judge;
mod page;
mod questions;
mod summary;

pub use judge::{JudgedCell, Word};
pub use page::{document, overview};
pub use questions::{NotMeasured, Question, not_measured, questions};
pub use summary::{EVALUATION_SCHEMA, Evaluation, JudgedCriterion, JudgedProperty, Measured, criteria};
