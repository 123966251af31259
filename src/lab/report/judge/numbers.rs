//! One quantity over the finished runs of a cell.

use serde::Serialize;

use super::interval;
use shared::model::metrics::Metric;
use shared::model::stats;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunNumbers {
    /// Name of the metric, unit included.
    pub metric: &'static str,
    pub unit: &'static str,
    pub n: usize,
    pub mean: f64,
    /// 95 % interval of the mean; `None` with fewer than three runs.
    pub ci95: Option<[f64; 2]>,
    /// One value per run, in the order of the repeats.
    pub values: Vec<f64>,
}

impl RunNumbers {
    /// `None` without a value.
    pub fn of(metric: &'static str, unit: &'static str, values: Vec<f64>) -> Option<RunNumbers> {
        let most = Metric::find(metric).map_or(f64::INFINITY, |metric| metric.most);
        let ci95 = interval::mean_interval(&values).map(|(ends, _)| interval::up_to(most, ends));
        let mean = stats::mean(&values)?;
        Some(RunNumbers { metric, unit, n: values.len(), mean, ci95, values })
    }
}

/// The numbers of a metric among several.
pub fn numbers<'n>(all: &'n [RunNumbers], metric: &str) -> Option<&'n RunNumbers> {
    all.iter().find(|numbers| numbers.metric == metric)
}
