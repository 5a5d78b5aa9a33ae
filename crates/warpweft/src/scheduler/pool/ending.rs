//! The end of a pool, and of tasks that its policy loses, keeps, or hands out by mistake.
//!
//! # Order of the end
//!
//! 1. `PoolCore::close` refuses spawns and wakes all workers. Each finishes its present step. A thread polls
//!    from now on.
//! 2. A worker that leaves drops its policy's `Local`. The tasks in it go to the list `lost`.
//! 3. It ends tasks that sleep. The last worker calls `finish`.
//! 4. `finish` waits for external threads and drops the policy's `Shared`. Queued tasks go to `lost`, too.
//! 5. It closes the driver. Then it ends the lost, the pinned and the other sleeping tasks.
//! 6. It waits for external threads again, dismisses spare threads, and settles the ledger.
//!
//! The joiner of each task that it ends gets `JoinError::Shutdown`.

use super::TypedPool;
use crate::execution::forked_child;
use crate::execution::late_end::end_late_of;
use crate::pool::core::PoolCore;
use crate::pool::dyn_pool::DynPool;
use crate::pool::info::PoolInfo;
use crate::pool::lifecycle::{Access, Lifecycle};
use crate::scheduler::inherit::restore;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_platform::panics::{contain, discard};
use warpweft_platform::process::end_child_if;
use warpweft_platform::thread::yield_now;
use warpweft_policy::{Count, Policy};
use warpweft_task::{Abandon, QueueViewer, Ran, Runnable, TaskRef};

impl dyn DynPool + '_ {
    /// Notes that a worker's thread is done, or that `count` threads never came. The last one ends what has
    /// not ended.
    pub(crate) fn leave(&self, count: usize) {
        if self.core().lifecycle.leave(count) {
            self.finish();
        }
    }

    /// Ends every task after the last worker has left, and drops the pool as soon as its policy holds no
    /// task.
    pub(crate) fn finish(&self) {
        self.core().monitor.end();
        // No external thread is inside the policy, and later ones see that it is closed.
        self.core().lifecycle.wait_for_accesses();
        let Some(keep) = self.keep() else {
            unreachable!("who ends a pool has a share of it")
        };
        for compensating in self.core().monitor.take_vacant() {
            // SAFETY: no thread carries it, and with the last worker gone none ever will.
            unsafe { self.retire_worker(compensating) };
        }
        for worker in (0..self.core().asked).filter(|&worker| self.core().idle.is_resting(worker)) {
            // SAFETY: as above. A thread that ends a worker's rest first counts it among those that leave.
            unsafe { self.retire_worker(worker) };
        }
        // A panic in the policy's `Drop` must not keep tasks from ending.
        contain(|| {
            // SAFETY: all workers have left and no external thread reaches it, so this thread alone has it.
            // This runs once, because only one `leave` is the last.
            unsafe { self.drop_shared() };
        });
        end_child_if(self.core().is_in_forked_child());
        self.core().driver.close();
        end_child_if(self.core().is_in_forked_child());
        // No worker runs any more, so one of them stands for this thread in reports.
        let end = |task| self.end_in(0, task);
        let end_lost = || std::iter::from_fn(|| self.core().take_lost()).for_each(end);
        end_lost();
        let mut taken = 0;
        for worker in self.workers() {
            while let Some(task) = worker.pinned.pop() {
                end(self.core().take(task));
                taken += 1;
            }
        }
        let held = self.handed_out() - taken;
        // Sleeping tasks are ended here. If the runnable of a task is elsewhere, an external thread is about
        // to push it, and will end the task; or the policy keeps it, perhaps for ever.
        while self.core().owned_tasks.len() != 0 {
            if !self.end_sleeping(0) {
                if self.core().ledger.remaining(held) > 0 {
                    break;
                }
                yield_now();
            }
            end_lost();
        }
        self.core().lifecycle.wait_for_accesses();
        self.core().threads.dismiss();
        self.core().ledger.set_over();
        end_lost();
        self.settle(held, keep);
    }

    /// Ends the tasks that sleep, because the pool closes. Returns false if there were none.
    ///
    /// Each worker does so as it leaves, because another one may be in a task that does not end, and others
    /// wait for what sleeps.
    pub(crate) fn end_sleeping(&self, worker: usize) -> bool {
        let (mut shard, mut is_any) = (0, false);
        while let Some(task) = self.core().owned_tasks.reclaim(&mut shard) {
            self.end_in(worker, task);
            is_any = true;
        }
        is_any
    }

    /// Ends a task because the pool closes. A report finds it as what the worker runs, which has left: its
    /// destructor may not end.
    fn end_in(&self, worker: usize, task: Runnable) {
        let running = &self.worker(worker).worker_ref.running;
        running.set(task.id_word(), task.origin_word());
        forked_child::abandon(self.core(), task, Abandon::Shutdown);
        running.set(0, ptr::null());
    }

    /// Settles the ledger of a pool that has ended. `keep` keeps the pool while its policy holds tasks, of
    /// which it had `held`.
    fn settle(&self, held: i64, keep: Arc<dyn DynPool>) {
        let kept = self.core().ledger.remaining(held);
        if self.core().ledger.settle(held, self.core().owned_tasks.orphan()) == 0 {
            return;
        }
        // `release_one` drops that share.
        std::mem::forget(keep);
        if kept <= 0 {
            return;
        }
        let PoolInfo { policy, name, .. } = &self.core().info;
        let name = name.escape_debug();
        let fault = format!(
            "the policy `{policy}` of pool `{name}` kept {kept} tasks when the pool ended: \
             each of them, and its joiner, waits until the policy drops it"
        );
        // If standard error is not writable, nothing is written.
        let _ = writeln!(io::stderr(), "warpweft: {fault}");
        let _ = self.core().fault.set(fault);
    }

    /// Returns how many tasks the policy was given and workers have not taken. It is exact when the workers
    /// have left and no external thread is inside.
    pub(crate) fn handed_out(&self) -> i64 {
        const TAKEN: [Count; 3] = [Count::Ran, Count::Evicted, Count::GivenBack];
        let held = self.handed_in().wrapping_sub(self.counted(&TAKEN));
        // Fewer tasks than that fit into memory.
        (held % Lifecycle::MODULUS) as i64
    }

    /// Returns how many tasks the policy was ever given.
    pub(super) fn handed_in(&self) -> u64 {
        const PUSHED: [Count; 5] = [
            Count::Spawned,
            Count::Forked,
            Count::Resumptions,
            Count::Yields,
            Count::Injected,
        ];
        self.counted(&PUSHED).wrapping_add(self.core().lifecycle.handed())
    }

    /// Returns the sum of these counts of all workers.
    fn counted(&self, counts: &[Count]) -> u64 {
        let mut sum = 0_u64;
        for worker in self.workers() {
            for &count in counts {
                sum = sum.wrapping_add(worker.counters().get(count));
            }
        }
        sum
    }

    /// Returns about how many tasks the policy holds; 0 after the pool's end. O(workers). The counts are read
    /// while workers run.
    pub(crate) fn runnable(&self) -> usize {
        if self.core().ledger.is_over() {
            // What is left is not in queues.
            return 0;
        }
        let held = self.core().ledger.remaining(self.handed_out());
        // Where a task was seen to be taken, and its push was not, the count wraps.
        let is_negative = held > (Lifecycle::MODULUS / 2) as i64;
        if is_negative {
            0
        } else {
            usize::try_from(held).unwrap_or(0)
        }
    }

    /// Shows the tasks that are in queues to a report, as far as the policy does.
    pub(crate) fn show_ready(&self, viewer: &mut QueueViewer) {
        self.show_queued(viewer);
        for worker in self.workers() {
            worker.pinned.for_each(viewer.room(), |task| viewer.see(task));
        }
    }

    /// Ends a task on the waker's or spawner's thread, because the policy takes no more.
    #[cold]
    pub(crate) fn end_late(&self, task: Runnable, access: Access<'_>) {
        // The task may be the last for which the pool's memory is kept.
        let keep = self.keep();
        if keep.is_some() && !access.is_open() && self.core().driver.is_here() {
            // Its destructor may wait for what this thread alone reports. The pool's end waits for `access`.
            self.core().leave_to_others(task);
            drop(access);
            return drop(keep);
        }
        // The end of the pool waits for those who have access, and the destructor may wait for that end.
        drop(access);
        end_late_of(ptr::from_ref(self).cast(), task);
        drop(keep);
    }
}

impl PoolCore {
    /// Takes a task that the policy has handed out.
    ///
    /// # Panics
    ///
    /// Panics if it is a task of another pool. That pool cancels the task, and this pool closes.
    #[inline]
    pub(crate) fn take(&self, task: TaskRef) -> Runnable {
        if !task.is_of(NonNull::from(self).cast()) {
            self.refuse(task);
        }
        // SAFETY: it is a task of this pool, which its policy has handed out to a worker; the caller counts
        // it.
        unsafe { task.into_runnable() }
    }

    /// Refuses a task of another pool that the policy has handed out.
    #[cold]
    #[inline(never)]
    fn refuse(&self, task: TaskRef) -> ! {
        let PoolInfo { policy, name, .. } = &self.info;
        let name = name.escape_debug();
        let fault = format!(
            "the policy `{policy}` of pool `{name}` handed out a task of another pool, spawned at {}: \
             that task is cancelled there, and this pool closes",
            task.info().location()
        );
        // The task goes back to its own pool.
        drop(task);
        self.close_for(&fault);
        panic!("{fault}")
    }

    /// Takes a task that the policy has dropped.
    pub(crate) fn lose(&self, task: Runnable) {
        self.outside.add_shared(Count::Dropped, 1);
        if self.is_in_forked_child() {
            // Only the parent may run its destructors.
            return std::mem::forget(task);
        }
        self.leave_to_others(task);
    }

    /// Leaves a task to a worker, or to the pool as it ends: the caller may be deep inside the policy. After
    /// the end it is ended here.
    fn leave_to_others(&self, task: Runnable) {
        self.lost.push(task);
        if self.ledger.is_over() {
            return self.end_lost();
        }
        self.idle.wake_one();
    }

    #[inline]
    pub(crate) fn end_lost(&self) {
        if !self.lost.is_empty() {
            self.end_all_lost();
        }
    }

    // Not inlined: the loop's one indirect call can be counted only if no direct one goes through a register.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_all_lost(&self) {
        while let Some(task) = self.lost.pop() {
            self.end_one_lost(task);
        }
    }

    /// Returns a task that the policy dropped, if there is one.
    #[inline]
    pub(crate) fn take_lost(&self) -> Option<Runnable> {
        if self.lost.is_empty() {
            return None;
        }
        self.lost.pop()
    }

    /// Ends a task that the policy dropped. What the task holds may wait in its `Drop`: a worker's thread may
    /// carry another worker afterwards.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_one_lost(&self, mut task: Runnable) {
        restore(&mut task);
        task.abandon(if self.lifecycle.is_closing() {
            Abandon::Shutdown
        } else {
            Abandon::Dropped
        });
        end_child_if(self.is_in_forked_child());
    }

    /// Ends a step on a thread that has no worker any more. A runnable that gave the worker away has ended. A
    /// task that came back from a wait without a worker, because the pool closes, cannot continue.
    #[cold]
    pub(crate) fn detached(&self, ran: Ran, policy_word: u64) {
        match ran {
            Ran::Pending(pending) => forked_child::cannot_go_on(self, pending),
            Ran::Ended => {
                if let Some(word) = NonZeroUsize::new(policy_word as usize) {
                    self.ended_detached.push(word);
                }
            }
        }
    }
}

impl<P: Policy> TypedPool<P> {
    /// Looks at what the policy shares, from a thread that carries no worker. Not after the end, when it may
    /// be gone; the end waits for the look.
    pub(super) fn while_open<R>(&self, look: impl FnOnce(&P::Shared) -> R) -> Option<R> {
        let access = self.core.lifecycle.access();
        let is_there = access.is_open() && !self.core.is_in_forked_child();
        is_there.then(|| self.ask_policy(look)).flatten()
    }

    /// Calls a hook of the policy that only looks at what its workers share. If it panics, the pool closes:
    /// the caller may be the monitor, or any thread that wants a report.
    pub(in crate::scheduler) fn ask_policy<R>(&self, look: impl FnOnce(&P::Shared) -> R) -> Option<R> {
        // Unwind: nobody uses what the policy shares after the pool has closed.
        match catch_unwind(AssertUnwindSafe(|| look(self.shared()))) {
            Ok(answer) => Some(answer),
            Err(payload) => {
                discard(payload);
                self.core.close_for(&"a hook of its policy panicked");
                None
            }
        }
    }

    /// Releases one task, or one shard of owned tasks, for which the pool waits. The caller does not touch
    /// the pool afterwards.
    ///
    /// # Safety
    ///
    /// The pool's memory is there, and the caller releases a task or shard that it counts for.
    pub(crate) unsafe fn release_one(pool: NonNull<Self>) {
        // SAFETY: by contract.
        if unsafe { pool.as_ref() }.core.ledger.release_one() {
            // SAFETY: `settle` has left its share of the pool for the last release, of which there is one.
            drop(unsafe { Arc::from_raw(pool.as_ptr().cast_const()) });
        }
    }
}
