//! What becomes of the panics of foreign code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

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

#[cfg(test)]
mod tests {
    use super::contain;
    use std::panic::panic_any;

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
}
