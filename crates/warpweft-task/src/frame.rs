//! Frames of threads that wait or block, for reports.
//!
//! # Invariants
//!
//! - A frame is in a register from before its thread blocks until after it continues. It is on that thread's
//!   stack, so it stays where it is.

use crate::header::Header;
use crate::registry::{Entry, Registry};
use crate::{running, task_view, wakeup};
use std::ptr::NonNull;
use std::sync::OnceLock;
use warpweft_platform::clock::now_ns;
use warpweft_platform::{thread, thread_state, thread_word};

/// The words that identify a task in a report: its address, and the word that leads to its name and spawn
/// site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Who {
    /// The address of the task; of something that belongs to the thread, if there is no task; 0 if unknown.
    pub id: usize,
    /// See [`told_of`](crate::told_of).
    pub origin: *const (),
}

impl Who {
    /// Nothing is known.
    pub const NOBODY: Self = Self {
        id: 0,
        origin: std::ptr::null(),
    };

    /// Returns the words of the waker of the joiner of this task, which runs, as far as `read` finds them.
    /// Nothing keeps the task from being freed meanwhile, so `read` asks the system for each word. If another
    /// task of the same name and spawn site has the memory by then, the words are of that one's joiner.
    #[cfg(not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))]
    pub fn joiner_of_running(self, read: impl Fn(usize) -> Option<u64>) -> Option<[usize; 2]> {
        use crate::header::JOINER_WAKER;
        use crate::state::look::Snapshot;
        use std::mem::offset_of;

        let word = |offset: usize| read(self.id.checked_add(offset)?);
        let state = Snapshot::of(word(offset_of!(Header, state))?);
        let is_same = word(offset_of!(Header, origin))? == self.origin.addr() as u64;
        if !is_same || state.complete || !state.has_joiner {
            return None;
        }
        let part = |index| usize::try_from(word(JOINER_WAKER + index * size_of::<usize>())?).ok();
        Some([part(0)?, part(1)?])
    }

    /// The checkers' tasks have another layout.
    #[cfg(any(warpweft_loom, warpweft_shuttle, warpweft_sim))]
    pub fn joiner_of_running(self, _: impl Fn(usize) -> Option<u64>) -> Option<[usize; 2]> {
        None
    }
}

// SAFETY: the words are addresses. Only `told_of` follows the second, from any thread.
unsafe impl Send for Who {}
// SAFETY: as above.
unsafe impl Sync for Who {}

/// What a thread with such a frame does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameKind {
    /// It waits for a waker.
    Waits,
    /// It waits for a fork that another thread has taken, or for the tasks of a scope.
    Joins,
    /// It runs a closure that may block, without a worker.
    Blocking,
    /// It runs a closure of `spawn_blocking`.
    SpawnedBlocking,
}

/// A frame of a thread that waits or blocks.
#[derive(Debug)]
pub struct Frame {
    /// The address of the waker's data, or of the latch that it waits for; 0 if it waits for neither.
    pub key: usize,
    /// Its task.
    pub who: Who,
    /// What it does.
    pub kind: FrameKind,
    /// Since when, on the clock of the platform crate.
    pub since_ns: u64,
    /// The job whose closure is below it on the thread's stack, or null.
    job: *const Header,
    /// The name of its thread, if it is not a thread of a pool.
    pub thread: Option<String>,
    /// The kernel's number of its thread, if it runs a closure that may block.
    pub number: Option<u32>,
}

// The task that runs on this thread, if the thread carries no worker.
thread_word!(static HERE: Who = Who::NOBODY);
// The kernel's number of this thread; 0 if it has not been asked.
thread_word!(static NUMBER: u32 = 0);

/// Returns what runs on this thread, which carries no worker: a closure of `spawn_blocking`, or code outside
/// of tasks, which has the address of something of the thread.
#[must_use]
pub fn here() -> Who {
    HERE.with(|here| match here.get() {
        Who::NOBODY => Who {
            // Odd, so that it is no task's.
            id: std::ptr::from_ref(here).addr() | 1,
            origin: std::ptr::null(),
        },
        who => who,
    })
}

/// Sets what runs on this thread. Returns what ran before.
pub fn set_here(who: Who) -> Who {
    HERE.with(|here| here.replace(who))
}

/// Returns the kernel's number of the calling thread. In a forked child it may be that of the parent's
/// thread.
fn number() -> Option<u32> {
    NUMBER.with(|known| {
        if known.get() == 0 {
            known.set(thread_state::thread()?);
        }
        Some(known.get())
    })
}

/// Returns the frames of threads outside of all pools that wait in this process. Under the checkers, where a
/// static would outlive a schedule, there is none.
#[must_use]
pub fn outside() -> Option<&'static Registry<Frame>> {
    static OUTSIDE: OnceLock<Registry<Frame>> = OnceLock::new();
    (!cfg!(any(warpweft_loom, warpweft_shuttle))).then(|| OUTSIDE.get_or_init(Registry::new))
}

impl Frame {
    /// Describes a frame of the calling thread.
    #[must_use]
    pub fn new(key: usize, who: Who, kind: FrameKind) -> Self {
        Self {
            key,
            who,
            kind,
            since_ns: now_ns(),
            job: running::job(),
            thread: who.origin.is_null().then(thread::current_name).flatten(),
            number: matches!(kind, FrameKind::Blocking | FrameKind::SpawnedBlocking)
                .then(number)
                .flatten(),
        }
    }

    /// Returns the words of the waker of the task that joins the job below this frame.
    ///
    /// # Safety
    ///
    /// The frame is in a register, which is locked for the whole call. So its function is still on the stack
    /// of the thread that made it, above the closure of the job.
    #[must_use]
    pub unsafe fn joiner(&self) -> Option<[usize; 2]> {
        // SAFETY: by contract the closure of the job has not ended, so the job is alive.
        unsafe { task_view::look(NonNull::new(self.job.cast_mut())?) }?.joiner
    }

    /// Returns how many wakers of the thread exist, and whether it was woken and has not continued. `None` if
    /// it waits for no waker.
    ///
    /// # Safety
    ///
    /// As for [`joiner`](Self::joiner).
    #[must_use]
    pub unsafe fn wakers(&self) -> Option<(u64, bool)> {
        // SAFETY: a frame of this kind is made where a thread waits for a waker, whose address is its key.
        // The register is locked, by contract.
        (self.kind == FrameKind::Waits).then(|| unsafe { wakeup::look(self.key) })
    }

    /// Calls `f`, during which the frame is in the register.
    pub fn during<R>(&self, register: &Registry<Self>, f: impl FnOnce() -> R) -> R {
        struct Ends<'a>(&'a Registry<Frame>, Option<Entry>);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.1.take().into_iter().for_each(|entry| self.0.remove(entry));
            }
        }
        // SAFETY: `self` is borrowed, so it stays in its place until the entry is removed below, also by a
        // panic.
        let entry = unsafe { register.insert(NonNull::from(self)) };
        let _ends = Ends(register, Some(entry));
        f()
    }

    /// As [`during`](Self::during), for a thread outside of all pools.
    pub(crate) fn during_outside(&self, f: impl FnOnce()) {
        match outside() {
            Some(register) => self.during(register, f),
            None => f(),
        }
    }
}
