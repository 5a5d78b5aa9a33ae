//! Stacks, and switches between them: the mechanism under fibers and handled bodies.
//!
//! | file | job |
//! |---|---|
//! | `switch` | a coroutine on x86-64 Linux: ten instructions per switch |
//! | `portable` | a coroutine elsewhere, by the crate `corosensei` |
//! | `on_thread` | a coroutine on a thread of the system: what the model checkers and other systems get |
//! | `stack` | the stacks of a pool: how many there may be, which are free |
//! | `memory`, `no_memory` | mapped memory with a guard page; its substitute without a memory manager |
//! | `overflow`, `no_overflow` | the report of a stack overflow; nothing where it cannot be detected |
//!
//! Nothing here depends on pools, workers or tasks.

#[cfg_attr(
    not(all(unix, not(any(warpweft_loom, warpweft_shuttle)))),
    path = "no_memory.rs"
)]
pub(crate) mod memory;
#[cfg_attr(
    not(all(unix, not(any(warpweft_loom, warpweft_shuttle)))),
    path = "no_overflow.rs"
)]
pub(crate) mod overflow;
pub(crate) mod stack;
#[cfg_attr(
    not(all(unix, not(any(warpweft_loom, warpweft_shuttle)))),
    path = "on_thread.rs"
)]
#[cfg_attr(
    all(
        unix,
        not(any(warpweft_loom, warpweft_shuttle)),
        any(not(target_os = "linux"), not(target_arch = "x86_64"), warpweft_corosensei)
    ),
    path = "portable.rs"
)]
pub(crate) mod switch;

/// The command with which a suspended stack is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// Continue.
    Go,
    /// Unwind.
    Unwind,
}
