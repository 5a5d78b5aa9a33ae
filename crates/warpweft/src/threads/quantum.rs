//! How much cooperative code a thread runs between two switches.

/// The number of statements of cooperative code that a thread runs before it yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantum(i32);

impl Quantum {
    /// Some 10 to 50 µs: a switch of fibers, or a turn in a queue, takes less than a hundredth of that.
    pub(crate) const USUAL: u32 = 30_000;
    /// The largest value that a budget can hold.
    pub(crate) const MOST: u32 = i32::MAX as u32;

    /// Returns `None` for 0 and for more than [`MOST`](Self::MOST).
    pub(crate) fn new(statements: u32) -> Option<Self> {
        i32::try_from(statements).ok().filter(|fits| *fits > 0).map(Self)
    }

    /// Returns the quantum of a thread that belongs to no pool.
    pub(crate) fn usual() -> Self {
        Self(Self::USUAL as i32)
    }

    pub(crate) fn statements(self) -> i32 {
        self.0
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::Quantum;

    #[test]
    fn a_quantum_of_nothing_is_refused_and_so_is_one_that_no_budget_holds() {
        for statements in [0, 1 << 31, u32::MAX] {
            assert_eq!(Quantum::new(statements), None);
        }
        for statements in [1, Quantum::USUAL, Quantum::MOST] {
            assert!(Quantum::new(statements).is_some());
        }
    }
}
