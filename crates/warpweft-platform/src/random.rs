//! Random numbers for scheduling decisions: fast, seeded, one generator per worker, never shared.

/// A small non-cryptographic generator (wyrand, by the `fastrand` crate).
///
/// ```
/// use warpweft_platform::random::Rng;
/// let (mut a, mut b) = (Rng::seeded(7), Rng::seeded(7));
/// assert_eq!(a.below(1000), b.below(1000));
/// ```
#[derive(Debug, Clone)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// Makes a generator whose sequence depends on `seed` alone.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// Returns a number in `0..bound`; 0 when `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.0.usize(..bound) }
    }

    /// Returns a number in `0..bound` from the calling thread's generator; 0 when `bound` is 0.
    ///
    /// For callers that are not workers. The system seeds it; under the model checkers it is always 0,
    /// and in the simulator the seed of the run decides.
    #[inline]
    #[must_use]
    pub fn thread_below(bound: usize) -> usize {
        if bound == 0 || cfg!(any(warpweft_loom, warpweft_shuttle)) {
            return 0;
        }
        #[cfg(warpweft_sim)]
        return warpweft_sim::random_below(bound);
        #[cfg(not(warpweft_sim))]
        fastrand::usize(..bound)
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }
}
