//! What becomes of the panics of foreign code.

use crate::thread::panicking;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Calls foreign code. If it panics, nothing else happens: the panic hook has reported it.
pub fn contain(f: impl FnOnce()) {
    // Unwind: the caller goes on, and what it does next does not depend on what `f` has done.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops the payload of a panic.
pub fn discard(payload: Box<dyn Any + Send>) {
    // Unwind: a panic's payload may panic in its own `Drop`. The payload of that panic is leaked.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(payload);
    }
}

/// Calls foreign code with each item, also behind one with which it panics.
///
/// # Panics
///
/// With the first of these panics, at the end, unless the thread unwinds already: a second panic would end
/// the process.
pub fn for_each<T>(items: impl IntoIterator<Item = T>, mut f: impl FnMut(T)) {
    let mut panic = None;
    for item in items {
        // Unwind: the callers hold no lock, and do not use an item again.
        match catch_unwind(AssertUnwindSafe(|| f(item))) {
            Err(first) if panic.is_none() => panic = Some(first),
            Err(other) => discard(other),
            Ok(()) => {}
        }
    }
    match panic {
        Some(panic) if panicking() => discard(panic),
        Some(panic) => resume_unwind(panic),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{contain, for_each};
    use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};

    /// Panics when it is dropped, as long as there are others behind it.
    struct Bomb(u32);

    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Bomb(self.0 - 1));
            }
        }
    }

    #[test]
    fn a_payload_that_panics_ends_here() {
        contain(|| panic_any(Bomb(3)));
    }

    #[test]
    fn all_are_called_and_the_first_panic_continues() {
        let mut called = Vec::new();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for_each(0..4, |n| {
                called.push(n);
                match n {
                    1 => panic_any(n),
                    2 => panic_any(Bomb(2)),
                    _ => {}
                }
            });
        }));
        assert_eq!(outcome.expect_err("it panics").downcast_ref(), Some(&1));
        assert_eq!(called, [0, 1, 2, 3]);
    }
}
