//! A simulation, and the entry of a program into it: whatever the program does there comes through here.
//!
//! # Invariants
//!
//! - The pointer of a thread is null, or there is an [`Entered`] whose simulation it points to.
//! - At each entry the code since the last one is charged. The simulator's own code is not counted.

use crate::blocks;
use crate::world::World;
use corosensei::Yielder;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;

/// A simulation that runs.
pub(crate) struct Simulation {
    pub(crate) world: RefCell<World>,
    /// By thread, how its coroutine is suspended.
    pub(crate) yielders: RefCell<Vec<*const Yielder<(), ()>>>,
}

thread_local! {
    static CURRENT: Cell<*const Simulation> = const { Cell::new(ptr::null()) };
}

/// The calling thread is in a simulation while this lives.
pub(crate) struct Entered<'a>(PhantomData<&'a Simulation>);

impl<'a> Entered<'a> {
    pub(crate) fn new(sim: &'a Simulation) -> Self {
        CURRENT.set(sim);
        Self(PhantomData)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(ptr::null());
    }
}

/// Calls `f` with the simulation that the caller is in; `None` if it is in none.
#[inline(always)]
pub(crate) fn here<R>(f: impl FnOnce(&Simulation) -> R) -> Option<R> {
    enter(true, f)
}

/// As [`here`], for a caller that says itself what the code took that ran since the last call.
#[inline(always)]
pub(crate) fn here_declared<R>(f: impl FnOnce(&Simulation) -> R) -> Option<R> {
    enter(false, f)
}

#[inline(always)]
fn enter<R>(charges_code: bool, f: impl FnOnce(&Simulation) -> R) -> Option<R> {
    // This is the first, so that what follows is not counted as the program's.
    let executed = blocks::pause();
    let current = CURRENT.get();
    if current.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, so an `Entered` lives on this thread, and it borrows the simulation.
    let sim = unsafe { &*current };
    // The world is in use while it drops a value of the program.
    if blocks::COUNTED
        && let Ok(mut world) = sim.world.try_borrow_mut()
    {
        world.execute(if charges_code { executed } else { executed.place() });
    }
    let result = f(sim);
    debug_assert!(!blocks::count(), "the simulator's own code counts");
    // Other threads may have run meanwhile. This one goes on where it was.
    blocks::go_on(executed.place());
    Some(result)
}
