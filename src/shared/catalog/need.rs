//! What an algorithm needs of the kernel that not every supported kernel has. Only this file decides it.

use super::algorithm::{Algorithm, Companion, CompanionPlace};
use crate::failure::Failure;

/// Flags of an ops table: TCP_CONG_NEEDS_ACCECN, TCP_CONG_ECT_1_NEGOTIATION and TCP_CONG_NO_FALLBACK_RFC3168.
const ACCURATE_ECN: u32 = 0x4 | ECT_1 | 0x10;
/// Data with ECT(1), which the kernel itself sends only in the handshake.
const ECT_1: u32 = 0x8;
/// Changes ECT(0) to ECT(1) at the egress of every device.
const ECT_1_COMPANION: &str = "ect1";

/// A newer kernel than the oldest supported one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelNeed {
    /// Accurate ECN (RFC 9768).
    AccurateEcn,
}

impl KernelNeed {
    pub(super) fn of_flags(flags: u32) -> Option<KernelNeed> {
        (flags & ACCURATE_ECN != 0).then_some(KernelNeed::AccurateEcn)
    }

    /// The release that brought it, such as "Linux 7.0".
    pub fn release(self) -> &'static str {
        match self {
            KernelNeed::AccurateEcn => "Linux 7.0",
        }
    }

    pub fn phrase(self) -> &'static str {
        match self {
            KernelNeed::AccurateEcn => "Accurate ECN (RFC 9768)",
        }
    }

    fn unmet(self) -> Failure {
        let what = format!("this kernel has no {}, which came with {}", self.phrase(), self.release());
        let elsewhere = "in virtual time `tccc run --engine virtual --kernel 7.3` has it";
        Failure::unmet(what).hint(format!("use a kernel of {} or newer; {elsewhere}", self.release()))
    }
}

/// The companion that the flags of an ops table ask for.
pub(super) fn companion_of_flags(flags: u32) -> Option<Companion> {
    (flags & ECT_1 != 0).then(|| Companion { program: ECT_1_COMPANION.to_owned(), place: CompanionPlace::Egress })
}

impl Algorithm {
    /// Asks `has_accurate_ecn` only if the answer matters, because it may read the kernel's types.
    ///
    /// # Errors
    /// The kernel lacks what the algorithm needs. The reason does not name the algorithm.
    pub fn check_kernel(&self, has_accurate_ecn: impl FnOnce() -> bool) -> Result<(), Failure> {
        match self.need {
            Some(need @ KernelNeed::AccurateEcn) if !has_accurate_ecn() => Err(need.unmet()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_new_kernels_are_a_need_and_others_are_none() {
        for (flags, need) in
            [(0, None), (1, None), (3, None), (4, Some(())), (8, Some(())), (16, Some(())), (30, Some(()))]
        {
            assert_eq!(KernelNeed::of_flags(flags).map(drop), need, "{flags}");
            assert_eq!(companion_of_flags(flags).is_some(), flags & 8 != 0, "{flags}");
        }
    }

    #[test]
    fn refusal_names_the_need_the_release_and_a_way_out() {
        let prague = crate::catalog::find("prague").unwrap();
        assert_eq!(prague.check_kernel(|| true), Ok(()));
        let refused = prague.check_kernel(|| false).unwrap_err();
        assert_eq!(refused.what, "this kernel has no Accurate ECN (RFC 9768), which came with Linux 7.0");
        assert!(refused.hint.unwrap().contains("--kernel 7.3"));
        let asked = || panic!("the answer does not matter");
        assert_eq!(crate::catalog::find("bpf_dctcp").unwrap().check_kernel(asked), Ok(()));
    }
}
