//! A frame that waits for its fork runs a part of it, and then perhaps gives its worker to the part's owner.
//!
//! # Invariants
//!
//! - The frame registers with the latch of its fork before the owner of the part goes on. So the fork is not
//!   done before, and its thief resumes the frame with its own worker. If the thief found no waiter it would
//!   keep its worker, and the frame's way would lead through a queue, where each worker may block in a lock
//!   that the frame holds: see `docs/decisions/0130-a-frame-between-a-part-and-its-fork.md`.

use super::part_of_fork::PartOfFork;
use super::stack_context::{StackContext, here};
use super::wait::resume;
use crate::fork::stealable::{Stealable, Stolen};
use crate::threads::thread_handle::ThreadHandle;
use crate::threads::thread_set::ThreadEvent;
use std::cell::Cell;
use warpweft_platform::delay;
use warpweft_platform::thread::yield_now;
use warpweft_task::{Latch, Runnable, Why};

impl StackContext {
    /// Returns true if a frame of this stack that waits for its fork may run parts of it: afterwards it may
    /// have another worker. A fiber cannot have one, and a hook or a waker must keep its own.
    pub(crate) fn may_run_parts(&self) -> bool {
        self.is_of_thread() && !self.keeps_worker()
    }

    /// Runs a part of the fork of this stack whose thief sets `latch`. If the owner of the part waits for it,
    /// the owner continues with this worker, and this frame waits for the latch and for a worker. Returns
    /// true if it has kept its own.
    pub(crate) fn run_part(&self, part: Stolen, latch: &Latch) -> bool {
        let end = PartOfFork {
            part: part.address(),
            owner: Cell::new(None),
        };
        let before = self.part.replace(&raw const end);
        self.forks().run_stolen(part);
        self.part.set(before);
        match end.owner.take() {
            None if self.worker_ref().is_some() => return true,
            Some(owner) if self.worker_ref().is_some() && !self.stayed_in_parent() => {
                self.until_called(latch, || self.resume_and_wait(owner, latch));
            }
            owner => {
                owner.into_iter().for_each(resume);
                self.wait_for_fork_and_worker(latch);
            }
        }
        false
    }

    /// Gives the worker to the owner of a part, whose runnable this is, and sleeps until the latch has called
    /// this frame.
    ///
    /// The frame registers before. If the latch were set in between, its thief would find no waiter and keep
    /// its worker, and the frame's way would lead through a queue: see
    /// `docs/decisions/0130-a-frame-between-a-part-and-its-fork.md`.
    fn resume_and_wait(&self, owner: Runnable, latch: &Latch) {
        let threads = &self.fibers().pool().core().threads;
        let thread_handle = self.own_thread_handle();
        // What a frame below has on offer must not stay in the offer of a worker that is not its own.
        self.promote_forks_of_stack();
        thread_handle.expect_call();
        thread_handle.handoff.open();
        // It is not set: the owner of the part is a part of the fork, too, and has not gone on.
        if let Err(runnable) = latch.register(self.resume_runnable(&thread_handle, self.class())) {
            runnable.push(Why::Woken);
        }
        delay::point("stack context.resume and wait: registered");
        drop(owner.run());
        if self.worker_ref().is_some() && !self.give_to_spare(&thread_handle) {
            return;
        }
        threads.note(ThreadEvent::Blocked);
        self.sleep(&thread_handle);
        threads.note(ThreadEvent::Resumed);
    }

    /// Gives the worker to a spare thread: the one for which it was meant has one, for its fibers. Returns
    /// false if the frame need not sleep: it was called meanwhile, and has its own worker, or the pool has
    /// closed.
    #[cold]
    fn give_to_spare(&self, thread_handle: &ThreadHandle) -> bool {
        let threads = &self.fibers().pool().core().threads;
        while self.worker_ref().is_some() {
            if let Ok(spare) = threads.reserve(self.thread_handle().pool()) {
                spare.handoff.assign(self.release_worker());
                return true;
            }
            if thread_handle.handoff.close() {
                self.work_meanwhile(|| thread_handle.was_called());
                if self.worker_ref().is_some() {
                    return false;
                }
            } else if let Some(second) = thread_handle.handoff.wait() {
                self.pass_on(second);
            }
            thread_handle.handoff.open();
        }
        // OPEN first: what ends the runnable from here on finds it so.
        !(thread_handle.is_dropped() && thread_handle.handoff.close())
    }

    /// Gives another worker than its own one away, which this thread was given while it still had that.
    #[cold]
    fn pass_on(&self, worker: usize) {
        let pool = self.fibers().pool();
        let threads = &pool.core().threads;
        loop {
            if let Ok(spare) = threads.reserve(self.thread_handle().pool()) {
                spare.handoff.assign(Some(worker));
                return;
            }
            // A thread in the middle of a task takes it for its fibers, or works meanwhile.
            if threads.offer_to_any(worker) {
                return;
            }
            if pool.is_closing() {
                // Both have to leave.
                self.work_meanwhile(|| false);
                self.acquire_worker(Some(worker));
                return self.work_meanwhile(|| false);
            }
            yield_now();
        }
    }
}

/// Resumes the frame whose runnable this is, which waited for the end of that fork or job. If a frame of this
/// stack ran it as a part of its own fork, that frame does it: see [`StackContext::run_part`].
pub(crate) fn resume_after(part: *const Stealable, runnable: Runnable) {
    // An address may be that of a later part, too, but of none that runs here: the youngest part is compared,
    // and what runs on top of a waiting frame is compared with none (`UnderTask`).
    // SAFETY: null, or in the frame that runs the part, which is below.
    let end = here().and_then(|context| unsafe { context.part.get().as_ref() });
    match end.filter(|end| std::ptr::eq(end.part, part)) {
        Some(end) => end.owner.set(Some(runnable)),
        None => resume(runnable),
    }
}
