//! A task's deadline is in its policy word, below its [`priority`](mod@crate::priority), with policies that
//! [use deadlines](crate::Policy::uses_deadlines).
//!
//! ```text
//!   priority + 1, or 0 : 8 │ deadline in nanoseconds of the platform's clock, or 0 for none : 56
//! ```

use crate::priority;

/// Returns the word of a new task with this deadline, in nanoseconds of the clock of a policy's context. The
/// last one is more than two years after the clock's beginning; a later one is this one.
///
/// ```
/// use warpweft_policy::deadline;
/// assert_eq!(deadline::of(deadline::word(5_000)), Some(5_000));
/// assert_eq!(deadline::of(0), None);
/// ```
#[must_use]
pub const fn word(at_ns: u64) -> u64 {
    let last = priority::own(u64::MAX);
    if at_ns == 0 {
        1
    } else if at_ns < last {
        at_ns
    } else {
        last
    }
}

/// Returns the deadline in a task's word; `None` if its spawner gave none.
#[must_use]
pub const fn of(word: u64) -> Option<u64> {
    match priority::own(word) {
        0 => None,
        at_ns => Some(at_ns),
    }
}
