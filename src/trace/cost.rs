//! What the callbacks of algorithms cost, as the kernel counts it while its BPF statistics are on.

use anyhow::Result;

use crate::kernel::probe::Features;
use crate::kernel::struct_ops;

/// One callback of one algorithm, since it was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// Kernel name.
    pub algorithm: String,
    /// Member of the ops table.
    pub callback: String,
    /// Calls while statistics were on.
    pub calls: u64,
    /// Time in them, nanoseconds.
    pub nanoseconds: u64,
}

/// What every algorithm that is a BPF program cost so far; callbacks that were not called are left out, and so is
/// everything while the kernel does not count.
///
/// Errors: not permitted to list the kernel's maps.
pub fn costs(features: &Features) -> Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for table in struct_ops::tables(features)? {
        for (callback, &id) in &table.programs {
            let Some(cost) = struct_ops::program_cost(id).ok().filter(|cost| cost.calls > 0) else { continue };
            let (algorithm, callback) = (table.name.clone(), callback.clone());
            costs.push(Cost { algorithm, callback, calls: cost.calls, nanoseconds: cost.nanoseconds });
        }
    }
    Ok(costs)
}
