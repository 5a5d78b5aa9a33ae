//! A coroutine whose stack is a thread's: for the model checkers, and where stacks cannot be switched.
//!
//! ```text
//!   owner's thread:  resume ── baton ──▶            ◀── baton ── …
//!   fiber's thread:          ▶ runs, switches ──▶ sleeps until it has the baton again
//! ```
//!
//! One of the two threads runs at any time. The baton's lock orders what they do.

use super::stack::StackMemory;
use crate::coroutine::Input;
use std::cell::Cell;
use std::sync::Arc;
use warpweft_platform::stack_copy::Registers;
use warpweft_platform::sync::{Condvar, Mutex};
use warpweft_platform::thread::{JoinHandle, spawn};

/// The side that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Owner,
    Fiber(Input),
    Ended,
}

#[derive(Debug)]
struct Baton {
    turn: Mutex<Side>,
    passed: Condvar,
}

/// As in `switch.rs`. Here it is not known where a stack was left.
pub(crate) fn left_registers(_switch: u64, _read: impl Fn(u64) -> Option<u64>) -> Option<Registers> {
    None
}

impl Baton {
    /// Passes the baton, and waits until `mine` reports that it is back.
    fn pass<T>(&self, to: Side, mine: impl Fn(Side) -> Option<T>) -> T {
        let mut turn = self.turn.lock();
        *turn = to;
        self.passed.notify_all();
        loop {
            if let Some(got) = mine(*turn) {
                return got;
            }
            turn = self.passed.wait(turn);
        }
    }

    fn input(turn: Side) -> Option<Input> {
        match turn {
            Side::Fiber(input) => Some(input),
            Side::Owner | Side::Ended => None,
        }
    }
}

/// The handle with which the closure switches away.
#[derive(Debug)]
pub(crate) struct Switch(Arc<Baton>);

impl Switch {
    /// Returns control to the code that resumed the closure, until it resumes it again.
    pub(crate) fn suspend(&self, (): ()) -> Input {
        self.0.pass(Side::Owner, Baton::input)
    }
}

/// True if one stack can be left directly for another.
pub(crate) const SWITCHES_DIRECTLY: bool = false;

/// Switches away. The code that resumed the closure continues with `next`, if there is one.
///
/// # Safety
///
/// None; as in `switch.rs`.
pub(crate) unsafe fn leave_for(from: &Switch, _next: Option<&RawCoroutine>) -> Input {
    from.suspend(())
}

/// The closure, on its way to its thread.
struct Sent(Box<dyn FnOnce(&Switch)>);

// SAFETY: one of the two threads runs at any time, so only one of them uses what it captured.
unsafe impl Send for Sent {}

impl Sent {
    fn run(self, switch: &Switch) {
        (self.0)(switch);
    }
}

/// A closure and its stack.
pub(crate) struct RawCoroutine {
    stack: StackMemory,
    baton: Arc<Baton>,
    body: Cell<Option<Sent>>,
    thread: Cell<Option<JoinHandle<()>>>,
}

impl RawCoroutine {
    /// # Safety
    ///
    /// What `body` borrows is there until it has returned. `body` does not unwind.
    pub(crate) unsafe fn new<'a>(stack: StackMemory, body: impl FnOnce(&Switch) + 'a) -> Self {
        let body: Box<dyn FnOnce(&Switch) + 'a> = Box::new(body);
        // SAFETY: only the lifetime changes; by contract what it borrows is there.
        let body =
            unsafe { std::mem::transmute::<Box<dyn FnOnce(&Switch) + 'a>, Box<dyn FnOnce(&Switch)>>(body) };
        let baton = Baton {
            turn: Mutex::new(Side::Owner),
            passed: Condvar::new(),
        };
        Self {
            stack,
            baton: Arc::new(baton),
            body: Cell::new(Some(Sent(body))),
            thread: Cell::new(None),
        }
    }

    /// Runs the closure until it switches away or ends. Returns true if it has ended.
    pub(crate) fn resume(&self, input: Input) -> bool {
        if let Some(body) = self.body.take() {
            let switch = Switch(Arc::clone(&self.baton));
            self.thread.set(Some(spawn(move || {
                switch.0.wait_for_turn();
                body.run(&switch);
                *switch.0.turn.lock() = Side::Ended;
                switch.0.passed.notify_all();
            })));
        }
        let ended = self.baton.pass(Side::Fiber(input), |turn| match turn {
            Side::Owner => Some(false),
            Side::Ended => Some(true),
            Side::Fiber(_) => None,
        });
        if ended && let Some(thread) = self.thread.take() {
            // The closure does not unwind.
            let _ = thread.join();
        }
        ended
    }

    pub(crate) fn into_stack(self) -> StackMemory {
        self.stack
    }
}

impl Baton {
    fn wait_for_turn(&self) {
        let mut turn = self.turn.lock();
        while Self::input(*turn).is_none() {
            turn = self.passed.wait(turn);
        }
    }
}
