//! What a dump sees of a task, without stopping or running it.
//!
//! # Invariants
//!
//! - The state word, the table and the origin may be read by each holder of a reference. A dump has none:
//!   it looks under a lock without which the task cannot end.
//! - The words of the joiner's waker are compared and never followed. They are written and read as atomics,
//!   because the handle may replace the waker meanwhile.

use crate::header::Header;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use crate::header::joiner_waker;
use crate::origin::kind_of;
use crate::task_panic::TaskKind;
use crate::task_ref::TaskRef;
use std::num::NonZeroUsize;
use std::panic::Location;
use std::ptr::NonNull;
use std::task::Waker;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
use warpweft_platform::atomic::{AtomicPtr, Ordering};
use warpweft_platform::clock;

/// A task at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskView {
    /// The address that identifies it while it exists.
    pub id: usize,
    /// Its kind.
    pub kind: TaskKind,
    /// Its name.
    pub name: Option<String>,
    /// Its spawn site.
    pub location: &'static Location<'static>,
    /// The address in the word from which [`told_of`](crate::told_of) finds these.
    pub origin: usize,
    /// Its runnable is in a queue, or on its way there.
    pub queued: bool,
    /// A step is under way, or it has never run.
    pub running: bool,
    /// Its cancellation was requested.
    pub cancelled: bool,
    /// The end of the quarter of a second in which its last step left it pending, on the clock of
    /// `warpweft_platform::clock`; `None` if there was no such step.
    pub suspended_ns: Option<u64>,
    /// How many wakers of it exist.
    pub wakers: u64,
    /// The two words of the waker of its joiner, in any order.
    pub joiner: Option<[usize; 2]>,
}

/// Looks at a task. Returns `None` if it has ended.
///
/// # Safety
///
/// The task is alive for the whole call.
#[must_use]
pub unsafe fn look(task: NonNull<Header>) -> Option<TaskView> {
    // SAFETY: by contract.
    let header = unsafe { task.as_ref() };
    let state = header.state.look_on();
    (!state.complete).then(|| TaskView {
        id: task.addr().get(),
        kind: kind_of(header.origin.word()),
        name: header.origin.name().map(String::from),
        location: header.origin.location(),
        origin: header.origin.word().addr(),
        queued: state.queued,
        running: state.running,
        cancelled: state.cancelled,
        suspended_ns: clock::stamped_ns(state.stamped, clock::now_ns()),
        wakers: state.wakers,
        joiner: state
            .has_joiner
            .then(|| {
                // SAFETY: by contract it is alive, and only a handle sets WAKER.
                unsafe { joiner(task) }
            })
            .flatten(),
    })
}

/// Looks at the task of a reference. Returns `None` if it has ended.
#[must_use]
pub fn look_at(task: &TaskRef) -> Option<TaskView> {
    // SAFETY: the task is alive as long as a reference to it.
    unsafe { look(task.0) }
}

/// Looks at a task by its word in a queue. Returns `None` if it has ended.
///
/// # Safety
///
/// The word is that of a [`TaskRef`], exposed. The task's memory is not freed during the call.
pub(crate) unsafe fn look_at_word(word: NonZeroUsize) -> Option<TaskView> {
    let header = NonNull::new(std::ptr::with_exposed_provenance_mut(word.get()))?;
    // SAFETY: by contract. What a look reads stays as it is until the memory is freed, but for atomics.
    unsafe { look(header) }
}

/// The words of the waker field. The joiner may replace it meanwhile: then they are those of two wakers.
///
/// # Safety
///
/// The task is alive, and was made with a handle, which has written the field.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
unsafe fn joiner(task: NonNull<Header>) -> Option<[usize; 2]> {
    // SAFETY: by contract.
    unsafe { joiner_waker(task) }.with(|place| {
        // SAFETY: the field is valid, aligned and of two words. It was written by `write_waker`, because
        // WAKER was set, and is written by atomic stores only.
        let words = unsafe { &*place.cast::<[AtomicPtr<()>; 2]>() };
        Some(words.each_ref().map(|word| word.load(Ordering::Relaxed).addr()))
    })
}

/// The checkers' cells cannot be read while another thread may write them. Contract: as above.
#[cfg(any(warpweft_loom, warpweft_shuttle))]
unsafe fn joiner(_: NonNull<Header>) -> Option<[usize; 2]> {
    None
}

/// Writes a waker so that a dump may read its words at the same time.
///
/// # Safety
///
/// The place is valid for a write of a waker, and no other thread writes it.
#[inline]
pub(crate) unsafe fn write_waker(place: *mut Waker, waker: Waker) {
    #[cfg(any(warpweft_loom, warpweft_shuttle))]
    // SAFETY: by contract.
    unsafe {
        place.write(waker);
    }
    #[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
    {
        const {
            assert!(
                size_of::<Waker>() == 2 * size_of::<usize>() && align_of::<Waker>() == align_of::<usize>()
            );
        };
        // SAFETY: a waker is two words, both pointers: see the assertion. They keep their provenance in the
        // pointers' type.
        let words: [*mut (); 2] = unsafe { std::mem::transmute(waker) };
        // SAFETY: by contract the place is valid, and no other thread writes it. It is of two words.
        let place = unsafe { &*place.cast::<[AtomicPtr<()>; 2]>() };
        for (place, word) in place.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }
}
