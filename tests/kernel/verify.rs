//! Kernel ring: every algorithm of the catalogue passes this kernel's verifier at a low cost.
//!
//! `cargo xtask verify` prints the table.

use tccc::loader::{Request, verify};

use super::*;
use crate::common::verdict;

/// Most instructions that the verifier may process for one callback: 1 % of the kernel's limit of a million. A
/// superfluous loop or branch exceeds this long before an older kernel refuses the program.
const COST_LIMIT: u32 = 10_000;
/// BBRv3 runs its whole state machine at each ACK.
const COST_LIMIT_OF_BBR3: u32 = 15_000;

#[test]
fn every_algorithm_passes_the_verifier_cheaply() {
    needs!(root, struct_ops);
    let _host = HostSnapshot::take(&["kernel_verify"]);
    let features = Features::probe().unwrap();
    println!("algorithm        callback                  instructions processed by the verifier");
    for algorithm in crate::common::need::loadable("verifier") {
        let verified = verify(&Request::of(algorithm), &features);
        verdict::record("verifier", &algorithm.id, verified.is_ok());
        let verified = verified.unwrap();
        let costs = verified.verifier_cost().unwrap();
        assert!(!costs.is_empty(), "\"{}\" has callbacks", algorithm.id);
        let limit = if algorithm.id == "bpf_bbr3" { COST_LIMIT_OF_BBR3 } else { COST_LIMIT };
        for (callback, cost) in costs {
            println!("{:16} {callback:25} {cost:6}", algorithm.id);
            assert!(cost <= limit, "{callback} of \"{}\" costs {cost}, at most {limit}", algorithm.id);
        }
    }
}
