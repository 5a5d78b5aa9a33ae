//! One word by which a thread asks another one for a copy of its stack, and the handler of a signal answers.
//!
//! ```text
//!                     ask                  begin                 end
//!            FREE ───────────▶ ASKED ──────────────▶ COPYING ──────────▶ DONE
//!             ▲                 │ withdraw             │ withdraw          │ release
//!             │                 ▼                      ▼                   │
//!             ├─────────────── FREE    FREE ◀──end── ABANDONED             │
//!             └────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - The buffer belongs to the asking thread while the word is `DONE`, to the handler while it is `COPYING`
//!   or `ABANDONED`, and to no thread otherwise.
//! - Only the thread that is named in the word begins, and it begins once. A signal that comes late, or for
//!   another request, finds another word and does nothing.
//! - The handler never waits: `begin` and `end` are a bounded number of operations.

use crate::atomic::{AtomicU64, Ordering};

const FREE: u64 = 0;
const ASKED: u64 = 1;
const COPYING: u64 = 2;
const ABANDONED: u64 = 3;
const DONE: u64 = 4;
const BITS: u32 = 3;

/// The word. See the module.
#[derive(Debug)]
pub struct Request(AtomicU64);

/// What [`Request::withdraw`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawn {
    /// The thread has not begun, and will not.
    Unanswered,
    /// The thread is in the middle of the copy. The request is free again when it has ended.
    Copying,
    /// The copy is there, and belongs to the caller.
    Done,
}

impl Request {
    /// Makes a free one.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "the request is in a static, and `default` is no const fn"
    )]
    pub const fn new() -> Self {
        Self(AtomicU64::new(FREE))
    }

    /// Makes a free one.
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "as above")]
    pub fn new() -> Self {
        Self(AtomicU64::new(FREE))
    }

    const fn asked(thread: u32) -> u64 {
        (thread as u64) << BITS | ASKED
    }

    /// Asks `thread`. Returns true if the request was free; then it is the caller's until it is
    /// [released](Self::release) or [withdrawn](Self::withdraw).
    pub fn ask(&self, thread: u32) -> bool {
        // Ordering: Acquire takes the buffer from the thread that released it, and Release gives it to the
        // handler.
        self.0
            .compare_exchange(FREE, Self::asked(thread), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Begins the copy, if `thread`, the calling one, is asked. Returns true if the buffer is the caller's
    /// until [`end`](Self::end).
    pub fn begin(&self, thread: u32) -> bool {
        self.0
            .compare_exchange(Self::asked(thread), COPYING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Ends the copy.
    pub fn end(&self) {
        // Ordering: Release gives the copy to the asking thread, or the buffer to the next one.
        let given = self
            .0
            .compare_exchange(COPYING, DONE, Ordering::Release, Ordering::Relaxed);
        if given.is_err() {
            // Abandoned: no other thread changes the word now.
            self.0.store(FREE, Ordering::Release);
        }
    }

    /// Returns true if the copy is there. Then the buffer is the asking thread's.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// Takes back the request that the caller has made for `thread`.
    pub fn withdraw(&self, thread: u32) -> Withdrawn {
        let change = |from, to| {
            self.0
                .compare_exchange(from, to, Ordering::Acquire, Ordering::Acquire)
        };
        if change(Self::asked(thread), FREE).is_ok() {
            return Withdrawn::Unanswered;
        }
        match change(COPYING, ABANDONED) {
            Ok(_) => Withdrawn::Copying,
            Err(_) => Withdrawn::Done,
        }
    }

    /// Gives the request free, after the copy was read.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }
}
