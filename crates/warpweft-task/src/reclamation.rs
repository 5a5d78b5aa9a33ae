//! Times in which no task's memory is freed, so that a report may look at tasks that others take and end
//! meanwhile.
//!
//! A report has no reference to a task in a queue: whoever takes the task out runs it, and may free it. So
//! the report *holds* the memory of all tasks while it reads the queues and what it finds there.
//!
//! ```text
//!   the report                               who ends a task
//!     is_held = true                           takes it out of its queue, runs it
//!     heavy barrier                            light barrier
//!     reads queues, and tasks found there      is_held? ── no ──▶ frees it
//!     is_held = false                             └─ yes ──▶ leaves it to the last holder
//!     frees what was left
//! ```
//!
//! # Invariants
//!
//! - *What a holder finds in a queue is not freed before its hold ends.* A thread that frees a task has not
//!   seen `is_held`, or has seen under the lock that nobody holds. In the first case the barriers order what
//!   it did before, and what had happened before that, before the holder's reads: the task had left its
//!   queue, so the holder did not find it there. In the second case the lock does.
//! - Who sees that a hold has ended frees after what its holder read.
//! - What is left is freed by the last holder, or not at all in a forked child that has lost the lock.
//!
//! An end of a task costs one load and one comparison more. Where the kernel has no process-wide barrier
//! there is no hold.

use crate::header::Header;
use std::fmt;
use std::mem;
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::sync::Mutex;

/// Things that are freed when nobody looks at them: by their drop.
pub struct Reclamation<T> {
    is_held: AtomicBool,
    left: Mutex<Left<T>>,
}

struct Left<T> {
    holds: usize,
    things: Vec<T>,
}

/// While it exists, nothing is freed that it may look at.
#[must_use]
pub struct Hold<'a, T>(&'a Reclamation<T>);

impl<T> Reclamation<T> {
    /// Nobody holds.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    const fn new() -> Self {
        Self {
            is_held: AtomicBool::new(false),
            left: Mutex::new(Left {
                holds: 0,
                things: Vec::new(),
            }),
        }
    }

    /// Nobody holds.
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "the product makes one, in a static")]
    pub fn new() -> Self {
        Self {
            is_held: AtomicBool::new(false),
            left: Mutex::new(Left {
                holds: 0,
                things: Vec::new(),
            }),
        }
    }

    /// Returns false if a thing may be freed that the caller has taken from where a holder could find it.
    #[inline]
    pub fn is_held(&self) -> bool {
        Asymmetric::light_or_nothing();
        // Ordering: Acquire pairs with the Release at the end of a hold: what was looked at is freed after
        // that. The barriers order it before a hold: see the head of this file.
        self.is_held.load(Ordering::Acquire)
    }

    /// Leaves a thing to who holds; frees it at once if nobody does any more.
    pub fn leave(&self, thing: T) {
        // In a forked child the lock may be lost, and the thing with it.
        let Some(mut left) = self.left.lock_unless_lost() else {
            return mem::forget(thing);
        };
        if left.holds > 0 {
            return left.things.push(thing);
        }
        drop(left);
        drop(thing);
    }

    /// Begins to hold. Costs a system call. `None` if that is not possible here.
    pub fn hold(&self) -> Option<Hold<'_, T>> {
        let mut left = self.left.lock_unless_lost()?;
        left.holds += 1;
        // Ordering: Relaxed; the barrier below orders it, and otherwise the lock.
        self.is_held.store(true, Ordering::Relaxed);
        drop(left);
        let hold = Hold(self);
        Asymmetric::new().heavy_or_nothing().then_some(hold)
    }
}

impl<T> Drop for Hold<'_, T> {
    fn drop(&mut self) {
        let Some(mut left) = self.0.left.lock_unless_lost() else {
            return;
        };
        left.holds -= 1;
        if left.holds > 0 {
            return;
        }
        // Ordering: Release; who frees a thing then does so after this holder's looks (partner: `is_held`).
        // Who reads the old value asks under the lock.
        self.0.is_held.store(false, Ordering::Release);
        let things = mem::take(&mut left.things);
        drop(left);
        // Their drop may take any time.
        drop(things);
    }
}

impl<T> fmt::Debug for Hold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hold")
    }
}

/// A task that has ended, to which no reference is left.
pub(crate) struct EndedTask {
    header: NonNull<Header>,
    free: unsafe fn(NonNull<Header>),
}

// SAFETY: a task is freed by any thread.
unsafe impl Send for EndedTask {}

impl Drop for EndedTask {
    fn drop(&mut self) {
        // SAFETY: by the contract of `leave_task`.
        unsafe { (self.free)(self.header) }
    }
}

#[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
static TASKS: Reclamation<EndedTask> = Reclamation::new();

/// Returns true if a task that has ended must be left to who holds the memory of tasks. In the checkers'
/// builds, whose atomics cannot be in statics, nobody does.
#[inline]
pub(crate) fn are_tasks_held() -> bool {
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    return TASKS.is_held();
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    false
}

/// Leaves a task to who holds the memory of tasks, or frees it.
///
/// # Safety
///
/// `free` may be called once, by any thread.
#[cold]
#[inline(never)]
pub(crate) unsafe fn leave_task(header: NonNull<Header>, free: unsafe fn(NonNull<Header>)) {
    let ended = EndedTask { header, free };
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    return TASKS.leave(ended);
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    drop(ended);
}

/// Holds the memory of all tasks of this process. See [`Reclamation::hold`].
pub(crate) fn hold_tasks() -> Option<Hold<'static, EndedTask>> {
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    return TASKS.hold();
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    None
}
