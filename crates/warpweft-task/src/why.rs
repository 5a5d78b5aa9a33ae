//! Why a task is runnable: the hidden parameter of every scheduler.

/// The reason for which a task is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A task of the pool spawned it.
    Spawned,
    /// It is the second half of a fork, made public for thieves.
    Forked,
    /// It slept, and somebody woke it.
    Woken,
    /// It gave way to others of its own accord.
    Yielded,
    /// Somebody outside the pool spawned it.
    Injected,
}

impl Why {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Spawned,
        Self::Forked,
        Self::Woken,
        Self::Yielded,
        Self::Injected,
    ];
}
