//! The right to run a task: what a pool holds while no policy does.
//!
//! # Invariants
//!
//! - It comes from the spawning functions, from a wake, or from [`TaskRef::into_runnable`]: all of them are
//!   `unsafe`, or are in the hands of a pool. So no policy in safe code gets one.
//! - It is run, pushed, ended, or handed to a policy. To drop it ends the task as dropped.

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

/// A runnable task in the hands of its pool: one word, an owned token.
///
/// It gives the views of a [`TaskRef`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Runnable(ManuallyDrop<TaskRef>);

// SAFETY: the word is that of the reference inside, which has the same layout.
unsafe impl Word for Runnable {
    #[inline]
    fn into_word(self) -> NonZeroUsize {
        self.into_task_ref().into_word()
    }

    #[inline]
    unsafe fn from_word(word: NonZeroUsize) -> Self {
        // SAFETY: by contract `into_word` made it, from a reference.
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

/// What running a task once came to.
#[derive(Debug)]
pub enum Ran {
    /// It has ended, and its joiner was told.
    Ended,
    /// It waits. Tell the policy, [register](Pending::register) it if need be, then
    /// [suspend](Pending::suspend) it.
    Pending(Pending),
}

/// A task whose step is over and which waits for something: the token of the moment between running and
/// sleeping.
///
/// While it exists the task counts as RUNNING: a wake is remembered and does not push.
#[derive(Debug)]
pub struct Pending(Runnable);

/// Which task: good for comparing, as long as the task is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskId(usize);

impl TaskId {
    pub(crate) fn of(header: NonNull<Header>) -> Self {
        Self(header.addr().get())
    }
}

/// What became of a task that was to be suspended.
#[derive(Debug)]
pub enum Suspended {
    /// It sleeps; a waker will push it.
    Asleep,
    /// It was woken meanwhile: push it again.
    Again(Runnable),
    /// Nobody was left who could wake or join it, so it was cancelled.
    Cancelled,
}

/// Why a token is not to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandon {
    /// Somebody asked for its cancellation.
    Cancelled,
    /// The pool shuts down.
    Shutdown,
    /// The policy dropped the token.
    Dropped,
    /// The pool's workers stayed in the parent of a forked process.
    Forked,
    /// There is no stack for it to run on.
    NoStack,
}

impl Runnable {
    /// # Safety
    ///
    /// The caller owns the task's token and passes it on.
    #[inline]
    pub(crate) unsafe fn from_header(header: NonNull<Header>) -> Self {
        Self(ManuallyDrop::new(TaskRef(header)))
    }

    #[inline]
    pub(crate) fn into_header(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0.0
    }

    /// Hands the task to a policy. The pool counts it as in its policy's hands from now on.
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
    /// A panic of the task ends the task, not the caller. Costs one indirect call; a closure, or a future's
    /// first step, starts without an atomic read-modify-write.
    #[inline]
    #[must_use]
    pub fn run(self) -> Ran {
        let header = self.into_header();
        // SAFETY: the token keeps the task alive until it is passed on.
        let task = unsafe { header.as_ref() };
        let step = match task.state.start() {
            // SAFETY: we hold the token and `start` made the task RUNNING.
            Start::Go => unsafe { (task.vtable.step)(header) },
            Start::Cancelled => {
                // SAFETY: the token stays with us.
                unsafe { Self::from_header(header) }.abandon(Abandon::Cancelled);
                Step::Ended
            }
        };
        match step {
            Step::Ended => Ran::Ended,
            // SAFETY: a pending step leaves the token with us.
            Step::Pending => Ran::Pending(Pending(unsafe { Self::from_header(header) })),
        }
    }

    /// Ends the task without running it; its joiner gets the matching error.
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
        // SAFETY: the token keeps the task alive.
        let vtable = unsafe { header.as_ref() }.vtable;
        // SAFETY: we hold the token and pass it on.
        unsafe { (vtable.abandon)(header, outcome) };
    }

    /// Hands the token to its pool, from any thread.
    // Inlined, so that the reason, which the caller knows, chooses the function.
    #[inline]
    pub fn push(self, why: Why) {
        let pool = self.pool();
        // SAFETY: a pool outlives its unfinished tasks, and this one is unfinished.
        let vtable = unsafe { pool.as_ref() }.vtable;
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
        // SAFETY: this value is not used again, so the token is passed on.
        unsafe { Self::from_header(self.pointer()) }.abandon(Abandon::Dropped);
    }
}

impl Pending {
    /// A task that has not run yet, to be [registered](Pending::register) early, or to be told another pool.
    ///
    /// A fresh task counts as RUNNING, so this is the same moment as between running and sleeping.
    ///
    /// # Safety
    ///
    /// The task has never run.
    #[must_use]
    pub unsafe fn fresh(task: Runnable) -> Self {
        Self(task)
    }

    /// The task that waits; a policy may look at it and set its word.
    #[inline]
    pub fn task(&mut self) -> Waiting<'_> {
        Waiting(&mut self.0.0)
    }

    /// The token, to be abandoned: the task will not be suspended.
    #[must_use]
    pub fn into_task(self) -> Runnable {
        self.0
    }

    /// Whether the task was woken already, so that it will not sleep.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.0.header().state.is_notified()
    }

    /// Whether the task is in its pool's register of those that were once suspended.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.0.header().link.with(|link| {
            // SAFETY: before the end the link is the token holder's.
            unsafe { *link != UNREGISTERED }
        })
    }

    /// Notes the task's place in its pool's register. `place` is not `usize::MAX`.
    ///
    /// # Safety
    ///
    /// The task's pool has entered this task, and no other, at `place`: it will be struck off there when it
    /// ends.
    pub unsafe fn register(&mut self, place: usize) {
        debug_assert_ne!(place, UNREGISTERED);
        self.0.header().link.with_mut(|link| {
            // SAFETY: before the end the link is the token holder's.
            unsafe { *link = place };
        });
    }

    /// Strikes the task off its pool's register, if it is in it.
    pub fn unregister(&mut self) {
        let header = self.0.pointer();
        let place = self.0.header().link.with_mut(|link| {
            // SAFETY: before the end the link is the token holder's.
            unsafe { link.replace(UNREGISTERED) }
        });
        if place != UNREGISTERED {
            // SAFETY: we hold the token, and the task was registered there until now.
            unsafe { unregister(header, place) };
        }
    }

    /// Which task it is, to be compared with what [`task_of`](crate::task_of) says.
    #[must_use]
    pub fn id(&self) -> TaskId {
        TaskId::of(self.0.pointer())
    }

    /// The task belongs to `pool` from now on: there its wakers push it. What the old policy wrote into its
    /// word is gone.
    ///
    /// It counts as RUNNING, so nobody reads the pool meanwhile: wakes are remembered in the state word.
    ///
    /// # Safety
    ///
    /// It is not in the register of the pool that it leaves. `pool` outlives its unfinished tasks: it ends
    /// none of them later than itself.
    pub unsafe fn move_to(&mut self, pool: NonNull<PoolHeader>) {
        self.0.set_policy_word(0);
        // SAFETY: this is its token, and it is RUNNING.
        unsafe { self.0.header().set_pool(pool) };
    }

    /// A pointer for the pool's register, to be turned into a token by [`reclaim`] when the pool shuts down.
    #[must_use]
    pub fn register_entry(&self) -> NonNull<Header> {
        self.0.pointer()
    }

    /// Puts the task to sleep, unless it was woken meanwhile. Costs one compare-and-swap.
    #[must_use]
    pub fn suspend(self) -> Suspended {
        let header = self.0.into_header();
        // SAFETY: the token keeps the task alive until `suspend` gives it up.
        let task = unsafe { header.as_ref() };
        match task.state.suspend() {
            Suspend::Idle => Suspended::Asleep,
            // SAFETY: the token stays with us.
            Suspend::Again => Suspended::Again(unsafe { Runnable::from_header(header) }),
            Suspend::Orphan => {
                // SAFETY: the token stays with us.
                unsafe { Runnable::from_header(header) }.abandon(Abandon::Cancelled);
                Suspended::Cancelled
            }
        }
    }
}

/// Turns the register's entry of a suspended task into its token, if it sleeps. `None`: somebody else has its
/// token or is about to push it.
///
/// # Safety
///
/// `entry` came from [`Pending::register_entry`], and the task is still registered for the whole call.
#[must_use]
pub unsafe fn reclaim(entry: NonNull<Header>) -> Option<Runnable> {
    // SAFETY: a registered task has not ended, so its allocation is alive.
    let made_token = unsafe { entry.as_ref() }.state.claim_asleep();
    // SAFETY: `claim_asleep` made the token for us.
    made_token.then(|| unsafe { Runnable::from_header(entry) })
}

/// # Safety
///
/// The caller holds the token of a task that is registered at `place`.
pub(crate) unsafe fn unregister(header: NonNull<Header>, place: usize) {
    // SAFETY: the token keeps the task alive.
    let pool = unsafe { header.as_ref() }.pool.with(|pool| {
        // SAFETY: the pool field changes only in the hands of the token's holder.
        unsafe { *pool }
    });
    // SAFETY: a pool outlives its registered tasks.
    let vtable = unsafe { pool.as_ref() }.vtable;
    // SAFETY: the pool is of this table, alive, and the task is registered at `place`.
    unsafe { (vtable.unregister)(pool, header, place) };
}
