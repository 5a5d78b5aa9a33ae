//! What a workload takes from the machine that it runs on: time, its own atomics, and a way to the outside.
//!
//! The build for the simulator (`--cfg warpweft_sim`) has them from the simulated machine. A workload that
//! takes time, threads or atomics from elsewhere cannot be simulated: see [`Program::SIMULATES`].
//!
//! [`Program::SIMULATES`]: crate::program::Program::SIMULATES

use std::sync::mpsc::{Receiver, RecvError};
use std::time::{Duration, Instant};

#[cfg(not(warpweft_sim))]
mod here {
    use std::cell::Cell;
    use std::sync::mpsc::{Receiver, RecvError};
    use std::time::{Duration, Instant};

    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::thread::yield_now;

    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    #[inline]
    pub(crate) fn thread_slot<R>(f: impl FnOnce(&Cell<usize>) -> R) -> R {
        NUMBER.with(f)
    }

    #[inline]
    pub(super) fn now() -> Instant {
        Instant::now()
    }

    #[inline]
    pub(super) fn between(moment: Instant, now: Instant) -> Duration {
        now.saturating_duration_since(moment)
    }

    pub(super) fn sleep(time: Duration) {
        std::thread::sleep(time);
    }

    pub(super) fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
        from.recv()
    }

    pub(crate) use crate::kit::burn::burn;

    #[inline(always)]
    pub(crate) fn takes(_nanos: u64) {}

    #[inline(always)]
    pub(crate) fn reads(_range: &[u8]) {}

    #[inline(always)]
    pub(crate) fn writes(_range: &[u8]) {}
}

#[cfg(warpweft_sim)]
mod here {
    use std::cell::Cell;
    use std::sync::OnceLock;
    use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
    use std::time::{Duration, Instant};

    use warpweft::sim;

    pub(crate) use warpweft::sim::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, spin_loop, yield_now,
    };

    /// How often an external thread looks for a message.
    const LOOK: Duration = Duration::from_micros(50);

    static NUMBER: sim::LocalKey<Cell<usize>> = sim::LocalKey::new(|| Cell::new(usize::MAX));
    /// Virtual time 0.
    static ZERO: OnceLock<Instant> = OnceLock::new();

    pub(crate) fn thread_slot<R>(f: impl FnOnce(&Cell<usize>) -> R) -> R {
        NUMBER.with(f)
    }

    pub(super) fn now() -> Instant {
        let time = Duration::from_nanos(sim::now_ns());
        // The length of this code depends on the host's clock.
        sim::uncounted(|| *ZERO.get_or_init(Instant::now) + time)
    }

    pub(super) fn between(moment: Instant, now: Instant) -> Duration {
        sim::uncounted(|| now.saturating_duration_since(moment))
    }

    pub(super) fn sleep(time: Duration) {
        sim::sleep(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
        // A channel of the system would block the host's only thread.
        loop {
            match from.try_recv() {
                Ok(value) => return Ok(value),
                Err(TryRecvError::Disconnected) => return Err(RecvError),
                Err(TryRecvError::Empty) => sleep(LOOK),
            }
        }
    }

    pub(crate) fn burn(take: Duration) -> Duration {
        sim::compute(take.as_nanos() as u64);
        take
    }

    pub(crate) fn takes(nanos: u64) {
        sim::compute(nanos);
    }

    pub(crate) fn reads(range: &[u8]) {
        sim::touch(range);
    }

    pub(crate) fn writes(range: &[u8]) {
        sim::touch_to_write(range);
    }
}

pub(crate) use here::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, burn, reads, spin_loop, takes, thread_slot,
    writes, yield_now,
};

/// This moment.
#[inline]
pub(crate) fn now() -> Instant {
    here::now()
}

/// The time since a moment.
#[inline]
pub(crate) fn since(moment: Instant) -> Duration {
    here::between(moment, now())
}

/// Lets the calling thread, which is no worker, sleep.
pub(crate) fn sleep(time: Duration) {
    here::sleep(time);
}

/// Waits for a message on a thread that is no worker.
///
/// # Errors
///
/// All senders are gone.
pub(crate) fn receive<T>(from: &Receiver<T>) -> Result<T, RecvError> {
    here::receive(from)
}

/// Spins for so long by the clock; simulated, it computes.
#[inline]
pub(crate) fn spin(time: Duration) {
    if cfg!(warpweft_sim) {
        return takes(time.as_nanos() as u64);
    }
    let start = now();
    while since(start) < time {
        spin_loop();
    }
}
