//! The right to run a task. The pool holds it while no policy does.
//!
//! # Invariants
//!
//! - A runnable comes from the spawning functions, from a wake, or from [`TaskRef::into_runnable`]. All of
//!   them are `unsafe`, or only a pool reaches them. So no policy in safe code gets one.
//! - A runnable is run, pushed, ended, or handed to a policy. Dropping it ends the task as dropped.

use crate::header::{Header, Step, UNREGISTERED};
use crate::outcome;
use crate::pool::PoolHeader;
use crate::state::{Start, Suspend};
use crate::task_ref::{TaskRef, Waiting};
use crate::why::Why;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use warpweft_queue::Word;

/// The right to run a task, held by its pool: one word.
///
/// It dereferences to a [`TaskRef`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Runnable(ManuallyDrop<TaskRef>);

// SAFETY: the word is that of the `TaskRef` inside, which has the same layout.
unsafe impl Word for Runnable {
    #[inline]
    fn into_word(self) -> NonZeroUsize {
        self.into_task_ref().into_word()
    }

    #[inline]
    unsafe fn from_word(word: NonZeroUsize) -> Self {
        // SAFETY: by contract `into_word` made the word, from a `TaskRef`.
        Self(ManuallyDrop::new(unsafe { TaskRef::from_word(word) }))
    }
}

impl Deref for Runnable {
    type Target = TaskRef;

    #[inline]
    fn deref(&self) -> &TaskRef {
        &self.0
    }
}

/// The outcome of running a task once.
#[derive(Debug)]
pub enum Ran {
    /// It has ended, and its joiner was woken.
    Ended,
    /// It waits. The caller informs the policy, [registers](Pending::register) the task if need be, and then
    /// [suspends](Pending::suspend) it.
    Pending(Pending),
}

/// A task between its step and its sleep: the step is over, and the task waits for something.
///
/// While this value exists the task counts as RUNNING. A wake is remembered and does not push.
#[derive(Debug)]
pub struct Pending(Runnable);

/// Identifies a task for comparison, while the task exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId(usize);

impl TaskId {
    pub(crate) fn of(header: NonNull<Header>) -> Self {
        Self(header.addr().get())
    }
}

/// The outcome of suspending a task.
#[derive(Debug)]
pub enum Suspended {
    /// It sleeps; a waker will push it.
    Asleep,
    /// It was woken meanwhile: the caller pushes it again.
    Again(Runnable),
    /// No reference was left that could wake or join it, so it was cancelled.
    Cancelled,
}

/// The reason for which a task ends without being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandon {
    /// Its cancellation was requested.
    Cancelled,
    /// The pool shuts down.
    Shutdown,
    /// The policy dropped the task.
    Dropped,
    /// The pool's workers stayed in the parent of a forked process.
    Forked,
    /// There is no stack for it to run on.
    NoStack,
}

impl Runnable {
    /// # Safety
    ///
    /// The caller owns the task's runnable and passes it on.
    #[inline]
    pub(crate) unsafe fn from_header(header: NonNull<Header>) -> Self {
        Self(ManuallyDrop::new(TaskRef(header)))
    }

    #[inline]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0.0
    }

    /// Hands the task to a policy. From now on the pool counts it as held by its policy.
    #[inline]
    #[must_use]
    pub fn into_task_ref(self) -> TaskRef {
        TaskRef(self.into_header())
    }

    /// Sets the policy's word.
    #[inline]
    pub fn set_policy_word(&mut self, word: u64) {
        self.0.set_policy_word(word);
    }

    /// Runs one step on this thread.
    ///
    /// A panic of the task ends the task, not the caller. The call costs one indirect call. A closure, or a
    /// future's first step, starts without an atomic read-modify-write.
    #[inline]
    #[must_use]
    pub fn run(self) -> Ran {
        let header = self.into_header();
        // SAFETY: the runnable keeps the task alive until it is passed on.
        let task = unsafe { header.as_ref() };
        let step = match task.state.start() {
            // SAFETY: we hold the runnable and `start` made the task RUNNING.
            Start::Go => unsafe { (task.vtable.step)(header) },
            Start::Cancelled => {
                // SAFETY: the runnable stays with us.
                unsafe { Self::from_header(header) }.abandon(Abandon::Cancelled);
                Step::Ended
            }
        };
        match step {
            Step::Ended => Ran::Ended,
            // SAFETY: a pending step leaves the runnable with us.
            Step::Pending => Ran::Pending(Pending(unsafe { Self::from_header(header) })),
        }
    }

    /// Ends the task without running it. Its joiner gets the matching error.
    #[cold]
    #[inline(never)]
    pub fn abandon(self, why: Abandon) {
        let outcome = match why {
            Abandon::Cancelled => outcome::CANCELLED,
            Abandon::Shutdown => outcome::SHUTDOWN,
            Abandon::Dropped => outcome::DROPPED,
            Abandon::Forked => outcome::FORKED,
            Abandon::NoStack => outcome::NO_STACK,
        };
        let header = self.into_header();
        // SAFETY: the runnable keeps the task alive.
        let vtable = unsafe { header.as_ref() }.vtable;
        // SAFETY: we hold the runnable and pass it on.
        unsafe { (vtable.abandon)(header, outcome) };
    }

    /// Hands the runnable to its pool. Any thread may call it.
    #[inline]
    pub fn push(self, why: Why) {
        let pool = self.pool();
        // SAFETY: a pool outlives its unfinished tasks, and this task is unfinished.
        let vtable = unsafe { pool.as_ref() }.vtable();
        if why == Why::Woken {
            // SAFETY: the pool is of this table, and alive as above.
            unsafe { (vtable.woken)(pool, self) };
        } else {
            // SAFETY: as above.
            unsafe { (vtable.push)(pool, self, why) };
        }
    }
}

impl Drop for Runnable {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this value is not used again, so the runnable is passed on.
        unsafe { Self::from_header(self.pointer()) }.abandon(Abandon::Dropped);
    }
}

impl Pending {
    /// Wraps a task that has not run yet, to [register](Pending::register) it early or to move it to another
    /// pool.
    ///
    /// A fresh task counts as RUNNING, so it is in the same state as between running and sleeping.
    ///
    /// # Safety
    ///
    /// The task has never run.
    #[must_use]
    pub unsafe fn fresh(task: Runnable) -> Self {
        Self(task)
    }

    /// Returns the waiting task. A policy may look at it and set its word.
    #[inline]
    pub fn task(&mut self) -> Waiting<'_> {
        Waiting(&mut self.0.0)
    }

    /// Returns the runnable, to be abandoned: the task will not be suspended.
    #[must_use]
    pub fn into_task(self) -> Runnable {
        self.0
    }

    /// Returns true if the task was woken already, so it will not sleep.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.0.header().state.is_notified()
    }

    /// Returns true if the task is in its pool's set of tasks that were once suspended.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.0.header().link.with(|link| {
            // SAFETY: before the end the link is the runnable holder's.
            unsafe { *link != UNREGISTERED }
        })
    }

    /// Stores the task's index in its pool's set of suspended tasks. `place` is not `usize::MAX`.
    ///
    /// # Safety
    ///
    /// The task's pool has entered this task, and no other, at `place`. It is removed there when it ends.
    pub unsafe fn register(&mut self, place: usize) {
        debug_assert_ne!(place, UNREGISTERED);
        self.0.header().link.with_mut(|link| {
            // SAFETY: before the end the link is the runnable holder's.
            unsafe { *link = place };
        });
    }

    /// Removes the task from its pool's set of suspended tasks, if it is in it.
    pub fn unregister(&mut self) {
        let header = self.0.pointer();
        let place = self.0.header().link.with_mut(|link| {
            // SAFETY: before the end the link is the runnable holder's.
            unsafe { link.replace(UNREGISTERED) }
        });
        if place != UNREGISTERED {
            // SAFETY: we hold the runnable, and the task was registered there until now.
            unsafe { unregister(header, place) };
        }
    }

    /// Identifies the task, to be compared with the result of [`task_of`](crate::task_of).
    #[must_use]
    pub fn id(&self) -> TaskId {
        TaskId::of(self.0.pointer())
    }

    /// Moves the task to `pool`: its wakers push it there from now on. Clears the policy's word.
    ///
    /// The task counts as RUNNING, so no thread reads the pool meanwhile: wakes are remembered in the state
    /// word.
    ///
    /// # Safety
    ///
    /// The task is not registered with the pool that it leaves. `pool` outlives its unfinished tasks: it ends
    /// none of them later than itself.
    pub unsafe fn move_to(&mut self, pool: NonNull<PoolHeader>) {
        self.0.set_policy_word(0);
        // SAFETY: this is its runnable, and it is RUNNING.
        unsafe { self.0.header().set_pool(pool) };
    }

    /// Returns a pointer for the pool's set of suspended tasks. [`reclaim`] turns it into a runnable when the
    /// pool shuts down.
    #[must_use]
    pub fn register_entry(&self) -> NonNull<Header> {
        self.0.pointer()
    }

    /// Puts the task to sleep, unless it was woken meanwhile. Costs one compare-and-swap.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        let header = self.0.into_header();
        // SAFETY: the runnable keeps the task alive until `suspend` gives it up.
        let task = unsafe { header.as_ref() };
        match task.state.suspend() {
            Suspend::Idle => Suspended::Asleep,
            // SAFETY: the runnable stays with us.
            Suspend::Again => Suspended::Again(unsafe { Runnable::from_header(header) }),
            Suspend::Orphan => {
                // SAFETY: the runnable stays with us.
                unsafe { Runnable::from_header(header) }.abandon(Abandon::Cancelled);
                Suspended::Cancelled
            }
        }
    }
}

/// Takes the runnable of a registered task if the task sleeps. Returns `None` if another thread has the
/// runnable or is about to push it.
///
/// # Safety
///
/// `entry` came from [`Pending::register_entry`], and the task is still registered for the whole call.
#[must_use]
pub unsafe fn reclaim(entry: NonNull<Header>) -> Option<Runnable> {
    // SAFETY: a registered task has not ended, so its allocation is alive.
    let made_runnable = unsafe { entry.as_ref() }.state.claim_asleep();
    // SAFETY: `claim_asleep` made the runnable for us.
    made_runnable.then(|| unsafe { Runnable::from_header(entry) })
}

/// # Safety
///
/// The caller holds the runnable of a task that is registered at `place`.
pub(crate) unsafe fn unregister(header: NonNull<Header>, place: usize) {
    // SAFETY: the runnable keeps the task alive.
    let pool = unsafe { header.as_ref() }.pool.with(|pool| {
        // SAFETY: only the holder of the runnable changes the pool field.
        unsafe { *pool }
    });
    // SAFETY: a pool outlives its registered tasks.
    let vtable = unsafe { pool.as_ref() }.vtable();
    // SAFETY: the pool is of this table, alive, and the task is registered at `place`.
    unsafe { (vtable.unregister)(pool, header, place) };
}
