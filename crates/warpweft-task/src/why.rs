//! The reasons for which a task becomes ready. They are the hidden parameter of every scheduler.

/// The reason for which a task is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// A task of the pool spawned it.
    Spawned,
    /// It is the second half of a fork, made visible to thieves.
    Forked,
    /// It slept, and a thread woke it.
    Woken,
    /// It yielded.
    Yielded,
    /// A thread outside the pool spawned it.
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
