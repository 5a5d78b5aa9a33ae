//! A thread's fibers: those that wait, those that are ready, and warm stacks for those to come.
//!
//! ```text
//!   start ─▶ runs ──ends──▶ warm          a fiber that never waits is entered nowhere
//!              │ waits
//!              ▼
//!            table ──key or bell in the mailbox, or in the line──▶ runs
//! ```
//!
//! # Invariants
//!
//! - Everything here is the thread's own. Others reach its [`ThreadHandle`].
//! - A fiber in the table has started and not ended. The thread does not end before the table is empty.

pub(crate) mod ending;
pub(crate) mod stacks;
pub(crate) mod starting;

use super::fiber::Fiber;
use super::spawn_local::SpawnLocal;
use super::stack_context::StackContext;
use crate::coroutine::Input;
use crate::coroutine::portable::SWITCHES_DIRECTLY;
use crate::coroutine::stack::{Claim, NoStack, Reserved, Stack};
use crate::pool::current::WorkerRef;
use crate::pool::dyn_pool::DynPool;
use crate::threads::quantum::Quantum;
use crate::threads::thread_handle::Entry;
use crate::threads::thread_handle::{Key, ThreadHandle};
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use warpweft_policy::Count;
use warpweft_task::{BlockingHooks, OnStackJob};

/// How many stacks a thread keeps for its next fibers.
const WARM: usize = 64;

/// Whose turn is next, when a fiber gives way or waits.
pub(crate) enum Turn<'fibers> {
    /// Its own: it goes on.
    Own,
    /// That of the first in the line.
    Of(&'fibers Fiber),
    /// The loop's.
    Loops,
}

pub(crate) struct ThreadFibers {
    thread_handle: Arc<ThreadHandle>,
    /// How code on the thread's stacks waits for what is not of this crate.
    blocking_hooks: &'static BlockingHooks,
    pool: Arc<dyn DynPool>,
    /// What free functions find on this thread when it has no worker: a pool that takes nothing any more.
    detached: WorkerRef,
    table: RefCell<Vec<Option<NonNull<Fiber>>>>,
    vacant: RefCell<Vec<u32>>,
    /// The line of fibers that gave way or were woken by this thread: the first to go on, and the last; null
    /// if there are none.
    first: Cell<*const Fiber>,
    last: Cell<*const Fiber>,
    /// The fiber that runs, or has come back last.
    on: Cell<*const Fiber>,
    /// How many turns fibers may still take from each other, or go on in, before the loop has its own.
    turns_left: Cell<u32>,
    /// Whether the last one that went on came from the mailbox.
    mailbox_was_first: Cell<bool>,
    /// Those that are to start here.
    beside: SpawnLocal,
    warm: RefCell<Vec<NonNull<Fiber>>>,
    /// Whether it takes a claim to use a stack.
    is_limited: bool,
    /// Of handled bodies that have ended.
    bare: RefCell<Vec<Stack>>,
    turn: Cell<u64>,
    /// Whose CPUs the thread runs on, if workers have some.
    cpus_of: Cell<Option<usize>>,
    /// Of the thread's own stack.
    base: Cell<*const StackContext>,
    /// How many calls of others' code are on the stack that must not give the worker away.
    keeps_worker: Cell<u32>,
}

impl ThreadFibers {
    pub(crate) fn new(
        pool: Arc<dyn DynPool>,
        thread_handle: Arc<ThreadHandle>,
        blocking_hooks: &'static BlockingHooks,
    ) -> Self {
        Self {
            thread_handle,
            blocking_hooks,
            detached: pool.external(),
            is_limited: pool.core().stacks.are_limited(),
            pool,
            table: RefCell::default(),
            vacant: RefCell::default(),
            first: Cell::new(ptr::null()),
            last: Cell::new(ptr::null()),
            on: Cell::new(ptr::null()),
            turns_left: Cell::new(0),
            mailbox_was_first: Cell::new(false),
            beside: SpawnLocal::default(),
            warm: RefCell::default(),
            bare: RefCell::default(),
            turn: Cell::new(0),
            cpus_of: Cell::new(None),
            base: Cell::new(ptr::null()),
            keeps_worker: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn thread_handle(&self) -> &Arc<ThreadHandle> {
        &self.thread_handle
    }

    /// How code on the thread's stacks waits for what is not of this crate.
    pub(crate) fn blocking_hooks(&self) -> &'static BlockingHooks {
        self.blocking_hooks
    }

    pub(crate) fn pool(&self) -> &Arc<dyn DynPool> {
        &self.pool
    }

    /// A call of others' code begins that must not give the worker away, or has ended.
    pub(crate) fn keep_worker(&self, begins: bool) {
        let calls = self.keeps_worker.get();
        self.keeps_worker.set(if begins { calls + 1 } else { calls - 1 });
    }

    /// Whether such a call is on the stack.
    pub(crate) fn keeps_worker(&self) -> bool {
        self.keeps_worker.get() > 0
    }

    /// The stack context of the thread's own stack, which is there as long as its tasks run.
    pub(crate) fn set_base(&self, base: *const StackContext) {
        self.base.set(base);
    }

    pub(crate) fn base(&self) -> *const StackContext {
        self.base.get()
    }

    pub(crate) fn detached(&self) -> &WorkerRef {
        &self.detached
    }

    /// How much cooperative code runs here between two switches.
    pub(crate) fn quantum(&self) -> Quantum {
        self.pool.core().threads.quantum()
    }

    /// The thread carries that worker from now on: it moves to its CPUs.
    pub(crate) fn settle(&self, worker: usize) {
        self.cpus_of
            .set(self.pool.core().threads.settle(worker, self.cpus_of.get()));
    }

    /// Starts a fiber on `base`, this thread's own stack; returns when it waits or has ended.
    ///
    /// # Errors
    ///
    /// There is no stack: the task comes back.
    pub(crate) fn start(
        &self,
        base: &StackContext,
        job: OnStackJob,
        reserved: Option<Reserved>,
    ) -> Result<(), (OnStackJob, NoStack)> {
        let unloaded = match reserved {
            None => self.unloaded(),
            Some(reserved) => Ok((self.init(reserved.stack), reserved.claim)),
        };
        let (fiber, claim) = match unloaded {
            Ok(unloaded) => unloaded,
            Err(error) => return Err((job, error)),
        };
        // SAFETY: a fiber of this home is there until it is cleared away, which its end is the first occasion
        // for.
        let it = unsafe { fiber.as_ref() };
        if self.is_limited {
            it.set_claim(claim);
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
        it.board(base);
        self.on.set(it);
        let ended = if SWITCHES_DIRECTLY {
            it.resume(input)
        } else {
            self.resume_in_turn(it, input)
        };
        // SAFETY: as in `start`; it has come back just now.
        let last = unsafe { &*self.on.get() };
        base.come_back(last.context());
        if ended {
            last.end();
            self.put_away(NonNull::from(last));
        }
    }

    /// Where stacks cannot be left for each other, those that pass turns on come back here in between.
    fn resume_in_turn(&self, fiber: &Fiber, input: Input) -> bool {
        let (mut it, mut ended) = (fiber, fiber.resume(input));
        while !ptr::eq(self.on.get(), it) {
            // SAFETY: the one that `it` was left for is in the table.
            it = unsafe { &*self.on.get() };
            ended = it.resume(Input::Go);
        }
        ended
    }

    /// Whether a turn is left that a fiber may take without the loop, and nothing is in the mailbox. It is
    /// taken.
    #[inline]
    fn takes_turn(&self, worker_ref: &WorkerRef) -> bool {
        let may = self.turns_left.get() > 0 && !self.thread_handle.has_entries();
        if may {
            self.count_turn(worker_ref);
        }
        may
    }

    /// Whose turn is next: the running fiber gives way, and is in the line from now on unless it is its own.
    #[inline]
    pub(crate) fn turn_after(&self, fiber: &Fiber, worker_ref: &WorkerRef) -> Turn<'_> {
        if !self.takes_turn(worker_ref) {
            self.line_up(fiber);
            return Turn::Loops;
        }
        let Some(first) = NonNull::new(self.first.get().cast_mut()) else {
            return Turn::Own;
        };
        self.line_up(fiber);
        // SAFETY: it is in the line, so it is there.
        let first = unsafe { first.as_ref() };
        // Somebody is behind it: `fiber` at the latest.
        let behind = first.behind().get();
        self.first.set(behind);
        // SAFETY: as above.
        unsafe { &*behind }.warm_up();
        Turn::Of(self.let_on(first, fiber.context()))
    }

    /// Whose turn is next: the running fiber waits.
    #[inline]
    pub(crate) fn turn_instead(&self, fiber: &Fiber, worker_ref: &WorkerRef) -> Turn<'_> {
        if self.first.get().is_null() || !self.takes_turn(worker_ref) {
            return Turn::Loops;
        }
        self.take_first().map_or(Turn::Loops, |first| {
            // SAFETY: it was in the line, so it is there.
            let first = unsafe { first.as_ref() };
            Turn::Of(self.let_on(first, fiber.context()))
        })
    }

    /// It runs from now on, with what the thread carries on the stack of `from`.
    #[inline]
    fn let_on<'fibers>(&self, next: &'fibers Fiber, from: &StackContext) -> &'fibers Fiber {
        debug_assert!(
            !ptr::eq(self.on.get(), next),
            "one that is alone goes on in place"
        );
        next.board(from);
        self.on.set(next);
        next
    }

    /// Keeps a fiber that has ended for the next body, or clears it away.
    #[inline(never)]
    fn put_away(&self, fiber: NonNull<Fiber>) {
        // SAFETY: a fiber of this home, as in `start`.
        let it = unsafe { fiber.as_ref() };
        if let Some(slot) = it.slot() {
            it.set_slot(None);
            self.table.borrow_mut()[slot as usize] = None;
            self.vacant.borrow_mut().push(slot);
            self.count_live(-1);
        }
        if self.is_limited {
            it.set_claim(Claim::none());
        }
        let mut warm = self.warm.borrow_mut();
        if warm.len() < WARM {
            warm.push(fiber);
        } else {
            drop(warm);
            // SAFETY: it has ended, and nobody else knows it.
            unsafe { clear_away(fiber) };
        }
    }

    fn count_live(&self, change: isize) {
        self.thread_handle
            .set_fibers(self.thread_handle.fibers().wrapping_add_signed(change));
        self.pool.core().stacks.count_live(change);
    }

    /// The place in the table of a fiber that is about to wait.
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

    /// A turn that no other wait of this thread has.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.set(self.turn.get() + 1);
        self.turn.get()
    }

    /// The fiber goes on after those that are in the line.
    #[inline]
    pub(crate) fn line_up(&self, fiber: &Fiber) {
        let this: *const Fiber = fiber;
        fiber.behind().set(ptr::null());
        // SAFETY: null, or a fiber in the line, which is there until it has gone on.
        match unsafe { self.last.get().as_ref() } {
            Some(last) => last.behind().set(this),
            None => {
                // Until there is nothing in the line any more.
                self.thread_handle.set_ready_here();
                self.first.set(this);
            }
        }
        self.last.set(this);
    }

    /// The bell of a fiber that listens has rung, on its thread.
    #[inline]
    pub(crate) fn let_in(&self, fiber: &Fiber) {
        fiber.get_ready();
        self.line_up(fiber);
    }

    /// The thread itself, which carries a worker, has done what the fiber with that key waits for.
    pub(crate) fn wake(&self, key: Key) {
        // A wake-up that came too late means nobody.
        if let Some(fiber) = self.waits(key) {
            // SAFETY: it is in the table, so it is there.
            self.let_in(unsafe { fiber.as_ref() });
        }
    }

    /// The fiber that waits under that key.
    fn waits(&self, key: Key) -> Option<NonNull<Fiber>> {
        let found = self.table.borrow().get(key.slot as usize).copied().flatten();
        // SAFETY: it is in the table, so it is there.
        found.filter(|fiber| unsafe { fiber.as_ref() }.waits_in(key.turn))
    }

    /// Takes the first of the line.
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

    /// The next fiber that is ready. Those that others have woken and those in the line take turns.
    #[inline]
    fn next(&self) -> Option<NonNull<Fiber>> {
        if self.thread_handle.has_entries()
            && !self.mailbox_was_first.replace(false)
            && let Some(woken) = self.next_woken()
        {
            self.mailbox_was_first.set(true);
            return Some(woken);
        }
        match self.take_first() {
            None => self.next_or_none(),
            first => first,
        }
    }

    /// There is nothing in the line.
    #[cold]
    #[inline(never)]
    fn next_or_none(&self) -> Option<NonNull<Fiber>> {
        let woken = self.next_woken();
        if woken.is_none() && self.beside.is_empty() {
            // What was entered in between has set the flag.
            self.thread_handle.clear_ready();
        }
        woken
    }

    /// The next fiber in the mailbox.
    #[cold]
    #[inline(never)]
    fn next_woken(&self) -> Option<NonNull<Fiber>> {
        loop {
            let fiber = match self.thread_handle.next()? {
                Entry::Key(key) => self.waits(key),
                // What is entered here is the waker of one of this thread's fibers.
                Entry::Notified(waker) => waker.answer().map(NonNull::cast),
            };
            // A wake-up that came too late means nobody.
            if fiber.is_some() {
                return fiber;
            }
        }
    }

    /// Resumes fibers that are ready, for at most so many turns, on `base`, this thread's own stack, while it
    /// carries the worker of `worker_ref`. How many turns they had: what they pass on to each other counts.
    #[inline(never)]
    pub(crate) fn run_ready(&self, base: &StackContext, worker_ref: &WorkerRef, most: u32) -> u32 {
        self.turns_left.set(most);
        while self.turns_left.get() > 0 && base.carries(worker_ref) {
            if let Some(task) = self.beside.take_in_turn() {
                self.count_turn(worker_ref);
                self.begin(task);
            } else if let Some(fiber) = self.next() {
                self.count_turn(worker_ref);
                self.go(base, fiber, Input::Go);
            } else if self.beside.is_empty() {
                break;
            }
        }
        most - self.turns_left.replace(0)
    }

    /// A turn begins. Who watches the worker sees another step.
    #[inline]
    fn count_turn(&self, worker_ref: &WorkerRef) {
        self.turns_left.set(self.turns_left.get() - 1);
        worker_ref.counters.add(Count::FiberTurns, 1);
    }

    /// Resumes a fiber that is ready, or starts one, if there is any, on `base`, this thread's own stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_one(&self, base: &StackContext) -> bool {
        if let Some(task) = self.beside.take_in_turn() {
            self.begin(task);
            return true;
        }
        self.resume_one(base) || !self.beside.is_empty()
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
        for fiber in self.warm.take() {
            // SAFETY: it has ended, and nobody else knows it.
            unsafe { clear_away(fiber) };
        }
    }
}

/// # Safety
///
/// The fiber has ended, and nobody uses it any more.
unsafe fn clear_away(fiber: NonNull<Fiber>) {
    // SAFETY: it was made by `Fiber::new`, in a box; by contract it goes here, once.
    drop(unsafe { Box::from_raw(fiber.as_ptr()) });
}
