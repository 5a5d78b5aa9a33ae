//! An asymmetric store-load barrier: nearly free on one side, a system call on the other.
//!
//! Two threads that each store to their own word and then read the other's need a full fence each, or both may
//! read the old value (Dekker). Where one side is hot and the other about to sleep, the cost can be moved: the hot
//! side calls [`Asymmetric::light`], which only keeps the compiler in order, and the cold side calls
//! [`Asymmetric::heavy`], which makes the kernel run a full fence on every CPU that runs a thread of this process
//! (`membarrier`, Linux 4.14). Where that is not to be had, both sides are plain `SeqCst` fences.
//!
//! *Why it is right.* For a hot thread H and a cold thread C, the kernel's fence falls at some point of H's program:
//! either after H's store, which C then sees when it reads; or before it, and then H's later load sees what C stored
//! before `heavy`. The model checkers see a `SeqCst` fence on both sides, which promises the same and no more.

use crate::atomic::{Ordering, fence};

/// A pair of fences, of which `light` is for the hot side.
#[derive(Debug, Clone, Copy)]
pub struct Asymmetric {
    process_wide: bool,
}

impl Asymmetric {
    /// Asks the kernel once whether it has a process-wide barrier, and registers this process for it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            process_wide: membarrier::register(),
        }
    }

    /// Two full fences: for comparison, and for what the kernel forbids.
    #[must_use]
    pub fn symmetric() -> Self {
        Self { process_wide: false }
    }

    /// Whether `light` is nearly free here.
    #[must_use]
    pub fn is_process_wide(self) -> bool {
        self.process_wide
    }

    /// The hot side's store-load barrier: a compiler fence, or a full fence where the kernel has no `membarrier`.
    #[inline]
    pub fn light(self) {
        if self.process_wide {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            std::hint::cold_path();
            fence(Ordering::SeqCst);
        }
    }

    /// The cold side's store-load barrier: orders against every `light` of this process.
    #[inline]
    pub fn heavy(self) {
        fence(Ordering::SeqCst);
        if self.process_wide {
            membarrier::run();
        }
    }
}

impl Default for Asymmetric {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]
mod membarrier {
    use std::sync::OnceLock;

    pub(super) fn register() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
    }

    pub(super) fn run() {
        let result = call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        // It cannot fail once registered; were it to, a lost wake-up would follow, so say it at once.
        assert_eq!(result, 0, "membarrier failed after it was registered");
    }

    fn call(command: libc::c_int) -> libc::c_long {
        // SAFETY: `membarrier` takes a command, flags and a CPU number by value and touches no memory of ours;
        // an unknown command or a kernel without it returns -1.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }
}

#[cfg(not(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle)))))]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn run() {}
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Asymmetric;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Dekker's test, many times: both sides reading 0 would be the lost wake-up.
    fn dekker(barrier: Asymmetric) {
        const ROUNDS: u32 = 20_000;
        let (hot, cold) = (AtomicU32::new(0), AtomicU32::new(0));
        let seen = [const { AtomicU32::new(0) }; 2];
        let gate = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    gate.wait();
                    hot.store(round, Ordering::Relaxed);
                    barrier.light();
                    seen[0].store(cold.load(Ordering::Relaxed), Ordering::Relaxed);
                    gate.wait();
                }
            });
            for round in 1..=ROUNDS {
                gate.wait();
                cold.store(round, Ordering::Relaxed);
                barrier.heavy();
                seen[1].store(hot.load(Ordering::Relaxed), Ordering::Relaxed);
                gate.wait();
                let (by_hot, by_cold) = (seen[0].load(Ordering::Relaxed), seen[1].load(Ordering::Relaxed));
                assert!(
                    by_hot == round || by_cold == round,
                    "both sides missed each other in round {round}"
                );
            }
        });
    }

    #[test]
    fn one_of_two_sides_sees_the_other_process_wide() {
        dekker(Asymmetric::new());
    }

    #[test]
    fn one_of_two_sides_sees_the_other_symmetric() {
        dekker(Asymmetric::symmetric());
    }
}
