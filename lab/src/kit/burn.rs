//! Computing for a given time: the CPU's, not the clock's.
//!
//! A thread that spins until the clock says so does less the more threads there are on a CPU. A thread that
//! spins until it has *had* a CPU for that time does the same work, whether there are eight of them or one.

use std::hint;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// For how long the calling thread has had a CPU.
fn had() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(tv_sec.cast_unsigned(), tv_nsec as u32)
}

/// Spins until the calling thread has had a CPU for so long. For how long it has had one.
pub(crate) fn burn(take: Duration) -> Duration {
    let start = had();
    loop {
        let spent = had().saturating_sub(start);
        let Some(left) = take.checked_sub(spent).filter(|left| !left.is_zero()) else {
            return spent;
        };
        // The clock is cheaper to read, and never behind: so this is one round or two, and one more each time
        // that the thread waited.
        let round = Instant::now();
        while round.elapsed() < left {
            hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroUsize;
    use std::thread;

    #[test]
    fn it_takes_a_cpus_time_whoever_else_wants_it() {
        const TAKE: Duration = Duration::from_millis(5);
        let threads = 2 * thread::available_parallelism().map_or(2, NonZeroUsize::get) as u32;
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| assert!(burn(TAKE) >= TAKE));
            }
        });
        // Twice as many threads as CPUs: by the clock alone they would be through after 5 ms.
        assert!(start.elapsed() >= 2 * TAKE, "{:?}", start.elapsed());
    }

    #[test]
    fn nothing_takes_no_time() {
        assert!(burn(Duration::ZERO) < Duration::from_millis(1));
    }
}
