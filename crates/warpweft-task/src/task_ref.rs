//! The token that a policy holds: a runnable task, to be looked at, kept and handed out, but not run.
//!
//! ```text
//!   pool ── Runnable ──into_task_ref──▶ TaskRef ── policy keeps it, hands it out ──▶ TaskRef ──into_runnable──▶ pool
//!                                          └── drop: the pool cancels the task
//! ```
//!
//! # Invariants
//!
//! - Safe code can do four things with a token: look at it, set the policy's word, keep it, and drop it. It
//!   cannot run, push or end the task: those are methods of [`Runnable`], which only `unsafe` code gets.
//! - A token is in a policy's hands from `into_task_ref` to `into_runnable` or `drop`. The pool counts both
//!   ways, and its memory stays until the count is even: so a token never outlives the memory of its pool,
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

/// A runnable task in the hands of a policy: one word, an owned token.
///
/// It is neither `Copy` nor `Clone`, and it cannot be run: so no safe code runs a task twice, or where no
/// worker is. Dropping it does not run the task: its pool cancels it and counts it, and its joiner gets
/// [`JoinError::Dropped`](crate::JoinError::Dropped), or `Shutdown` once the pool closes.
#[derive(Debug)]
#[repr(transparent)]
pub struct TaskRef(pub(crate) NonNull<Header>);

// SAFETY: a token may be handed to any thread, because the work inside is `Send` (the constructors demand
// it).
unsafe impl Send for TaskRef {}
// SAFETY: a shared token only gives immutable views: `info` reads fields that only the holder of a unique
// token changes.
unsafe impl Sync for TaskRef {}

// SAFETY: the word is the header's address, exposed so that the pointer can be rebuilt; it is never zero.
unsafe impl Word for TaskRef {
    #[inline]
    fn into_word(self) -> NonZeroUsize {
        let header = ManuallyDrop::new(self).0;
        let _exposed = header.as_ptr().expose_provenance();
        header.addr()
    }

    #[inline]
    unsafe fn from_word(word: NonZeroUsize) -> Self {
        let header = std::ptr::with_exposed_provenance_mut(word.get());
        // SAFETY: `into_word` made the word from a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(header) })
    }
}

/// A task that waits, as a policy sees it: to be looked at, and with a word to be set.
///
/// Its token is the pool's, and not to be exchanged for another one, whose step is not the one that is over.
#[derive(Debug)]
pub struct Waiting<'task>(pub(crate) &'task mut TaskRef);

impl TaskRef {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the token is a reference to the task.
        unsafe { self.0.as_ref() }
    }

    /// Takes the task out of the policy's hands: it can be run, pushed or ended now.
    ///
    /// # Safety
    ///
    /// The caller is the pool that the task [belongs to](TaskRef::is_of), or acts for it, and counts the
    /// token as out of its policy's hands. No hook of a policy is on the calling stack, unless the task is
    /// only to be ended.
    #[inline]
    #[must_use]
    pub unsafe fn into_runnable(self) -> Runnable {
        // SAFETY: the token is passed on.
        unsafe { Runnable::from_header(ManuallyDrop::new(self).0) }
    }

    /// Whether the task belongs to the pool of this header. One load.
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
            // SAFETY: the field changes only in the hands of the token's holder.
            unsafe { *pool }
        })
    }

    /// What may be known of the task.
    #[must_use]
    pub fn info(&self) -> TaskInfo<'_> {
        TaskInfo::new(&self.header().origin, self.policy_word())
    }

    /// A word from which [`told_of`](crate::told_of) tells its name and where it was spawned, if it still
    /// can.
    #[inline]
    #[must_use]
    pub fn origin_word(&self) -> *const () {
        self.header().origin.word()
    }

    /// Whether somebody has asked for its cancellation: then it will not run, and a queue need not keep it.
    /// One load.
    #[inline]
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.header().state.is_cancelled()
    }

    /// The task as a policy sees it when it waits: for tests of policies, which have no step that could be
    /// over.
    #[inline]
    pub fn waiting(&mut self) -> Waiting<'_> {
        Waiting(self)
    }

    /// The word that travels with the task and belongs to the policy; 0 at first.
    #[must_use]
    pub fn policy_word(&self) -> u64 {
        self.header().policy.with(|word| {
            // SAFETY: the word is written only through `&mut` of the token.
            unsafe { *word }
        })
    }

    /// Sets the policy's word.
    pub fn set_policy_word(&mut self, word: u64) {
        self.header().policy.with_mut(|place| {
            // SAFETY: `&mut self` of the only token.
            unsafe { *place = word };
        });
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
    // A policy hands its tokens out again; to drop one is its mistake, or the pool's end.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let pool = self.pool();
        // SAFETY: the pool counts this token as its policy's, and its memory stays until it does not.
        let vtable = unsafe { pool.as_ref() }.vtable;
        // SAFETY: this value is not used again, so the token is passed on.
        let task = unsafe { Runnable::from_header(self.0) };
        // SAFETY: the pool is of this table, and its memory is there as above; the token was its policy's.
        unsafe { (vtable.dropped)(pool, task) };
    }
}
