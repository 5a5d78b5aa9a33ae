//! What happens when a task waits for another one, for pools in which it lends its priority.
//!
//! Without such a pool in the process a handle pays one look at a word for it.

use crate::header::Header;
use std::ptr::NonNull;
use warpweft_platform::counter::Replaceable;
use warpweft_platform::process;

/// What is called, on the thread that waits or no longer waits, with the address of the awaited task.
#[derive(Debug)]
pub struct LendingHooks {
    /// Code begins to wait for the task with that address and that policy word, or looks again. Before, the
    /// handle may have been elsewhere.
    pub awaits: fn(task: usize, word: u64),
    /// It does not wait for it any more, or has never begun to.
    pub awaits_no_more: fn(task: usize),
}

static NONE: LendingHooks = LendingHooks {
    awaits: |_, _| (),
    awaits_no_more: |_| (),
};

static HOOKS: Replaceable<LendingHooks> = Replaceable::new(&NONE);

/// Makes all handles of the process call `hooks` from now on.
pub fn set_lending(hooks: &'static LendingHooks) {
    HOOKS.set(hooks);
    process::note_special_case();
}

/// Notes that the handle of `task`, which exists, begins to wait.
#[cold]
pub(crate) fn awaits(task: &Header) {
    (HOOKS.get().awaits)(
        NonNull::from(task).as_ptr().expose_provenance(),
        task.policy_hint(),
    );
}

/// Notes that the handle of that task waits no longer. The task is not touched.
#[cold]
pub(crate) fn awaits_no_more(task: NonNull<Header>) {
    (HOOKS.get().awaits_no_more)(task.as_ptr().expose_provenance());
}
