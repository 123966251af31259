//! An evaluation: the questions of RFC 9743 to one algorithm, judged beside the algorithms in use.
//!
//! The questions are plain scenarios. [`Question::over`] gives a question an algorithm as its variant, [`figures`] are what
//! its runs say, [`judge`] turns them into words beside those of the baselines, and [`page`] writes them. An evaluation
//! starts no runs.

mod figures;
mod judge;
mod page;
mod questions;
mod risk;
mod summary;

pub use figures::{AlgorithmFigures, FIGURES_SCHEMA, QuestionFigures, origin, shipped_in};
pub use judge::{JudgedCell, Word};
pub use page::{document, overview};
pub use questions::{NotMeasured, Question, not_measured, questions};
pub use risk::findings;
pub use summary::{
    EVALUATION_SCHEMA, Evaluation, JudgedCriterion, JudgedProperty, Measured, OfAlgorithms, Witness, criteria,
};
