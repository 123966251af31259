//! The costs of the algorithms' callbacks, which the kernel counts while its BPF statistics are on.

use anyhow::Result;

use shared::kernel::probe::Features;
use shared::kernel::struct_ops;

/// One callback, summed over all instances of an algorithm: a replaced one stays until its last socket closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackCost {
    pub algorithm: String,
    /// Member of the ops table.
    pub callback: String,
    pub calls: u64,
    pub nanoseconds: u64,
}

/// The costs of every BPF algorithm since statistics were on. Callbacks without calls are left out.
///
/// # Errors
/// Not permitted to list the kernel's maps.
pub fn costs(features: &Features) -> Result<Vec<CallbackCost>> {
    let mut counted = Vec::new();
    for table in struct_ops::tables(features)? {
        for (callback, &id) in &table.programs {
            let Some(cost) = struct_ops::program_cost(id).ok().filter(|cost| cost.calls > 0) else { continue };
            let (algorithm, callback) = (table.name.clone(), callback.clone());
            counted.push(CallbackCost { algorithm, callback, calls: cost.calls, nanoseconds: cost.nanoseconds });
        }
    }
    Ok(summed(counted))
}

fn summed(mut costs: Vec<CallbackCost>) -> Vec<CallbackCost> {
    costs.sort_by(|a, b| (&a.algorithm, &a.callback).cmp(&(&b.algorithm, &b.callback)));
    costs.dedup_by(|cost, sum| {
        let is_same = (&cost.algorithm, &cost.callback) == (&sum.algorithm, &sum.callback);
        if is_same {
            sum.calls += cost.calls;
            sum.nanoseconds += cost.nanoseconds;
        }
        is_same
    });
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each instance was a series of its own with the same labels.
    #[test]
    fn algorithm_and_the_one_it_replaced_are_one() {
        let cost = |callback: &str, calls| {
            let (algorithm, callback) = ("dtcp".into(), callback.into());
            CallbackCost { algorithm, callback, calls, nanoseconds: 10 * calls }
        };
        let sums = summed(vec![cost("ssthresh", 1), cost("cong_avoid", 5), cost("ssthresh", 2)]);
        assert_eq!(sums, [cost("cong_avoid", 5), cost("ssthresh", 3)]);
    }
}
