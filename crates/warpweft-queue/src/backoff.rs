//! Waits for another thread that is in the middle of a short step.

use warpweft_platform::atomic::spin_loop;
use warpweft_platform::thread::yield_now;

/// Spins a little longer each time. Later it yields the CPU, since the other thread may have none.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    step: u32,
}

/// At most 2^6 spins, about a tenth of a microsecond: less than it costs to yield the CPU.
const SPIN_STEPS: u32 = 6;

impl Backoff {
    /// Waits once.
    pub(crate) fn wait(&mut self) {
        if cfg!(any(warpweft_loom, warpweft_shuttle)) || self.step > SPIN_STEPS {
            yield_now();
        } else {
            (0..1 << self.step).for_each(|_| spin_loop());
            self.step += 1;
        }
    }
}
