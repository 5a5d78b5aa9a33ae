//! Times in which no task's memory is freed, so that a dump may look at tasks that others take and end
//! meanwhile.
//!
//! A dump has no reference to a task in a queue: whoever takes the task out runs it, and may free it. So
//! the dump *holds* the memory of all tasks while it reads the queues and what it finds there.
//!
//! ```text
//!   the dump                                 the thread that ends a task
//!     is_held = true                           takes it out of its queue, runs it
//!     heavy barrier                            light barrier
//!     reads queues, and tasks found there      is_held? ── no ──▶ frees it
//!     is_held = false                             └─ yes ──▶ leaves it to the last dump
//!     frees what was left
//! ```
//!
//! # Invariants
//!
//! - *What a dump finds in a queue is not freed before its hold ends.* A thread that frees a task has not
//!   seen `is_held`, or has seen under the lock that there is no hold. In the first case the barriers order
//!   what it did before, and what had happened before that, before the dump's reads: the task had left its
//!   queue, so the dump did not find it there. In the second case the lock does.
//! - A thread that sees that a hold has ended frees after what the dump read.
//! - What is left is freed at the end of the last hold, or not at all in a forked child that has lost the
//!   lock.
//! - A hold is one of its process. In a forked child those of the parent do not count: no dump there ends
//!   them.
//!
//! An end of a task costs one load and one comparison more. Where the kernel has no process-wide barrier
//! there is no hold.

use crate::header::Header;
use std::fmt;
use std::mem;
use std::ptr::NonNull;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::process;
use warpweft_platform::sync::Mutex;

/// Things that are freed while no dump looks at them: by their drop.
pub struct Reclamation<T> {
    is_held: AtomicBool,
    left: Mutex<Left<T>>,
}

struct Left<T> {
    holds: usize,
    /// The [generation](process::generation) of the process in which they began.
    generation: u64,
    things: Vec<T>,
}

impl<T> Left<T> {
    /// There is no hold, and nothing is left.
    const NOTHING: Self = Self {
        holds: 0,
        generation: 0,
        things: Vec::new(),
    };
}

/// While it exists, nothing is freed that its owner may find.
#[must_use]
pub struct Hold<'a, T> {
    of: &'a Reclamation<T>,
    generation: u64,
}

impl<T> Reclamation<T> {
    /// There is no hold.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    const fn new() -> Self {
        Self {
            is_held: AtomicBool::new(false),
            left: Mutex::new(Left::NOTHING),
        }
    }

    /// There is no hold.
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "the product makes one, in a static")]
    pub fn new() -> Self {
        Self {
            is_held: AtomicBool::new(false),
            left: Mutex::new(Left::NOTHING),
        }
    }

    /// Returns false if a thing may be freed that the caller has taken from where a dump could find it.
    #[inline]
    pub fn is_held(&self) -> bool {
        Asymmetric::light_or_nothing();
        // Ordering: Acquire pairs with the Release at the end of a hold: what was looked at is freed after
        // that. The barriers order it before a hold: see the head of this file.
        self.is_held.load(Ordering::Acquire)
    }

    /// Leaves a thing to the last hold; frees it at once if there is none any more.
    pub fn leave(&self, thing: T) {
        self.leave_in(process::generation(), thing);
    }

    fn leave_in(&self, generation: u64, thing: T) {
        // In a forked child the lock may be lost, and the thing with it.
        let Some(mut left) = self.left.lock_unless_lost() else {
            return mem::forget(thing);
        };
        let of_parent = self.end_holds_of_parent(&mut left, generation);
        if left.holds > 0 {
            return left.things.push(thing);
        }
        drop(left);
        drop((of_parent, thing));
    }

    /// Begins a hold. Costs a system call. `None` if that is not possible here.
    pub fn hold(&self) -> Option<Hold<'_, T>> {
        let hold = self.begin_in(process::generation())?;
        Asymmetric::new().heavy_or_nothing().then_some(hold)
    }

    fn begin_in(&self, generation: u64) -> Option<Hold<'_, T>> {
        let mut left = self.left.lock_unless_lost()?;
        let of_parent = self.end_holds_of_parent(&mut left, generation);
        left.holds += 1;
        // Ordering: Relaxed; the barrier that follows orders it, and otherwise the lock.
        self.is_held.store(true, Ordering::Relaxed);
        drop(left);
        drop(of_parent);
        Some(Hold { of: self, generation })
    }

    /// Ends the holds of the parent, in a forked child. Returns what was left to them.
    fn end_holds_of_parent(&self, left: &mut Left<T>, generation: u64) -> Vec<T> {
        if left.generation == generation {
            return Vec::new();
        }
        left.generation = generation;
        left.holds = 0;
        // Ordering: as at the end of a hold.
        self.is_held.store(false, Ordering::Release);
        mem::take(&mut left.things)
    }
}

impl<T> Drop for Hold<'_, T> {
    fn drop(&mut self) {
        let Some(mut left) = self.of.left.lock_unless_lost() else {
            return;
        };
        if left.generation != self.generation {
            // It was ended in a forked child.
            return;
        }
        left.holds -= 1;
        if left.holds > 0 {
            return;
        }
        // Ordering: Release; a thread that then frees a thing does so after the reads of this hold (partner:
        // `is_held`). A thread that reads the old value asks under the lock.
        self.of.is_held.store(false, Ordering::Release);
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

/// Returns true if a task that has ended must be left to those that hold the memory of tasks. In the
/// checkers' builds, whose atomics cannot be in statics, there are none.
#[inline]
pub(crate) fn are_tasks_held() -> bool {
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    return TASKS.is_held();
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    false
}

/// Leaves a task to the last of those that hold the memory of tasks, or frees it.
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

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
mod tests {
    use super::Reclamation;
    use std::rc::Rc;

    #[test]
    fn a_forked_child_frees_in_spite_of_a_hold_of_its_parent() {
        let (things, thing) = (Reclamation::new(), Rc::new(()));
        let of_parent = things.begin_in(0);
        things.leave_in(0, Rc::clone(&thing));
        assert!(things.is_held() && Rc::strong_count(&thing) == 2);
        // As in the child, which has a copy of it all.
        things.leave_in(1, Rc::clone(&thing));
        assert!(!things.is_held() && Rc::strong_count(&thing) == 1);
        let of_child = things.begin_in(1);
        things.leave_in(1, Rc::clone(&thing));
        drop(of_parent);
        assert!(
            things.is_held() && Rc::strong_count(&thing) == 2,
            "it ended before"
        );
        drop(of_child);
        assert!(!things.is_held() && Rc::strong_count(&thing) == 1);
    }
}
