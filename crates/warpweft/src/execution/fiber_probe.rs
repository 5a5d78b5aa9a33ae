//! What a dump sees of a fiber, from any thread.
//!
//! # Invariants
//!
//! - A probe is in its pool's register while its fiber exists, so `state` points at the fiber's word.
//! - `task` is not 0 only while the closure of that task is on the fiber's stack: the task is alive. It
//!   changes under its lock, under which a dump looks at the task.

use super::fiber_state::FiberState;
use crate::coroutine::switch::left_registers;
use crate::observe::raw::{FiberView, RawState, RawTask};
use crate::observe::recorder::event::StepEnd;
use crate::observe::stack::NoStack;
use crate::threads::thread_handle::ThreadHandle;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use warpweft_platform::clock::now_ns;
use warpweft_platform::stack_copy::{Registers, StackCopy, copy_at, word_in_memory};
use warpweft_platform::sync::Mutex;
use warpweft_task::frame::Who;
use warpweft_task::{TaskKind, task_view, told_of};

/// What a probe asks the waker of its fiber.
pub(crate) trait EnteredWaker: Send + Sync {
    /// Returns true if it is in the mailbox of the fiber's thread. A hint.
    fn is_entered(&self) -> bool;
}

pub(crate) struct FiberProbe {
    id: AtomicUsize,
    origin: AtomicPtr<()>,
    /// The latch that it waits for, in a join or a scope; 0 if none.
    latch: AtomicUsize,
    state: NonNull<AtomicU32>,
    /// The address of the fiber's pointer to its switch, which only the system reads.
    switch: usize,
    waker: Arc<dyn EnteredWaker>,
    thread: Arc<ThreadHandle>,
    task: Mutex<usize>,
}

// SAFETY: `state` points at an atomic, which lives for as long as the probe is used.
unsafe impl Send for FiberProbe {}
// SAFETY: as above.
unsafe impl Sync for FiberProbe {}

impl FiberProbe {
    pub(crate) fn new(
        state: *mut AtomicU32,
        switch: usize,
        waker: Arc<dyn EnteredWaker>,
        thread: &Arc<ThreadHandle>,
    ) -> Self {
        Self {
            id: AtomicUsize::new(0),
            origin: AtomicPtr::new(std::ptr::null_mut()),
            latch: AtomicUsize::new(0),
            state: NonNull::new(state).unwrap_or_else(|| unreachable!("a place in a box")),
            switch,
            waker,
            thread: Arc::clone(thread),
            task: Mutex::new(0),
        }
    }

    /// Notes that the fiber has a body, of the task with these words.
    #[inline]
    pub(crate) fn begin(&self, (id, origin): (usize, *const ())) {
        // Ordering: Relaxed, here and below: the words are hints, and `told_of` accepts those of ended tasks.
        self.id.store(id, Ordering::Relaxed);
        self.origin.store(origin.cast_mut(), Ordering::Relaxed);
    }

    /// Notes that the body has ended.
    #[inline]
    pub(crate) fn end(&self) {
        self.origin.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Notes that the fiber is about to wait for the first time, in the middle of its closure.
    #[cold]
    pub(crate) fn open(&self) {
        *self.task.lock() = self.id.load(Ordering::Relaxed);
    }

    /// Notes that the closure has ended. A dump that looks at the task has finished when this returns.
    #[cold]
    pub(crate) fn close(&self) {
        if let Some(mut task) = self.task.lock_unless_lost() {
            *task = 0;
        }
    }

    /// Notes for which latch it waits.
    pub(crate) fn joins(&self, latch: usize) {
        self.latch.store(latch, Ordering::Relaxed);
    }

    /// Returns how the last turn of the fiber ended. Its own thread calls, and it does not run.
    pub(crate) fn turn_end(&self) -> StepEnd {
        let state = self.state();
        if self.who().origin.is_null() {
            StepEnd::Ended
        } else if state.is(FiberState::READY) {
            StepEnd::Again
        } else {
            StepEnd::Waits
        }
    }

    #[inline]
    pub(crate) fn who(&self) -> Who {
        Who {
            id: self.id.load(Ordering::Relaxed),
            origin: self.origin.load(Ordering::Relaxed),
        }
    }
}

impl FiberProbe {
    fn state(&self) -> FiberState {
        // SAFETY: by the invariant.
        FiberState(unsafe { self.state.as_ref() }.load(Ordering::Relaxed))
    }

    /// Returns true if it may continue, in that state, as soon as its thread gets to it.
    fn is_ready(&self, state: FiberState) -> bool {
        let is_entered = || self.latch.load(Ordering::Relaxed) == 0 && self.waker.is_entered();
        // Where it was entered its thread runs something else, and has not seen that it was woken.
        state.is(FiberState::READY) || state != FiberState::RUNS && is_entered()
    }

    /// Returns the registers with which the fiber continues; `None` if it runs, or if that is not known.
    fn left_registers(&self) -> Option<Registers> {
        // The own thread may write these words meanwhile, so the system reads them.
        let switch = word_in_memory(self.switch as u64).filter(|&switch| switch != 0)?;
        left_registers(switch, word_in_memory)
    }
}

impl FiberView for FiberProbe {
    fn look(&self) -> Option<RawTask> {
        let who = self.who();
        // SAFETY: null, or the word of the task whose body the fiber has, or had.
        let told = unsafe { told_of(who.origin) }?;
        let state = self.state();
        let latch = self.latch.load(Ordering::Relaxed);
        let joiner = self.task.lock_unless_lost().and_then(|task| {
            let header = NonNull::new(std::ptr::with_exposed_provenance_mut(*task))?;
            // SAFETY: the closure of the task is on the fiber's stack, and does not end while the lock is
            // held.
            unsafe { task_view::look(header) }?.joiner
        });
        Some(RawTask {
            id: who.id,
            keys: [Arc::as_ptr(&self.waker).addr(), latch],
            kind: Some(TaskKind::Fiber),
            name: told.name,
            site: Some(told.location),
            origin: who.origin.addr(),
            state: match state {
                FiberState::RUNS => RawState::Running,
                state if self.is_ready(state) => RawState::Queued,
                _ => RawState::Waiting,
            },
            since_ns: state.since_ns(now_ns()),
            worker: (state == FiberState::RUNS)
                .then(|| self.thread.mailbox().carried())
                .flatten(),
            // One share is the fiber's, and one is the probe's.
            wakers: (latch == 0).then(|| Arc::strong_count(&self.waker).saturating_sub(2) as u64),
            joiner,
            ..RawTask::default()
        })
    }

    fn is_ready_behind(&self, worker: usize) -> bool {
        let has_body = !self.who().origin.is_null();
        has_body && self.thread.mailbox().carried() == Some(worker) && self.is_ready(self.state())
    }

    fn copy_stack(&self, wants: &dyn Fn(usize) -> bool) -> Option<(usize, Result<StackCopy, NoStack>)> {
        let (who, state) = (self.who(), self.state());
        if who.origin.is_null() || state == FiberState::RUNS || !wants(who.id) {
            return None;
        }
        let Some(registers) = self.left_registers() else {
            let why = "where a suspended stack was left is known on Linux with x86-64 only";
            return Some((who.id, Err(NoStack::NotCopied(why.to_owned()))));
        };
        let copy = copy_at(registers).map_err(NoStack::from);
        // A fiber that ran meanwhile has written to what was copied.
        let is_same =
            || (self.who(), self.state()) == (who, state) && self.left_registers() == Some(registers);
        Some((
            who.id,
            copy.and_then(|copy| is_same().then_some(copy).ok_or(NoStack::Continued)),
        ))
    }
}
