//! The states of a pool: open, draining, closing, closed. It also counts the external threads that are
//! inside.
//!
//! ```text
//!   OPEN ──drain──▶ DRAINING ──close──▶ CLOSING ──last worker left──▶ CLOSED
//!   spawns accepted  those from outside   workers leave after their     the last worker has ended every
//!     │              are refused          present task                  task; the memory waits for its
//!     └──────────────────close────────────▶                             last handle
//! ```
//!
//! A thread that is no worker of the pool and pushes into it is an *external thread* while it touches the
//! pool. After CLOSING an external thread keeps its task away from the policy and ends it at once.
//!
//! # Invariants
//!
//! - The policy's state is dropped after the last worker left and no external thread is inside. An external
//!   thread that comes later sees CLOSING.
//! - `accesses` counts the external threads inside in its lower 24 bits, and above them the tasks that such
//!   threads have given to the policy. One addition changes both at the end of an access. The count above is
//!   taken modulo [`Lifecycle::MODULUS`].
//! - Every unfinished task that was ever suspended is among the owned tasks until it ends. The pool waits
//!   until there are none, and then for the external threads to leave. So a wake never touches a pool that is
//!   gone.

use warpweft_platform::CachePadded;
use warpweft_platform::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use warpweft_platform::thread::yield_now;

#[derive(Debug)]
pub(crate) struct Lifecycle {
    /// Alone on its cache line: every worker reads it before each task.
    closing: CachePadded<AtomicBool>,
    /// Spawns from outside of the runtime are refused. Read by such spawns alone.
    draining: AtomicBool,
    accesses: AtomicU64,
    /// The workers whose threads have not left.
    workers: AtomicUsize,
}

/// An access by an external thread. The pool stays alive for its length.
#[derive(Debug)]
pub(crate) struct Access<'a> {
    lifecycle: &'a Lifecycle,
    open: bool,
    /// What the end of the access adds to `accesses`.
    end: u64,
}

/// One task that was given to the policy, in `accesses`. There are far fewer external threads at a time than
/// fit below.
const HANDED: u64 = 1 << 24;

impl Access<'_> {
    /// Returns true if the external thread may give tasks to the policy.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Notes that the external thread gives one task to the policy. The end of the access counts it, also
    /// when it unwinds. Once per access.
    pub(crate) fn hand_over(&mut self) {
        self.end = HANDED.wrapping_sub(1);
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        // Ordering: Release pairs with the Acquire in `wait_for_accesses`. The last touch of the pool.
        self.lifecycle.accesses.fetch_add(self.end, Ordering::Release);
    }
}

impl Lifecycle {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            closing: CachePadded::new(AtomicBool::new(false)),
            draining: AtomicBool::new(false),
            accesses: AtomicU64::new(0),
            workers: AtomicUsize::new(workers),
        }
    }

    /// Refuses spawns from outside from now on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns true if spawns from outside are refused.
    pub(crate) fn is_draining(&self) -> bool {
        // Ordering: Relaxed. A spawn at the same moment may come before or after it.
        self.draining.load(Ordering::Relaxed)
    }

    /// Begins the end. Returns true to the caller that began it.
    pub(crate) fn close(&self) -> bool {
        // Ordering: the fence in `wait_for_accesses` orders it against external threads; workers see it by
        // the idle protocol.
        !self.closing.swap(true, Ordering::AcqRel)
    }

    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Ordering: Acquire pairs with `close`, so that its reason may be read.
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn access(&self) -> Access<'_> {
        self.accesses.fetch_add(1, Ordering::Relaxed);
        // Dekker: the external thread writes `accesses` and reads `closing`; the last worker does the
        // reverse.
        fence(Ordering::SeqCst);
        Access {
            lifecycle: self,
            open: !self.is_closing(),
            end: 1_u64.wrapping_neg(),
        }
    }

    /// Waits until no external thread is inside. Accesses are short, so it spins.
    pub(crate) fn wait_for_accesses(&self) {
        // Pairs with the fence in `access`: an external thread that is not seen here has seen `closing`.
        fence(Ordering::SeqCst);
        // Ordering: Acquire pairs with the Release at the end of an access.
        while !self.accesses.load(Ordering::Acquire).is_multiple_of(HANDED) {
            yield_now();
        }
    }

    /// One more than the largest number that [`handed`](Self::handed) counts to.
    pub(crate) const MODULUS: u64 = u64::MAX / HANDED + 1;

    /// Returns the number of tasks that external threads have given to the policy, modulo
    /// [`MODULUS`](Self::MODULUS). It is exact when no such thread is inside.
    pub(crate) fn handed(&self) -> u64 {
        self.accesses.load(Ordering::Acquire) / HANDED
    }

    /// Adds a worker, unless the last one has left already. Returns true if it did.
    pub(crate) fn enter(&self) -> bool {
        // Ordering: Relaxed. The entering thread publishes nothing, and the last to leave acquires
        // everything.
        self.workers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |workers| {
                (workers != 0).then_some(workers + 1)
            })
            .is_ok()
    }

    /// Notes that `count` workers have left, or never came. Returns true if they were the last.
    pub(crate) fn leave(&self, count: usize) -> bool {
        // Ordering: AcqRel, so that the last one sees what the others did.
        self.workers.fetch_sub(count, Ordering::AcqRel) == count
    }
}
