//! What the callbacks of algorithms cost, as the kernel counts it while its BPF statistics are on.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::kernel::probe::Features;
use crate::kernel::struct_ops;

/// One callback of one algorithm, of all that are loaded under its name: one that was replaced stays until its last socket
/// closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallbackCost {
    pub algorithm: String,
    /// Member of the ops table.
    pub callback: String,
    /// Calls while statistics were on.
    pub calls: u64,
    pub nanoseconds: u64,
}

/// What every algorithm that is a BPF program cost so far; callbacks that were not called are left out, and so is
/// everything while the kernel does not count.
///
/// Errors: not permitted to list the kernel's maps.
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

fn summed(counted: Vec<CallbackCost>) -> Vec<CallbackCost> {
    let mut sums: BTreeMap<(String, String), [u64; 2]> = BTreeMap::new();
    for CallbackCost { algorithm, callback, calls, nanoseconds } in counted {
        let sum = sums.entry((algorithm, callback)).or_default();
        *sum = [sum[0] + calls, sum[1] + nanoseconds];
    }
    let cost = |((algorithm, callback), [calls, nanoseconds]): ((String, String), [u64; 2])| CallbackCost {
        algorithm,
        callback,
        calls,
        nanoseconds,
    };
    sums.into_iter().map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was a series of its own, under the same labels.
    #[test]
    fn algorithm_and_the_one_it_replaced_are_one() {
        let cost = |callback: &str, calls| CallbackCost {
            algorithm: "dtcp".into(),
            callback: callback.into(),
            calls,
            nanoseconds: 10 * calls,
        };
        let sums = summed(vec![cost("ssthresh", 1), cost("cong_avoid", 5), cost("ssthresh", 2)]);
        assert_eq!(sums, [cost("cong_avoid", 5), cost("ssthresh", 3)]);
    }
}
