//! An asymmetric store-load barrier: nearly free on one side, a system call on the other.
//!
//! Two threads that each store to their own word and then read the other's need a full fence each, or both
//! may read the old value (Dekker). Where one side is hot and the other about to sleep, the cost can be
//! moved. The hot side calls [`Asymmetric::light`], which only constrains the compiler. The cold side calls
//! [`Asymmetric::heavy`], which makes the kernel run a full fence on every CPU that runs a thread of this
//! process (`membarrier`, Linux 4.14). Where that is not available, both sides are plain `SeqCst` fences.
//!
//! *Proof.* For a hot thread H and a cold thread C, the kernel's fence falls at some point of H's program. If
//! it is after H's store, C sees that store when it reads. If it is before the store, H's later load sees
//! what C stored before `heavy`. The model checkers see a `SeqCst` fence on both sides, which promises the
//! same and no more.
//!
//! # When the kernel refuses later
//!
//! The call can fail although it once succeeded: a seccomp filter is installed after the start, or the kernel
//! has no memory for a list of CPUs. Then the process falls back to two fences, forever. One word of the
//! process records the mode, which only moves forward:
//!
//! ```text
//!   UNASKED ──▶ WIDE ──▶ CHANGING ──▶ FENCES      WIDE: `light` is a compiler fence, else a full fence
//!      └────────────────────────────────▲
//! ```
//!
//! The first `heavy` that is refused stores `CHANGING`, waits for the grace period of 10 ms, and stores
//! `FENCES`. A `heavy` that is refused meanwhile waits for the end of that period. A `heavy` that finds
//! `FENCES` is only a fence.
//!
//! *Proof.* The hot side does *store X; load the word; load Y*, the cold side *store Y; refused;
//! store `CHANGING`; grace period; load X*. The cold side misses X only if H's store of X is not visible
//! after the period.
//!
//! - H loads something other than `WIDE`: it has run a full fence between X and Y. So have all cold threads.
//!   That is Dekker with two fences.
//! - H loads `WIDE`. It executed that load before `CHANGING` was visible, which is before the period began:
//!   `CHANGING` is stored by a sequentially consistent store followed by a fence. H's store of X comes before
//!   that load in program order. So X was in H's store buffer, or about to enter it, when the period began.
//!   - H keeps its CPU: the store buffer drains by itself, within nanoseconds or, with every line contended,
//!     microseconds. The period is longer by three orders of magnitude.
//!   - H loses its CPU: the kernel's switch of threads has a full fence, before H is seen as not running.
//!     `membarrier` itself relies on that fence for threads that do not run. An interrupt, or a hypervisor
//!     that stops the virtual CPU, does not hold back the store buffer: it drains while the CPU runs other
//!     code.
//!
//!   In both cases X is visible before the period ends, and C reads it.
//!
//! The step for a thread that keeps its CPU is a bound in time, not an order of memory. No architecture that
//! this crate compiles for states such a bound. It is the only step of that kind, and it is taken once per
//! process.

use crate::atomic::{Ordering, fence};

/// A full fence directly behind a sequentially consistent read-modify-write of the caller's. On x86-64 that
/// instruction was one, so only the compiler is constrained.
#[inline]
pub fn fence_behind_swap() {
    #[cfg(all(target_arch = "x86_64", not(any(warpweft_loom, warpweft_shuttle, miri))))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(any(warpweft_loom, warpweft_shuttle, miri)))))]
    fence(Ordering::SeqCst);
}

/// A pair of fences, of which `light` is for the hot side. All values are equal: the mode belongs to the
/// process.
#[derive(Debug, Clone, Copy)]
pub struct Asymmetric(());

impl Asymmetric {
    /// Asks the kernel once whether it has a process-wide barrier, and registers this process for it.
    #[must_use]
    pub fn new() -> Self {
        membarrier::register();
        Self(())
    }

    /// Returns true if `light` is nearly free here. Once false, it stays false.
    #[must_use]
    pub fn is_process_wide(self) -> bool {
        membarrier::is_wide()
    }

    /// The hot side's store-load barrier: a compiler fence, or a full fence where the kernel has no
    /// `membarrier`.
    #[inline]
    pub fn light(self) {
        // The load of the mode stays between the caller's store and its load.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if membarrier::is_wide() {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            crate::hint::cold_path();
            fence(Ordering::SeqCst);
        }
    }

    /// The hot side of [`heavy_or_nothing`](Self::heavy_or_nothing): a compiler fence, without the look at
    /// the mode.
    #[inline]
    pub fn light_or_nothing() {
        #[cfg(any(warpweft_loom, warpweft_shuttle))]
        fence(Ordering::SeqCst);
        #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// As [`heavy`](Self::heavy), for a cold side that can give up: orders against every
    /// [`light_or_nothing`](Self::light_or_nothing) of this process. Returns false if it does not, because
    /// the kernel has no process-wide barrier, or refuses it.
    #[must_use]
    pub fn heavy_or_nothing(self) -> bool {
        let is_checked = cfg!(any(warpweft_loom, warpweft_shuttle));
        if !is_checked && !self.is_process_wide() {
            return false;
        }
        self.heavy();
        is_checked || self.is_process_wide()
    }

    /// The cold side's store-load barrier: orders against every `light` of this process. If the kernel
    /// refuses its part for the first time, this takes some 10 ms.
    #[inline]
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        membarrier::run();
    }
}

impl Default for Asymmetric {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the kernel's barrier fail in this process while `refused` is set, as in a sandbox that forbids it.
/// For tests of that case.
///
/// When it is cleared, the process asks the kernel again, as at its start. So no other thread may be in
/// `light` or `heavy` at that moment.
#[doc(hidden)]
pub fn refuse(refused: bool) {
    membarrier::refuse(refused);
}

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod membarrier {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    /// The kernel has not been asked yet.
    const UNASKED: u8 = 0;
    /// The kernel runs the fence of the hot side.
    const WIDE: u8 = 1;
    /// The kernel has refused. Some hot threads may have read `WIDE` a moment ago.
    const CHANGING: u8 = 2;
    /// Each side runs its own fence.
    const FENCES: u8 = 3;

    static MODE: AtomicU8 = AtomicU8::new(UNASKED);

    /// Held while `MODE` changes, so that each cold thread that is refused returns after the grace period.
    static CHANGE: Mutex<()> = Mutex::new(());

    /// How long the cold side waits for hot threads that have read `WIDE`: see the head of this file.
    const GRACE: Duration = Duration::from_millis(10);

    static REFUSED: AtomicBool = AtomicBool::new(false);

    pub(super) fn register() {
        if MODE.load(Ordering::Acquire) == UNASKED {
            ask();
        }
    }

    #[cold]
    fn ask() {
        let _change = lock();
        if MODE.load(Ordering::Relaxed) == UNASKED {
            let granted = is_granted(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
            // Ordering: Release, so that a thread that reads it relies on a registration that has ended.
            MODE.store(if granted { WIDE } else { FENCES }, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn is_wide() -> bool {
        // Ordering: Relaxed. Nothing is read through it: see the head of this file.
        MODE.load(Ordering::Relaxed) == WIDE
    }

    pub(super) fn run() {
        // Ordering: Acquire pairs with the Release after the grace period, which is over then.
        if MODE.load(Ordering::Acquire) == FENCES || is_granted(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            return;
        }
        use_fences();
    }

    /// Changes to fences after the kernel has refused the barrier. Returns when each `light` that relied on
    /// it is over. It never panics, because it runs on the way to a worker's sleep.
    #[cold]
    fn use_fences() {
        let change = lock();
        if MODE.load(Ordering::Relaxed) != FENCES {
            MODE.store(CHANGING, Ordering::SeqCst);
            // Visible to all before the period begins.
            fence(Ordering::SeqCst);
            let start = Instant::now();
            while let Some(rest) = GRACE.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
                sleep(rest);
            }
            // Ordering: Release; a thread that reads it knows that the period is over.
            MODE.store(FENCES, Ordering::Release);
        }
        drop(change);
        // The caller's load comes after the period.
        fence(Ordering::SeqCst);
    }

    /// Sleeps; may return early. Not the sleep of `std`, which panics where a sandbox forbids it.
    fn sleep(rest: Duration) {
        let rest = libc::timespec {
            tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        };
        // SAFETY: it reads one `timespec`, and only during the call; with a null pointer the kernel does not
        // write what is left after a signal.
        unsafe { libc::nanosleep(&raw const rest, std::ptr::null_mut()) };
    }

    fn lock() -> MutexGuard<'static, ()> {
        CHANGE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_granted(command: libc::c_int) -> bool {
        if REFUSED.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: `membarrier` takes a command, flags and a CPU number by value and touches no memory of
        // ours. An unknown command or a kernel without it returns -1.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
        result == 0
    }

    pub(super) fn refuse(refused: bool) {
        REFUSED.store(refused, Ordering::SeqCst);
        if !refused {
            MODE.store(UNASKED, Ordering::SeqCst);
            register();
        }
    }
}

/// The simulated machine has the barrier, and never refuses it.
#[cfg(warpweft_sim)]
mod membarrier {
    pub(super) fn register() {}

    pub(super) fn is_wide() -> bool {
        true
    }

    pub(super) fn run() {
        warpweft_sim::barrier();
    }

    pub(super) fn refuse(_refused: bool) {}
}

#[cfg(not(any(
    warpweft_sim,
    all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle)))
)))]
mod membarrier {
    pub(super) fn register() {}

    #[inline]
    pub(super) fn is_wide() -> bool {
        false
    }

    pub(super) fn run() {}

    pub(super) fn refuse(_refused: bool) {}
}
