//! The fibers of a thread: those that wait, those that are ready, and warm stacks for the next ones.
//!
//! ```text
//!   start ─▶ runs ──ends──▶ warm          a fiber that never waits is in no table
//!              │ waits
//!              ▼
//!            table ──key or waker in the mailbox, or in the line──▶ runs
//! ```
//!
//! # Invariants
//!
//! - Everything here belongs to the thread. Other threads use its [`ThreadHandle`].
//! - A fiber in the table has started and not ended. The thread does not end before the table is empty.

mod base;
mod by_class;
pub(crate) mod ending;
pub(crate) mod recorded;
pub(crate) mod stacks;
pub(crate) mod starting;
mod woken;

use super::class_mix::ClassMix;
use super::fiber::Fiber;
use super::spawn_here::SpawnHere;
use super::stack_context::StackContext;
use crate::coroutine::Input;
use crate::coroutine::stack::{Reserved, StackError, StackMemory, StackPermit};
use crate::coroutine::switch::SWITCHES_DIRECTLY;
use crate::pool::current::WorkerRef;
use crate::pool::dyn_pool::DynPool;
use crate::threads::mailbox::Mailbox;
use crate::threads::quantum::Quantum;
use crate::threads::thread_handle::ThreadHandle;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_policy::Count;
use warpweft_task::frame::Who;
use warpweft_task::{BlockingHooks, OnStackJob};

/// The number of stacks that a thread keeps for its next fibers.
const WARM: usize = 64;

/// The stack that runs next, when a fiber yields or waits.
pub(crate) enum NextStack<'fibers> {
    /// The same fiber continues.
    Same,
    /// The first fiber of the line runs.
    Fiber(&'fibers Fiber),
    /// The loop runs.
    Loop,
}

/// `repr(C)`: what a turn needs comes first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct ThreadFibers {
    /// The line of fibers that yielded or were woken by this thread: its first and its last fiber; null if it
    /// is empty.
    first: Cell<*const Fiber>,
    last: Cell<*const Fiber>,
    /// The fiber that runs, or the last that came back; null if that one is gone.
    on: Cell<*const Fiber>,
    /// The number of turns that fibers may still take before the loop runs.
    turns_left: Cell<u32>,
    mailbox: Arc<Mailbox>,
    thread_handle: Arc<ThreadHandle>,
    /// The hooks by which code on the thread's stacks waits for what is not of this crate.
    blocking_hooks: &'static BlockingHooks,
    pool: Arc<dyn DynPool>,
    /// What free functions find on this thread when it has no worker: a pool that takes nothing any more.
    detached: WorkerRef,
    table: RefCell<Vec<Option<NonNull<Fiber>>>>,
    vacant: RefCell<Vec<u32>>,
    /// The fibers that other threads have woken, out of the mailbox: the first and the last one.
    first_woken: Cell<*const Fiber>,
    last_woken: Cell<*const Fiber>,
    /// True if the last fiber that continued was one of those.
    woken_was_first: Cell<bool>,
    class_mix: ClassMix,
    /// The fibers that will start here.
    local_spawns: SpawnHere,
    warm: RefCell<Vec<NonNull<Fiber>>>,
    /// True if the use of a stack needs a permit.
    is_limited: bool,
    /// The stacks of handled bodies that have ended.
    bare: RefCell<Vec<StackMemory>>,
    turn: Cell<u64>,
    /// The worker whose CPUs the thread runs on, if workers are pinned.
    cpus_of: Cell<Option<usize>>,
    /// The context of the thread's own stack.
    base: Cell<*const StackContext>,
    /// The number of calls of foreign code on the stack that must not give the worker away.
    keeps_worker: Cell<u32>,
    /// What ran on the thread's own stack when the thread gave its worker away.
    left: Cell<Who>,
}

impl ThreadFibers {
    pub(crate) fn new(
        pool: Arc<dyn DynPool>,
        thread_handle: Arc<ThreadHandle>,
        blocking_hooks: &'static BlockingHooks,
    ) -> Self {
        Self {
            mailbox: Arc::clone(thread_handle.mailbox()),
            thread_handle,
            blocking_hooks,
            detached: pool.external(),
            is_limited: pool.core().stacks.are_limited(),
            class_mix: ClassMix::new(pool.core().info.priorities),
            pool,
            table: RefCell::default(),
            vacant: RefCell::default(),
            first: Cell::new(ptr::null()),
            last: Cell::new(ptr::null()),
            on: Cell::new(ptr::null()),
            turns_left: Cell::new(0),
            first_woken: Cell::new(ptr::null()),
            last_woken: Cell::new(ptr::null()),
            woken_was_first: Cell::new(false),
            local_spawns: SpawnHere::default(),
            warm: RefCell::default(),
            bare: RefCell::default(),
            turn: Cell::new(0),
            cpus_of: Cell::new(None),
            base: Cell::new(ptr::null()),
            keeps_worker: Cell::new(0),
            left: Cell::new(Who::NOBODY),
        }
    }

    #[inline]
    pub(crate) fn thread_handle(&self) -> &Arc<ThreadHandle> {
        &self.thread_handle
    }

    #[inline]
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Returns the hooks by which code on the thread's stacks waits for what is not of this crate.
    pub(crate) fn blocking_hooks(&self) -> &'static BlockingHooks {
        self.blocking_hooks
    }

    pub(crate) fn pool(&self) -> &Arc<dyn DynPool> {
        &self.pool
    }

    /// Sets the stack context of the thread's own stack, which is there while its tasks run.
    pub(crate) fn set_base(&self, base: *const StackContext) {
        self.base.set(base);
    }

    pub(crate) fn base(&self) -> *const StackContext {
        self.base.get()
    }

    pub(crate) fn detached(&self) -> &WorkerRef {
        &self.detached
    }

    pub(crate) fn quantum(&self) -> Quantum {
        self.pool.core().threads.quantum()
    }

    /// Moves the thread to the CPUs of that worker, which it carries from now on.
    pub(crate) fn settle(&self, worker: usize) {
        self.cpus_of
            .set(self.pool.core().threads.settle(worker, self.cpus_of.get()));
    }

    /// Starts a fiber on `base`, this thread's own stack. Returns when it waits or has ended.
    ///
    /// # Errors
    ///
    /// There is no stack: the task is returned.
    pub(crate) fn start(
        &self,
        base: &StackContext,
        job: OnStackJob,
        reserved: Option<Reserved>,
    ) -> Result<(), (OnStackJob, StackError)> {
        let unloaded = match reserved {
            None => self.unloaded(),
            Some(reserved) => Ok((self.init(reserved.stack), reserved.permit)),
        };
        let (fiber, permit) = match unloaded {
            Ok(unloaded) => unloaded,
            Err(error) => return Err((job, error)),
        };
        // SAFETY: a fiber of this thread is there until it is cleared away, at its end or later.
        let it = unsafe { fiber.as_ref() };
        if self.is_limited {
            it.set_permit(permit);
        }
        it.load(job);
        self.go(base, fiber, Input::Go);
        Ok(())
    }

    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    fn go(&self, base: &StackContext, fiber: NonNull<Fiber>, input: Input) {
        // SAFETY: as in `start`.
        let it = unsafe { fiber.as_ref() };
        it.inherit_worker(base);
        self.on.set(it);
        let ended = if SWITCHES_DIRECTLY {
            it.resume(input)
        } else {
            self.resume_in_turn(it, input)
        };
        // SAFETY: as in `start`; it has come back just now.
        let last = unsafe { &*self.on.get() };
        base.resume_from(last.context());
        if ended {
            last.end();
            self.put_away(NonNull::from(last));
        }
    }

    /// Resumes a fiber where stacks cannot be left for each other: fibers that pass turns on come back here
    /// in between.
    fn resume_in_turn(&self, fiber: &Fiber, input: Input) -> bool {
        let (mut it, mut ended) = (fiber, fiber.resume(input));
        while !ptr::eq(self.on.get(), it) {
            // SAFETY: the fiber that `it` was left for is in the table.
            it = unsafe { &*self.on.get() };
            ended = it.resume(Input::Go);
        }
        ended
    }

    /// Takes a turn for a fiber, without the loop. Returns true if a turn is left and the mailbox is empty.
    #[inline]
    fn takes_turn(&self, worker_ref: &WorkerRef) -> bool {
        let may = self.turns_left.get() > 0 && !self.mailbox.has_entries();
        if may {
            self.count_turn(worker_ref);
        }
        may
    }

    /// Chooses the next stack. The running fiber yields, and is in the line from now on unless it continues
    /// itself.
    #[inline]
    pub(crate) fn turn_after(&self, fiber: &Fiber, worker_ref: &WorkerRef) -> NextStack<'_> {
        if !self.takes_turn(worker_ref) {
            self.line_up(fiber);
            return NextStack::Loop;
        }
        let Some(first) = NonNull::new(self.first.get().cast_mut()) else {
            return NextStack::Same;
        };
        self.line_up(fiber);
        // SAFETY: it is in the line, so it is there.
        let first = unsafe { first.as_ref() };
        // There is a next fiber in the line: `fiber` at the latest.
        let behind = first.behind().get();
        self.first.set(behind);
        // SAFETY: as above.
        unsafe { &*behind }.warm_up();
        NextStack::Fiber(self.let_on(first, fiber.context()))
    }

    /// Chooses the next stack. The running fiber waits.
    #[inline]
    pub(crate) fn turn_instead(&self, fiber: &Fiber, worker_ref: &WorkerRef) -> NextStack<'_> {
        if self.first.get().is_null() || !self.takes_turn(worker_ref) {
            return NextStack::Loop;
        }
        self.take_first().map_or(NextStack::Loop, |first| {
            // SAFETY: it was in the line, so it is there.
            let first = unsafe { first.as_ref() };
            NextStack::Fiber(self.let_on(first, fiber.context()))
        })
    }

    /// Lets a fiber run from now on, with what the thread carries on the stack of `from`.
    #[inline]
    fn let_on<'fibers>(&self, next: &'fibers Fiber, from: &StackContext) -> &'fibers Fiber {
        debug_assert!(
            !ptr::eq(self.on.get(), next),
            "one that is alone goes on in place"
        );
        next.inherit_worker(from);
        self.on.set(next);
        next
    }

    /// Keeps a fiber that has ended for the next body, or clears it away.
    #[inline(never)]
    fn put_away(&self, fiber: NonNull<Fiber>) {
        // SAFETY: a fiber of this thread, as in `start`.
        let it = unsafe { fiber.as_ref() };
        if let Some(slot) = it.slot() {
            it.set_slot(None);
            self.table.borrow_mut()[slot as usize] = None;
            self.vacant.borrow_mut().push(slot);
            self.count_live(-1);
        }
        if self.is_limited {
            it.set_permit(StackPermit::none());
        }
        let mut warm = self.warm.borrow_mut();
        if warm.len() < WARM {
            warm.push(fiber);
        } else {
            drop(warm);
            self.on.set(ptr::null());
            // SAFETY: it has ended, and no other code knows it.
            unsafe { clear_away(fiber) };
        }
    }

    fn count_live(&self, change: isize) {
        self.thread_handle
            .set_fibers(self.thread_handle.fibers().wrapping_add_signed(change));
        self.pool.core().stacks.count_live(change);
    }

    /// Returns the slot in the table of a fiber that is about to wait.
    pub(crate) fn slot_of(&self, fiber: &Fiber) -> u32 {
        fiber.slot().unwrap_or_else(|| self.register(fiber))
    }

    fn register(&self, fiber: &Fiber) -> u32 {
        let mut table = self.table.borrow_mut();
        let slot = self.vacant.borrow_mut().pop().unwrap_or_else(|| {
            table.push(None);
            u32::try_from(table.len() - 1)
                .unwrap_or_else(|_| unreachable!("fewer stacks than that fit into memory"))
        });
        table[slot as usize] = Some(NonNull::from(fiber));
        drop(table);
        fiber.set_slot(Some(slot));
        self.count_live(1);
        slot
    }

    /// Returns a turn that no other wait of this thread has.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.set(self.turn.get() + 1);
        self.turn.get()
    }

    /// Puts the fiber at the end of the line.
    #[inline]
    pub(crate) fn line_up(&self, fiber: &Fiber) {
        let this: *const Fiber = fiber;
        fiber.behind().set(ptr::null());
        // SAFETY: null, or a fiber in the line, which is there until it has continued.
        match unsafe { self.last.get().as_ref() } {
            Some(last) => last.behind().set(this),
            None => {
                // The flag stays until the line is empty.
                self.mailbox.set_ready();
                self.first.set(this);
            }
        }
        self.last.set(this);
    }

    /// Puts a fiber that listens into the line: its waker was notified on its own thread.
    #[inline]
    pub(crate) fn let_in(&self, fiber: &Fiber) {
        fiber.get_ready();
        self.line_up(fiber);
    }

    #[inline]
    fn take_first(&self) -> Option<NonNull<Fiber>> {
        let first = NonNull::new(self.first.get().cast_mut())?;
        // SAFETY: it is in the line, so it is there.
        let behind = unsafe { first.as_ref() }.behind().get();
        self.first.set(behind);
        // SAFETY: null, or in the line.
        match unsafe { behind.as_ref() } {
            Some(second) => second.warm_up(),
            None => self.last.set(behind),
        }
        Some(first)
    }

    /// Takes the next ready fiber. Those that other threads have woken and those in the line alternate.
    #[inline]
    fn next(&self) -> Option<NonNull<Fiber>> {
        if self.has_woken()
            && let Some(woken) = self.next_woken()
        {
            return Some(woken);
        }
        match self.take_first() {
            None => self.next_or_none(),
            first => first,
        }
    }

    /// Takes the next ready fiber while the line is empty.
    #[cold]
    #[inline(never)]
    fn next_or_none(&self) -> Option<NonNull<Fiber>> {
        let woken = self.take_woken();
        if woken.is_none() && self.local_spawns.is_empty() {
            // An entry that came in between has set the flag.
            self.mailbox.clear_ready();
        }
        woken
    }

    /// Resumes ready fibers for at most `most` turns on `base`, this thread's own stack, which carries the
    /// worker of `worker_ref`. Returns the number of turns, those that fibers pass on to each other included.
    #[inline(never)]
    pub(crate) fn run_ready(&self, base: &StackContext, worker_ref: &WorkerRef, most: u32) -> u32 {
        let mut left = most;
        // The fibers say themselves that they run.
        worker_ref.running.set(0, ptr::null());
        while left > 0 && base.carries(worker_ref) {
            let task = self.local_spawns.take_next();
            let fiber = if task.is_none() { self.next() } else { None };
            // While others have woken some, each turn is followed by a choice between those and the line.
            let turns = if self.first_woken.get().is_null() { left } else { 1 };
            self.turns_left.set(turns);
            if let Some(task) = task {
                self.count_turn(worker_ref);
                self.begin(task);
            } else if let Some(fiber) = fiber {
                self.count_turn(worker_ref);
                self.go(base, fiber, Input::Go);
            } else if self.local_spawns.is_empty() {
                break;
            }
            left -= turns - self.turns_left.replace(0);
        }
        most - left
    }

    /// Counts a turn. The monitor sees it as a step of the worker.
    #[inline]
    fn count_turn(&self, worker_ref: &WorkerRef) {
        self.turns_left.set(self.turns_left.get() - 1);
        worker_ref.counters.add(Count::FiberTurns, 1);
    }

    /// Resumes a ready fiber, or starts one, if there is any, on `base`, this thread's own stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_one(&self, base: &StackContext) -> bool {
        if let Some(task) = self.local_spawns.take_next() {
            self.begin(task);
            return true;
        }
        self.resume_one(base) || !self.local_spawns.is_empty()
    }

    fn resume_one(&self, base: &StackContext) -> bool {
        let fiber = self.next();
        if let Some(fiber) = fiber {
            self.go(base, fiber, Input::Go);
        }
        fiber.is_some()
    }
}

impl Drop for ThreadFibers {
    fn drop(&mut self) {
        self.close_mailbox();
        for fiber in self.warm.take() {
            // SAFETY: it has ended, and no other code knows it.
            unsafe { clear_away(fiber) };
        }
    }
}

/// # Safety
///
/// The fiber has ended, and no other code uses it.
unsafe fn clear_away(fiber: NonNull<Fiber>) {
    // SAFETY: `Fiber::new` made it, in a box; by contract it is dropped here, once.
    drop(unsafe { Box::from_raw(fiber.as_ptr()) });
}
