//! A ready task as a policy holds it. The policy can look at it, keep it and hand it out, but not run it.
//!
//! ```text
//!   pool: Runnable ──into_task_ref──▶ policy: TaskRef, kept and handed out ──into_runnable──▶ pool: Runnable
//!                                          └── drop: the pool cancels the task
//! ```
//!
//! # Invariants
//!
//! - Safe code can do four things with a `TaskRef`: look at it, set the policy's word, keep it, and drop it.
//!   It cannot run, push or end the task: those are methods of [`Runnable`], which only `unsafe` code gets.
//! - A policy holds a `TaskRef` from `into_task_ref` to `into_runnable` or `drop`. The pool counts both, and
//!   its memory stays until the counts are equal. So a `TaskRef` never outlives the memory of its pool,
//!   wherever the policy keeps it.

use crate::header::Header;
use crate::info::TaskInfo;
use crate::pool::PoolHeader;
use crate::runnable::Runnable;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::NonNull;
use warpweft_queue::Word;

/// A ready task, held by a policy: one word.
///
/// It is neither `Copy` nor `Clone`, and it cannot be run. So no safe code runs a task twice, or on a thread
/// without a worker. Dropping it does not run the task. The pool cancels and counts it, and its joiner gets
/// [`JoinError::Dropped`](crate::JoinError::Dropped), or `Shutdown` once the pool closes.
#[derive(Debug)]
#[repr(transparent)]
pub struct TaskRef(pub(crate) NonNull<Header>);

// SAFETY: any thread may hold it, because the work inside is `Send` (the constructors demand it).
unsafe impl Send for TaskRef {}
// SAFETY: a shared `TaskRef` only gives immutable views. `info` reads fields that only the holder of the one
// `TaskRef` changes.
unsafe impl Sync for TaskRef {}

// SAFETY: the word is the header's address, exposed so that the pointer can be rebuilt. It is never zero.
unsafe impl Word for TaskRef {
    #[inline]
    fn into_word(self) -> NonZeroUsize {
        ManuallyDrop::new(self).word()
    }

    #[inline]
    unsafe fn from_word(word: NonZeroUsize) -> Self {
        let header = std::ptr::with_exposed_provenance_mut(word.get());
        // SAFETY: `into_word` made the word from a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(header) })
    }
}

/// A waiting task as a policy sees it. The policy can look at it and set its word.
///
/// The pool holds its runnable. A policy cannot exchange it for another task, whose step is not over.
#[derive(Debug)]
pub struct Waiting<'task>(pub(crate) &'task mut TaskRef);

impl TaskRef {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the runnable holds a reference to the task.
        unsafe { self.0.as_ref() }
    }

    /// Takes the task back from the policy, so that it can be run, pushed or ended.
    ///
    /// # Safety
    ///
    /// The caller is the pool that the task [belongs to](TaskRef::is_of), or acts for it, and counts the task
    /// as no longer held by its policy. No hook of a policy is on the calling stack, unless the task is only
    /// to be ended.
    #[inline]
    #[must_use]
    pub unsafe fn into_runnable(self) -> Runnable {
        // SAFETY: the runnable is passed on.
        unsafe { Runnable::from_header(ManuallyDrop::new(self).0) }
    }

    /// Returns true if the task belongs to the pool of this header. Costs one load.
    #[inline]
    #[must_use]
    pub fn is_of(&self, pool: NonNull<PoolHeader>) -> bool {
        self.pool() == pool
    }

    #[inline]
    pub(crate) fn pointer(&self) -> NonNull<Header> {
        self.0
    }

    #[inline]
    pub(crate) fn pool(&self) -> NonNull<PoolHeader> {
        self.header().pool.with(|pool| {
            // SAFETY: only the holder of the runnable changes the field.
            unsafe { *pool }
        })
    }

    /// Returns the task's name, spawn site and policy word.
    #[must_use]
    pub fn info(&self) -> TaskInfo<'_> {
        TaskInfo::new(&self.header().origin, self.policy_word())
    }

    /// Returns a word from which [`told_of`](crate::told_of) finds the task's name and spawn site, if it
    /// still can.
    #[inline]
    #[must_use]
    pub fn origin_word(&self) -> *const () {
        self.header().origin.word()
    }

    /// Returns a word that identifies the code of the task: all tasks of one type of closure or future have
    /// the same, and hardly any others have. Costs one load. It differs from process to process.
    #[inline]
    #[must_use]
    pub fn code(&self) -> usize {
        std::ptr::from_ref(self.header().vtable).addr()
    }

    /// Returns the address that identifies the task in a report while the task exists.
    #[inline]
    #[must_use]
    pub fn id_word(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// Returns the word that a queue would have of it, which owns nothing.
    #[inline]
    pub(crate) fn word(&self) -> NonZeroUsize {
        let _exposed = self.0.as_ptr().expose_provenance();
        self.0.addr()
    }

    /// Returns true if its cancellation was requested. Then it will not run, and a queue need not keep it.
    /// Costs one load.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.header().state.is_cancelled()
    }

    /// Returns the task as a policy sees it when it waits. For tests of policies, which run no steps.
    #[inline]
    pub fn waiting(&mut self) -> Waiting<'_> {
        Waiting(self)
    }

    /// Returns the word that travels with the task and belongs to the policy; 0 at first.
    #[must_use]
    pub fn policy_word(&self) -> u64 {
        self.header().policy.with(|word| {
            // SAFETY: the word is written only through `&mut` of the one `TaskRef`.
            unsafe { *word }
        })
    }

    /// Sets the policy's word.
    pub fn set_policy_word(&mut self, word: u64) {
        // SAFETY: `&mut self` of the only `TaskRef`, which is the runnable.
        unsafe { self.header().set_policy(word) };
    }
}

impl Deref for Waiting<'_> {
    type Target = TaskRef;

    #[inline]
    fn deref(&self) -> &TaskRef {
        self.0
    }
}

impl Waiting<'_> {
    /// Sets the policy's word.
    #[inline]
    pub fn set_policy_word(&mut self, word: u64) {
        self.0.set_policy_word(word);
    }
}

impl Drop for TaskRef {
    // A policy hands its tasks out again. Dropping one is the policy's mistake, or the end of its pool.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let pool = self.pool();
        // SAFETY: the pool counts this task as held by its policy, and its memory stays until then.
        let vtable = unsafe { pool.as_ref() }.vtable();
        // SAFETY: this value is not used again, so the runnable is passed on.
        let task = unsafe { Runnable::from_header(self.0) };
        // SAFETY: the pool is of this table, and its memory is there as above; its policy held the task.
        unsafe { (vtable.dropped)(pool, task) };
    }
}
