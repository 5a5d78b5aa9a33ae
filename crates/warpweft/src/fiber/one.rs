//! One fiber: its stack, its seat, and how it waits.
//!
//! # Invariants
//!
//! - Everything here is its home thread's. Other threads know a [`Key`], which they enter in the home's lane.
//! - While it runs, its seat is the thread's; while it waits, nothing of it is touched but its turn, by `home.rs`.
//! - It never switches while it is panicking: how many panics are under way is the thread's knowledge, not the stack's.

use super::Input;
use super::coroutine::{Coroutine, Switch};
use super::home::Home;
use super::overflow::Label;
use super::stack::Stack;
use crate::runtime::Key;
use crate::runtime::seat::Seat;
use std::cell::{Cell, UnsafeCell};
use std::panic::resume_unwind;
use std::ptr::{self, NonNull};
use warpweft_platform::delay;
use warpweft_platform::thread::panicking;
use warpweft_task::{Abandon, Mount, Running, Signal, Unwound};

/// Whether a wait must not be left before its end, because somebody else works on the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Yes,
    No,
}

/// What a fiber does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    /// It waits until its key of this turn is entered.
    Waits(Held),
    /// It is in its home's line of those that go on next.
    Ready(Held),
}

pub(crate) struct Fiber {
    seat: Seat,
    home: NonNull<Home>,
    /// `Some` from start to end; touched by the home's thread while the fiber does not run, and then by `resume` alone.
    coroutine: UnsafeCell<Option<Coroutine>>,
    /// While it has no body.
    stack: Cell<Option<Stack>>,
    switch: Cell<*const Switch>,
    state: Cell<State>,
    /// Its place in the home's table, once it has waited.
    slot: Cell<Option<u32>>,
    /// Of its present wait, or its last; no other wait of a fiber of this thread ever had it.
    turn: Cell<u64>,
    /// Who is behind it in the line.
    behind: Cell<*const Self>,
    unwinding: Cell<bool>,
    /// Frames that must not be left while others work on them.
    held: Cell<u32>,
    /// It is in `blocking`, and wants no worker when it goes on.
    away: Cell<bool>,
    /// While its closure is on the stack.
    task: Cell<Option<Running>>,
    label: Label,
}

impl Fiber {
    /// A fiber without a body, in its box.
    ///
    /// # Safety
    ///
    /// `home` is the calling thread's, and outlives the fiber.
    pub(super) unsafe fn new(home: NonNull<Home>, stack: Stack) -> NonNull<Self> {
        let mut fiber = Box::<Self>::new_uninit();
        let place = fiber.as_mut_ptr();
        let label = Label::of("fiber", &stack);
        fiber.write(Self {
            // SAFETY: by contract; the fiber is the seat's own box, which does not move.
            seat: unsafe { Seat::new(home, place) },
            home,
            coroutine: UnsafeCell::new(None),
            stack: Cell::new(Some(stack)),
            switch: Cell::new(ptr::null()),
            state: Cell::new(State::Runs),
            slot: Cell::new(None),
            turn: Cell::new(0),
            behind: Cell::new(ptr::null()),
            unwinding: Cell::new(false),
            held: Cell::new(0),
            away: Cell::new(false),
            task: Cell::new(None),
            label,
        });
        let raw = Box::into_raw(fiber).cast::<Self>();
        NonNull::new(raw).unwrap_or_else(|| unreachable!("a box"))
    }

    fn home(&self) -> &Home {
        // SAFETY: by the contract of `new`.
        unsafe { self.home.as_ref() }
    }

    pub(crate) fn label(&self) -> &Label {
        &self.label
    }

    /// Gives it a body.
    pub(super) fn load(&self, mount: Mount) {
        let Some(stack) = self.stack.take() else {
            unreachable!("a fiber without a body has a stack")
        };
        self.label.write(mount.task().info());
        let this: *const Self = self;
        let body = move |switch: &Switch| {
            // SAFETY: its home keeps the fiber until the body has ended.
            let fiber = unsafe { &*this };
            fiber.switch.set(switch);
            fiber.seat.begin();
            fiber.seat.arrive();
            mount.run();
        };
        // SAFETY: it borrows the fiber, as above; a task's panic is its result, so it does not unwind.
        let coroutine = unsafe { Coroutine::new(stack, body) };
        // SAFETY: it does not run, and it is the home's thread that calls.
        unsafe { *self.coroutine.get() = Some(coroutine) };
    }

    /// Runs it until it waits or ends, on `base`, the thread's own stack. Whether it has ended.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(super) fn resume(&self, base: &Seat, input: Input) -> bool {
        self.state.set(State::Runs);
        self.seat.board(base);
        // SAFETY: it does not run, and it is the home's thread that calls; the fiber itself does not look at the field.
        let coroutine = unsafe { &mut *self.coroutine.get() };
        let ended = coroutine.as_mut().is_none_or(|coroutine| coroutine.resume(input));
        base.come_back(&self.seat);
        if ended {
            self.stack.set(coroutine.take().map(Coroutine::into_stack));
            self.unwinding.set(false);
        }
        ended
    }

    pub(super) fn slot(&self) -> Option<u32> {
        self.slot.get()
    }

    pub(super) fn set_slot(&self, slot: Option<u32>) {
        self.slot.set(slot);
    }

    /// Whether it waits in that turn.
    pub(super) fn waits_in(&self, turn: u64) -> bool {
        matches!(self.state.get(), State::Waits(_)) && self.turn.get() == turn
    }

    /// It waits, and is put into the line.
    pub(super) fn get_ready(&self) {
        if let State::Waits(held) = self.state.get() {
            self.state.set(State::Ready(held));
        }
    }

    /// Who is behind it in the line.
    pub(super) fn behind(&self) -> &Cell<*const Self> {
        &self.behind
    }

    /// Whether it has been left, and may be unwound.
    pub(super) fn may_be_unwound(&self) -> bool {
        matches!(self.state.get(), State::Waits(Held::No) | State::Ready(Held::No))
    }

    /// From now on its waits unwind it.
    pub(super) fn begin_unwinding(&self) {
        self.unwinding.set(true);
    }

    pub(crate) fn is_unwinding(&self) -> bool {
        self.unwinding.get()
    }

    /// Whether a frame of it must not be left.
    pub(crate) fn is_held(&self) -> bool {
        self.held.get() > 0
    }

    pub(crate) fn hold(&self, more: bool) {
        let held = self.held.get();
        self.held.set(if more { held + 1 } else { held - 1 });
    }

    /// The closure of that task begins on this stack, or has ended.
    pub(super) fn set_task(&self, task: Option<Running>) {
        self.task.set(task);
    }

    /// Whether somebody has asked for its cancellation.
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: there is a task only while its closure is on this stack.
        self.task.get().is_some_and(|task| unsafe { task.is_cancelled() })
    }

    /// Whether it is in `blocking`.
    pub(crate) fn is_away(&self) -> bool {
        self.away.get()
    }

    /// It is in `blocking` from now on, or no longer. Whether it was.
    pub(crate) fn set_away(&self, away: bool) -> bool {
        self.away.replace(away)
    }

    /// Whether it may switch away now. A thread that is panicking parks instead.
    pub(crate) fn may_switch(&self) -> bool {
        !panicking()
    }

    /// Unwinds the stack.
    pub(crate) fn unwind(&self) -> ! {
        self.home().pool().stacks().count_unwound();
        resume_unwind(Box::new(Unwound))
    }

    /// A key for the wait that begins now.
    fn next_key(&self) -> Key {
        let slot = self.home().slot_of(self);
        let turn = self.home().next_turn();
        self.turn.set(turn);
        Key { slot, turn }
    }

    /// Switches away until `signal` is set. Whether it is to be unwound instead of going on.
    pub(crate) fn wait(&self, signal: &Signal, held: Held) -> bool {
        let home = self.home();
        if let Err(token) = signal.hang(home.berth().wake_of(self.next_key())) {
            // It was set in the meantime. What the token's end enters means a turn that is over.
            self.turn.set(home.next_turn());
            token.abandon(Abandon::Cancelled);
            return false;
        }
        delay::point("fiber.wait: token hung");
        let input = self.suspend(State::Waits(held));
        if input == Input::Unwind
            && let Some(token) = signal.set_and_take()
        {
            token.abandon(Abandon::Cancelled);
        }
        input == Input::Unwind
    }

    /// Switches away until what else is ready has had its turn. Whether it is to be unwound.
    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    pub(crate) fn give_way(&self, held: Held) -> bool {
        let home = self.home();
        home.slot_of(self);
        home.line_up(self);
        self.suspend(State::Ready(held)) == Input::Unwind
    }

    #[allow(
        clippy::inline_always,
        reason = "each return behind a switch of stacks is mispredicted"
    )]
    #[inline(always)]
    fn suspend(&self, state: State) -> Input {
        self.state.set(state);
        // SAFETY: the switch lives at the foot of this stack, and was set when the body began.
        self.seat.leave(|| unsafe { &*self.switch.get() }.suspend(()))
    }
}
