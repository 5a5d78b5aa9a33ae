//! How a stack waits. A fiber switches away until its waker is notified or its runnable enters it. A thread's
//! own stack gives the worker to a spare thread and sleeps.
//!
//! ```text
//!            handed over                     called: the runnable ran, on another thread
//!   CARRYING(w) ───────────▶ OPEN ───────────────────────────────────▶ CARRYING(w') ─▶ continues
//!                             ▲ │ a worker was asked for, for a fiber
//!                             │ ▼
//!                        CARRYING(w'): runs the thread's fibers; when they wait, gives it away again
//! ```

use super::block_on::drive;
use super::fiber::{Fiber, MustWait};
use super::late_end::end_all_left;
use super::stack_context::{StackContext, give_to, here, with_stack_context};
use super::token::with_token;
use super::under_task::UnderTask;
use crate::observe::spans::LeftSpans;
use crate::pool::current::{self, WorkerRef};
use crate::threads::thread_handle::ThreadHandle;
use crate::threads::thread_set::ThreadEvent;
use std::panic::Location;
use std::sync::Arc;
use warpweft_platform::delay;
use warpweft_platform::panics::contain;
use warpweft_platform::process::end_child_if;
use warpweft_platform::thread::yield_now;
use warpweft_task::frame::{Frame, FrameKind};
use warpweft_task::spawn::{self as tasks, SpawnInfo};
use warpweft_task::{Abandon, BlockingHooks, Latch, Runnable, Why};

/// The number of turns in which a blocked thread resumes its fibers before it gives the worker back. It then
/// asks for a worker again, after what its policy puts first.
const TURNS: u32 = if cfg!(any(warpweft_loom, warpweft_shuttle)) {
    2
} else {
    64
};

/// Returns true if the task with that spawn site is not the program's: it leads a thread back to its frame,
/// or to a fork of it.
pub(crate) fn is_of_runtime(site: &Location<'_>) -> bool {
    site.file() == file!()
}

impl StackContext {
    /// Makes a task of each latent fork of this stack, which is about to wait, so that other threads can run
    /// them.
    #[inline]
    pub(crate) fn promote_forks(&self, worker_ref: &WorkerRef) {
        if self.forks().may_have_latent() {
            self.promote_all_forks(worker_ref);
        }
    }

    #[inline(never)]
    fn promote_all_forks(&self, worker_ref: &WorkerRef) {
        self.forks().promote(|claim| self.push_claim(worker_ref, claim));
    }

    /// Waits until `latch` is set by the thread that took a fork of this stack, or that does something else
    /// for this frame, which cannot go on before. It never unwinds, except in a forked child if that thread
    /// stayed in the parent: then no thread works on the frame.
    pub(crate) fn wait_for_fork(&self, latch: &Latch) {
        if self.stayed_in_parent() && !latch.is_set() {
            self.refuse_wait_for_fork();
        }
        match self.worker_ref() {
            Some(_) if self.keeps_worker() => {
                while !latch.is_set() {
                    yield_now();
                }
            }
            _ => {
                if !self.wait_visibly(latch, MustWait::Yes) {
                    let frame = self.frame(latch, FrameKind::Joins);
                    self.visibly(&frame, || self.sleep_without_worker(latch));
                }
            }
        }
    }

    /// Waits until `latch` is set by the thread that took a fork of this stack, and until this thread carries
    /// a worker again, which it has lost meanwhile.
    pub(super) fn wait_for_fork_and_worker(&self, latch: &Latch) {
        if self.stayed_in_parent() {
            return self.wait_for_fork(latch);
        }
        self.until_called(latch, || self.await_call(latch, None));
    }

    /// Calls `wait`, in which the frame that joins waits until it is called, while reports see it.
    pub(super) fn until_called(&self, latch: &Latch, wait: impl FnOnce()) {
        let had_entered = (!self.is_in_own_pool()).then(current::get);
        let frame = self.frame(latch, FrameKind::Joins);
        self.keep_class(|| self.visibly(&frame, wait));
        self.continue_as(frame.who);
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
    }

    /// Waits on a thread that carries no worker, and needs none.
    fn sleep_without_worker(&self, latch: &Latch) {
        let thread_handle = self.thread_handle().sibling();
        let unpark = UnparkOnEnd(Arc::clone(&thread_handle));
        if let Err(runnable) = latch.register(self.job(0, move || drop(unpark))) {
            // The end of the runnable is an assignment, of nothing.
            runnable.abandon(Abandon::Cancelled);
        }
        let assigned = thread_handle.handoff.wait();
        debug_assert_eq!(assigned, None, "a thread that did not ask for a worker");
    }

    /// Waits on a thread with fibers, in `blocking`. It may wait for what one of them does or holds, so it is
    /// given workers to run them.
    fn sleep_for_fibers(&self, latch: &Latch) {
        let thread_handle = self.thread_handle();
        let had_entered = (!current::is(self.found())).then(current::get);
        thread_handle.expect_call();
        thread_handle.handoff.open();
        if let Err(runnable) = latch.register(thread_handle.unpark()) {
            // The end of the runnable has the same effect.
            runnable.abandon(Abandon::Cancelled);
        }
        self.sleep(thread_handle);
        self.stay_away();
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
    }

    /// Ends a wait in `blocking`, and gives the worker away that a fiber, or the fibers of the thread, may
    /// have been given.
    fn stay_away(&self) {
        let pool = self.fibers().pool();
        if self.worker_ref().is_some()
            && let Ok(spare) = pool.core().threads.reserve(self.thread_handle().pool())
        {
            spare.handoff.assign(self.release_worker());
        }
    }

    /// Promotes the forks of this stack, which is about to be left for another one of its thread.
    pub(crate) fn promote_forks_of_stack(&self) {
        if !self.forks().may_have_latent() {
            return;
        }
        let worker_ref = self.worker_ref().unwrap_or(self.fibers().detached());
        self.promote_forks_through(worker_ref);
    }

    /// Promotes the forks of a thread without a worker that is about to wait, in `blocking` or as a detached
    /// thread.
    fn promote_forks_of_thread(&self) {
        self.promote_forks_through(self.fibers().detached());
    }

    fn promote_forks_through(&self, worker_ref: &WorkerRef) {
        let found = current::get();
        current::set(worker_ref);
        // The runnables of the forks are pushed there.
        self.promote_forks(worker_ref);
        current::set(found);
    }

    /// Panics in a hook of a policy, and in a waker that the poller calls on a worker: they may not wait.
    pub(crate) fn may_wait(&self) {
        assert!(
            !self.is_in_policy(),
            "a hook of a policy cannot wait: no thread would carry its worker"
        );
        assert!(
            !self.keeps_worker(),
            "a waker cannot wait: the worker that calls it has to go on"
        );
    }

    /// As [`wait`](Self::wait), while a report sees the frame. A fiber is seen anyway.
    fn wait_visibly(&self, latch: &Latch, held: MustWait) -> bool {
        if latch.is_set() || self.fiber().is_some_and(Fiber::may_switch) {
            return self.wait(latch, held);
        }
        let kind = match held {
            MustWait::Yes => FrameKind::Joins,
            MustWait::No => FrameKind::Waits,
        };
        let frame = self.frame(latch, kind);
        let waited = self.keep_class(|| self.visibly(&frame, || self.wait(latch, held)));
        self.continue_as(frame.who);
        waited
    }

    /// Describes the frame that waits on this thread's own stack.
    fn frame(&self, latch: &Latch, kind: FrameKind) -> Frame {
        Frame::new(std::ptr::from_ref(latch).addr(), self.who(), kind)
    }

    /// Waits until `latch` is set; see [`wait`]. A fiber comes here for forks and scopes only.
    fn wait(&self, latch: &Latch, held: MustWait) -> bool {
        self.may_wait();
        if latch.is_set() {
            return true;
        }
        if self.stayed_in_parent() {
            return false;
        }
        if let Some(fiber) = self.fiber().filter(|fiber| fiber.may_switch()) {
            let spans = LeftSpans::leave();
            self.switch_away(fiber, held, |held| fiber.wait(latch, held));
            spans.come_back();
            return true;
        }
        let Some(worker_ref) = self.worker_ref() else {
            self.promote_forks_of_thread();
            // A hook that waits may be below a frame that waits already, or that has listed its thread as a
            // spare one: what the thread is given then is for that frame.
            let thread_handle = self.thread_handle();
            let takes_workers =
                self.fiber().is_none() && thread_handle.fibers() > 0 && thread_handle.handoff.is_busy();
            if takes_workers {
                self.sleep_for_fibers(latch);
            }
            return takes_workers;
        };
        let had_entered = (!current::is(worker_ref)).then(current::get);
        current::set(worker_ref);
        self.promote_forks(worker_ref);
        let pool = self.fibers().pool();
        let Ok(spare) = pool.core().threads.reserve(self.thread_handle().pool()) else {
            self.work_meanwhile(|| latch.is_set());
            if self.worker_ref().is_none() {
                // A task gave the worker to a blocked thread, so this one can wait without a worker.
                self.await_call(latch, None);
            }
            had_entered.inspect(|&worker_ref| current::set(worker_ref));
            return true;
        };
        self.await_call(latch, Some(spare));
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
        true
    }

    /// Switches to the thread's own stack by `switch`, which returns true if this stack must unwind.
    pub(crate) fn switch_away(&self, fiber: &Fiber, held: MustWait, switch: impl FnOnce(MustWait) -> bool) {
        let held = if fiber.is_held() { MustWait::Yes } else { held };
        let found = self.found();
        let had_entered = (!current::is(found)).then(current::get);
        let unwinds = fiber.is_unwinding() && held == MustWait::No || {
            current::set(found);
            self.promote_forks(self.worker_ref().unwrap_or_else(|| self.fibers().detached()));
            let unwinds = switch(held);
            if fiber.is_blocking() {
                self.stay_away();
            }
            unwinds
        };
        had_entered.inspect(|&worker_ref| current::set(worker_ref));
        if unwinds {
            fiber.unwind();
        }
    }

    /// Registers the runnable with the latch, gives the worker, if there is one, to the spare thread, and
    /// sleeps until the runnable has run. Meanwhile the thread may be given workers to run its fibers.
    fn await_call(&self, latch: &Latch, spare: Option<Arc<ThreadHandle>>) {
        let pool = self.fibers().pool();
        let thread_handle = self.own_thread_handle();
        thread_handle.expect_call();
        thread_handle.handoff.open();
        let registered = latch.register(self.resume_runnable(&thread_handle, self.class()));
        match (registered, spare) {
            (Err(runnable), Some(spare)) => {
                // The latch was set in the meantime.
                runnable.abandon(Abandon::Cancelled);
                // The end of the runnable has left an assignment, or another thread a worker for the fibers.
                match if thread_handle.handoff.close() {
                    None
                } else {
                    thread_handle.handoff.wait()
                } {
                    None => pool.core().threads.release(&spare),
                    worker => {
                        spare.handoff.assign(worker);
                    }
                }
                return;
            }
            (Err(runnable), None) => runnable.push(Why::Woken),
            (Ok(()), Some(spare)) => {
                delay::point("stack context.wait: runnable registered");
                let worker = self.release_worker();
                spare.handoff.assign(worker);
            }
            (Ok(()), None) => {}
        }
        pool.core().threads.note(ThreadEvent::Blocked);
        self.sleep(&thread_handle);
        pool.core().threads.note(ThreadEvent::Resumed);
    }

    /// Returns the handle at which a frame of this stack waits to be called.
    pub(super) fn own_thread_handle(&self) -> Arc<ThreadHandle> {
        // A fiber that must not switch blocks its thread. No thread gives that thread a worker for another
        // purpose.
        if self.fiber().is_none() {
            Arc::clone(self.thread_handle())
        } else {
            self.thread_handle().sibling()
        }
    }

    /// Waits for a worker. The thread has none, and its runnable goes into the queue for one, with that
    /// priority.
    pub(crate) fn queue_for_worker(&self, class: u64) {
        let thread_handle = self.own_thread_handle();
        thread_handle.expect_call();
        thread_handle.handoff.open();
        self.resume_runnable(&thread_handle, class).push(Why::Woken);
        self.sleep(&thread_handle);
        self.fibers().pool().core().threads.note(ThreadEvent::Resumed);
    }

    /// Sleeps until the runnable of this thread has run, or ended.
    pub(super) fn sleep(&self, thread_handle: &Arc<ThreadHandle>) {
        let pool = self.fibers().pool();
        let mut told = false;
        loop {
            thread_handle.ask_unless_told(thread_handle.is_called_in_vain(), told);
            self.acquire_worker(thread_handle.handoff.wait());
            if self.fiber().is_none() {
                let spans = LeftSpans::leave();
                if self.worker_ref().is_some() {
                    self.run_fibers(thread_handle);
                } else if pool.is_closing() {
                    // Not all of them: a fiber of another thread may wait for this very frame, and those here
                    // for that fiber.
                    self.fibers().unwind_ready(self);
                    told = true;
                }
                spans.come_back();
                // A fiber that forked has ended, on top of this frame of another task.
                end_child_if(self.stayed_in_parent());
            }
            if thread_handle.was_called()
                && (self.worker_ref().is_some() || pool.is_closing() || thread_handle.is_dropped())
            {
                return;
            }
            if self.worker_ref().is_some() {
                // The fibers wait, and so does this frame: give the worker away.
                if let Ok(spare) = pool.core().threads.reserve(self.thread_handle().pool()) {
                    // OPEN first: a thread that calls the frame from here on finds it so.
                    thread_handle.handoff.open();
                    if thread_handle.was_called() && thread_handle.handoff.close() {
                        return pool.core().threads.release(&spare);
                    }
                    let worker = self.release_worker();
                    spare.handoff.assign(worker);
                    continue;
                }
                self.work_meanwhile(|| thread_handle.was_called());
                if self.worker_ref().is_some() {
                    return;
                }
            }
            thread_handle.handoff.open();
            // OPEN first, here too. A call that found no worker taken is followed by a request for one,
            // above.
            if thread_handle.is_dropped() && thread_handle.handoff.close() {
                return;
            }
        }
    }

    /// Runs the fibers of the thread, which was given a worker for them while the frame waits.
    fn run_fibers(&self, thread_handle: &ThreadHandle) {
        for _ in 0..TURNS {
            // A fiber may have given the worker away.
            let goes_on = self.worker_ref().is_some()
                && !thread_handle.was_called()
                && !self.fibers().pool().is_closing();
            if !(goes_on && self.fibers().run_one(self)) {
                return;
            }
        }
    }

    /// Runs other tasks on top of this frame until it is `over`, or its thread has no worker any more. It is
    /// the last resort where no spare thread is available. It is counted, because it may deadlock where a
    /// task needs what a frame below it holds.
    pub(super) fn work_meanwhile(&self, over: impl Fn() -> bool) {
        // Those of this frame, which do not concern the others: entered again when this returns.
        let _spans = LeftSpans::leave();
        let _under = UnderTask::new(self);
        while !over() {
            let Some(worker_ref) = self.worker_ref() else {
                return;
            };
            let pool = self.fibers().pool();
            if pool.is_closing() {
                // The event that the frame waits for may come only when the last worker has left.
                // SAFETY: a frame below a hook does not come here, and one that panicked above is gone.
                return unsafe { pool.leave_from(self) };
            }
            // Unwind: only the policy can panic here, which closes the pool and is not called any more.
            // Under no token: the task is none of this frame's.
            let step = || with_token(None, || worker_ref.step());
            let mut worked = false;
            if !worker_ref.is_in_policy() {
                contain(|| worked = step());
            }
            let may_resume = self.fiber().is_none() && self.worker_ref().is_some();
            let resumed = may_resume && self.fibers().run_one(self);
            // A task may have forked, on top of this frame of another task.
            end_child_if(self.stayed_in_parent());
            if !worked && !resumed {
                yield_now();
            }
        }
    }

    /// Creates a task that calls the frame that waits at `thread_handle`, and gives it the worker that runs
    /// the task.
    pub(super) fn resume_runnable(&self, thread_handle: &Arc<ThreadHandle>, class: u64) -> Runnable {
        let resume = Resume(Some(Arc::clone(thread_handle)));
        self.job(class, move || resume.run())
    }

    /// Creates a task for this thread, of that priority: its way back, or a fork of its stack.
    pub(super) fn job(&self, class: u64, body: impl FnOnce() + Send + 'static) -> Runnable {
        let info = SpawnInfo {
            pool: self.pool(),
            location: Location::caller(),
            name: None,
        };
        // SAFETY: the stack context keeps the pool alive, and the thread does not end before its runnable
        // has.
        let mut task = unsafe { tasks::detached_job(body, info) };
        task.set_policy_word(class);
        task
    }
}

/// The runnable of a thread that sleeps and needs no worker. Its end wakes the thread, whether it runs or
/// not.
struct UnparkOnEnd(Arc<ThreadHandle>);

impl Drop for UnparkOnEnd {
    fn drop(&mut self) {
        self.0.handoff.assign(None);
    }
}

/// The body of a blocked thread's runnable.
struct Resume(Option<Arc<ThreadHandle>>);

impl Resume {
    fn run(mut self) {
        if let Some(thread_handle) = self.0.take() {
            thread_handle.call();
            // If the thread does not take it, it has a worker already, for its fibers.
            give_to(|worker| thread_handle.handoff.offer(worker));
        }
    }
}

impl Drop for Resume {
    fn drop(&mut self) {
        // The runnable ended without having run: the pool closes, or its policy lost it.
        if let Some(thread_handle) = self.0.take() {
            thread_handle.call_dropped();
            thread_handle.handoff.offer(None);
        }
    }
}

/// Resumes the frame whose runnable this is, at once and with this thread's worker. The caller, a thread of
/// this pool, has done what the frame waited for. Nothing is below it on its stack, or a frame that waits for
/// its worker afterwards.
///
/// It does not go through a queue, where other tasks come first. Each of them might block in a lock that the
/// frame holds, until no worker is left to run the runnable (a variant of rayon#592).
pub(crate) fn resume(runnable: Runnable) {
    match here().filter(|context| context.worker_ref().is_some()) {
        Some(context) => {
            // What a frame below has on offer must not stay in the offer of a worker that is not its own.
            context.promote_forks_of_stack();
            // The runnable ends in one step.
            drop(runnable.run());
        }
        None => runnable.push(Why::Woken),
    }
}

/// Waits on a thread of a pool, which gives its worker away until its runnable runs. Returns `false` if the
/// thread carries none.
fn wait(latch: &Latch) -> bool {
    end_all_left();
    with_stack_context(|context| context.is_some_and(|context| context.wait_visibly(latch, MustWait::No)))
}

/// The hooks by which code on a stack of a pool waits for what is not of this crate.
pub(crate) static BLOCKING_HOOKS: BlockingHooks = BlockingHooks { wait, drive };
