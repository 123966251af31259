//! The streams of random numbers of a direction.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use strum::VariantArray;

/// The streams of random numbers of a direction. Each has its own generator, so that they are independent: a link with
/// jitter loses the same packets as one without.
///
/// These values must never change, because published results are repeated with their seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
#[repr(u64)]
pub enum RandomStream {
    /// Whether a packet is lost. Every loss model uses the same number.
    Loss = 0,
    /// Changes of the state of a loss model.
    State = 0x0073_7461_7465,
    Jitter = 0x6a69_7474_6572,
    Reorder = 0x7265_6f72_6465,
    Duplicate = 0x6475_706c_6963,
    AckLoss = 0x6163_6b6c_6f73,
    /// Whether a packet begins a batch.
    Hold = 0x6163_6b68_6f6c,
    /// Delays inside the sending host.
    Host = 0x0068_6f73_7464,
}

impl RandomStream {
    /// The generator for a direction with this seed.
    pub fn generator(self, seed: u64) -> Pcg64 {
        Pcg64::seed_from_u64(seed ^ self as u64)
    }
}
