//! A thread's fibers: those that wait, those that are ready, and warm stacks for those to come.
//!
//! ```text
//!   start ─▶ runs ──ends──▶ warm          a fiber that never waits is entered nowhere
//!              │ waits
//!              ▼
//!            table ──key in the lane, or yielded──▶ runs
//! ```
//!
//! # Invariants
//!
//! - Everything here is the thread's own. Others reach its [`Berth`].
//! - A fiber in the table has started and not ended. The thread does not end before the table is empty.

use super::Input;
use super::one::Fiber;
use super::stack::{NoStack, Stack};
use crate::runtime::pool::AnyPool;
use crate::runtime::seat::Seat;
use crate::runtime::{Berth, Front, Key};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use warpweft_task::Mount;

/// How many stacks a thread keeps for its next fibers.
const WARM: usize = 64;
/// And for its next handled bodies.
const WARM_BARE: usize = 16;

pub(crate) struct Home {
    berth: Arc<Berth>,
    pool: Arc<dyn AnyPool>,
    /// What free functions find on this thread when it has no worker: a pool that takes nothing any more.
    adrift: Front,
    table: RefCell<Vec<Option<NonNull<Fiber>>>>,
    vacant: RefCell<Vec<u32>>,
    yielded: RefCell<VecDeque<Key>>,
    /// Whether the last one came from the lane.
    lane_was_first: Cell<bool>,
    warm: RefCell<Vec<NonNull<Fiber>>>,
    /// Of handled bodies that have ended.
    bare: RefCell<Vec<Stack>>,
    turn: Cell<u64>,
    /// Whose CPUs the thread runs on, if workers have some.
    cpus_of: Cell<Option<usize>>,
}

impl Home {
    pub(crate) fn new(pool: Arc<dyn AnyPool>, berth: Arc<Berth>) -> Self {
        Self {
            berth,
            adrift: pool.visitor(),
            pool,
            table: RefCell::default(),
            vacant: RefCell::default(),
            yielded: RefCell::default(),
            lane_was_first: Cell::new(false),
            warm: RefCell::default(),
            bare: RefCell::default(),
            turn: Cell::new(0),
            cpus_of: Cell::new(None),
        }
    }

    #[inline]
    pub(crate) fn berth(&self) -> &Arc<Berth> {
        &self.berth
    }

    pub(crate) fn pool(&self) -> &Arc<dyn AnyPool> {
        &self.pool
    }

    pub(crate) fn adrift(&self) -> &Front {
        &self.adrift
    }

    /// The thread carries that worker from now on: it moves to its CPUs.
    pub(crate) fn settle(&self, worker: usize) {
        self.cpus_of
            .set(self.pool.crew().settle(worker, self.cpus_of.get()));
    }

    /// Starts a fiber on `base`, this thread's own stack; returns when it waits or has ended.
    ///
    /// # Errors
    ///
    /// There is no stack: the task comes back.
    pub(super) fn start(
        &self,
        base: &Seat,
        mount: Mount,
        stack: Option<Stack>,
    ) -> Result<(), (Mount, NoStack)> {
        let warm = if stack.is_none() {
            self.warm.borrow_mut().pop()
        } else {
            None
        };
        let fiber = match (warm, stack) {
            (Some(fiber), _) => fiber,
            (None, Some(stack)) => self.furnish(stack),
            (None, None) => match self.take_stack() {
                Ok(stack) => self.furnish(stack),
                Err(error) => return Err((mount, error)),
            },
        };
        // SAFETY: a fiber of this home is there until it is cleared away, which its end is the first occasion for.
        unsafe { fiber.as_ref() }.load(mount);
        self.go(base, fiber, Input::Go);
        Ok(())
    }

    /// A stack that was used on this thread, or one of the pool's.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn take_stack(&self) -> Result<Stack, NoStack> {
        let kept = self.bare.borrow_mut().pop();
        kept.map_or_else(|| self.pool.stacks().take(), Ok)
    }

    /// Keeps a stack of a handled body for the next one, or gives it back.
    pub(crate) fn put_stack(&self, stack: Stack) {
        let mut kept = self.bare.borrow_mut();
        if kept.len() < WARM_BARE {
            kept.push(stack);
        }
    }

    fn furnish(&self, stack: Stack) -> NonNull<Fiber> {
        // SAFETY: the home is this thread's, and clears its fibers away before it goes.
        unsafe { Fiber::new(NonNull::from(self), stack) }
    }

    fn go(&self, base: &Seat, fiber: NonNull<Fiber>, input: Input) {
        // SAFETY: as in `start`.
        let it = unsafe { fiber.as_ref() };
        if !it.resume(base, input) {
            return;
        }
        if let Some(slot) = it.slot() {
            it.set_slot(None);
            self.table.borrow_mut()[slot as usize] = None;
            self.vacant.borrow_mut().push(slot);
            self.count_live(-1);
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
        self.berth
            .set_fibers(self.berth.fibers().wrapping_add_signed(change));
        self.pool.stacks().count_live(change);
    }

    /// The fiber is about to wait: its place in the table, and a turn that no other wait of this thread has.
    pub(super) fn enroll(&self, fiber: &Fiber) -> (u32, u64) {
        let slot = fiber.slot().unwrap_or_else(|| {
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
        });
        (slot, self.next_turn())
    }

    pub(super) fn next_turn(&self) -> u64 {
        self.turn.set(self.turn.get() + 1);
        self.turn.get()
    }

    /// The fiber with that key gives way.
    pub(super) fn note_yielded(&self, key: Key) {
        self.yielded.borrow_mut().push_back(key);
        self.berth.note_ready();
    }

    /// The next fiber that is ready. Those that were woken and those that gave way take turns.
    fn next(&self) -> Option<NonNull<Fiber>> {
        loop {
            let others = !self.yielded.borrow().is_empty();
            let woken = if others && self.lane_was_first.get() {
                None
            } else {
                self.berth.next()
            };
            self.lane_was_first.set(woken.is_some());
            let Some(key) = woken.or_else(|| self.yielded.borrow_mut().pop_front()) else {
                self.berth.note_nothing();
                // What was entered in between has set the flag.
                return None;
            };
            let found = self.table.borrow().get(key.slot as usize).copied().flatten();
            // SAFETY: it is in the table, so it is there.
            let found = found.filter(|fiber| unsafe { fiber.as_ref() }.waits_in(key.turn));
            // A wake-up that came too late means nobody.
            if found.is_some() {
                return found;
            }
        }
    }

    /// Resumes a fiber that is ready, if there is one, on `base`, this thread's own stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_one(&self, base: &Seat) -> bool {
        let fiber = self.next();
        if let Some(fiber) = fiber {
            self.go(base, fiber, Input::Go);
        }
        fiber.is_some()
    }

    /// The pool closes, and this thread has no worker: unwinds its fibers. Those that others work on wait for them first.
    pub(crate) fn unwind_all(&self, base: &Seat) {
        while self.berth.fibers() > 0 {
            let waiting: Vec<_> = self.table.borrow().iter().copied().flatten().collect();
            let mut went_on = false;
            for fiber in waiting {
                // SAFETY: it was in the table, and those that end meanwhile are warm, or were resumed below, alone.
                let it = unsafe { fiber.as_ref() };
                if it.may_be_unwound() {
                    it.begin_unwinding();
                    self.go(base, fiber, Input::Unwind);
                    went_on = true;
                }
            }
            while self.run_one(base) {
                went_on = true;
            }
            if !went_on {
                self.berth.wait_for_ready();
            }
        }
    }
}

impl Drop for Home {
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
