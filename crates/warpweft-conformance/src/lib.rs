//! The tests that every scheduling policy must pass.
//!
//! The runtime relies on a policy for little, but relies on that entirely: a pushed task comes out once, in
//! bounded time, and the last look before sleep overlooks nothing. One line tests a policy for it:
//!
//! ```
//! # use warpweft_policy::Fifo;
//! warpweft_conformance::conformance!(mod fifo = Fifo::new().capacity(2));
//! ```
//!
//! The line makes a module of tests, which depend on the build:
//!
//! | build | tests |
//! |---|---|
//! | `cargo test` | all of those below, with threads where they matter |
//! | `RUSTFLAGS="--cfg warpweft_loom" cargo test --release` | owner, thieves and external threads in every interleaving |
//! | `RUSTFLAGS="--cfg warpweft_shuttle" cargo test --release` | whole small pools in many random schedules |
//!
//! | check | what it demands |
//! |---|---|
//! | `nothing_lost` | random histories of up to four workers: every task comes out, once; `is_only_ready` and the answers about fast paths are true |
//! | `nothing_lost_with_threads` | the same with real threads |
//! | `nothing_lost_in_transfers` | the same with tasks that transfer between two pools, with and without threads |
//! | `nothing_starves` | a task runs within `steps` steps while every worker is kept busy forever |
//! | `urgent_comes_first` | with priorities: an urgent task runs within `urgent_steps` steps of each worker, from wherever it was pushed |
//! | `shares_are_kept` | with shares: a priority that has tasks gets its share of a second, less two points |
//! | `scan_is_exhaustive` | any single worker's `scan` finds the tasks of every place |
//! | `extracts_are_honest` | `extract` hands out what is wanted, and nothing else |
//! | `evictions_are_honest` | `evict` hands out tasks that were cancelled in their queues, and no others; each leaves once |
//! | `rest_leaves_nothing` | what a worker had that rests runs on the others, while they are kept busy forever |
//! | `wakes_are_honest` | `push` returns `Wake::None` only if the pusher itself will find the task |
//! | `panics_end_cleanly` | a hook that panics ends the pool, and no thread waits forever |
//! | `owner_and_thieves` (loom) | nothing lost, nothing twice, nothing overlooked, whatever the interleaving |
//! | `small_pool` (shuttle) | trees, yields, wakes and spawners come to their end |
//!
//! A policy that fails gets a [`Violation`], which names the policy, the [`Duty`] and the shortest history
//! that was found. A test that takes two minutes fails too: then a hook does not return.
//!
//! # Your own policy
//!
//! `examples/own_policy.rs` is a complete policy with its tests, in less than 60 lines: `cargo test --example
//! own_policy -p warpweft-conformance`. [`Policy`](warpweft_policy::Policy) lists what a policy may and must
//! do. Three hints:
//!
//! - *Tests and sizes.* Test the policy with small queues too (a capacity of 2). Then they are full after
//!   three pushes, and loom can follow what happens.
//! - *A private place*, such as a slot in `Local`, is allowed if the push that puts a task there returns
//!   [`Wake::None`](warpweft_policy::Wake::None): the pusher is awake, and will take it. The `scan` of every
//!   worker must find every other task.
//! - *Randomness.* Take it from [`Cx::random`](warpweft_policy::Cx::random): a worker's generator is seeded,
//!   so a history that failed fails again.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
#![deny(missing_docs)]

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
mod checks;
mod duty;
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
mod in_time;
#[cfg(warpweft_shuttle)]
mod pool;
#[cfg(warpweft_loom)]
mod roles;
#[cfg(not(warpweft_shuttle))]
mod test_worker;

#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
pub use checks::{
    MOST_STEPS, TURNS, evictions_are_honest, extracts_are_honest, nothing_lost, nothing_lost_in_transfers,
    nothing_lost_with_threads, nothing_starves, panics_end_cleanly, rest_leaves_nothing, scan_is_exhaustive,
    shares_are_kept, steps, urgent_comes_first, urgent_steps, wakes_are_honest,
};
pub use duty::{Duty, Verdict, Violation};
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#[doc(hidden)]
pub use in_time::in_time as __in_time;
#[cfg(warpweft_shuttle)]
pub use pool::small_pool;
#[cfg(warpweft_loom)]
pub use roles::{owner_and_thieves, owner_and_thieves_within};

/// Expands to a module with the tests of one policy: `conformance!(mod small = MyPolicy::new(2))`, or
/// `conformance!(MyPolicy)` for a module called `conformance`.
///
/// `conformance!(brief mod wide = MyPolicy::new(2))` differs under loom only: there it tries schedules with
/// one preemption instead of two. It is for a policy with many places, which would take minutes otherwise.
///
/// The policy is an expression. It is evaluated once per test, and must make the same policy each time. Its
/// text is the name in the messages.
///
/// ```
/// use warpweft_conformance::conformance;
/// use warpweft_policy::{Fifo, Lifo};
///
/// conformance!(Fifo::new());
/// conformance!(mod lifo = Lifo::new());
/// ```
#[macro_export]
macro_rules! conformance {
    (brief mod $name:ident = $policy:expr) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports, reason = "the policy may be written with full paths")]
            use super::*;
            $crate::__brief_tests!($policy);
        }
    };
    (mod $name:ident = $policy:expr) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports, reason = "the policy may be written with full paths")]
            use super::*;
            $crate::__tests!($policy);
        }
    };
    ($policy:expr) => {
        $crate::conformance!(mod conformance = $policy);
    };
}

/// The tests of this build.
#[cfg(not(any(warpweft_loom, warpweft_shuttle)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($policy:expr) => {
        $crate::__tests!($policy;
            nothing_lost
            nothing_lost_with_threads
            nothing_lost_in_transfers
            nothing_starves
            urgent_comes_first
            shares_are_kept
            scan_is_exhaustive
            extracts_are_honest
            evictions_are_honest
            rest_leaves_nothing
            wakes_are_honest
        );

        #[test]
        fn panics_end_cleanly() -> $crate::Verdict {
            $crate::__in_time(|| $crate::panics_end_cleanly(stringify!($policy), || $policy))
        }
    };
    ($policy:expr; $($check:ident)*) => {
        $(
            #[test]
            fn $check() -> $crate::Verdict {
                $crate::__in_time(|| $crate::$check(stringify!($policy), &$policy))
            }
        )*
    };
}

/// The tests of this build.
#[cfg(warpweft_loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($policy:expr) => {
        #[test]
        fn owner_and_thieves() {
            $crate::owner_and_thieves(stringify!($policy), $policy);
        }
    };
}

/// The tests of this build, in the brief form.
#[cfg(warpweft_loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! __brief_tests {
    ($policy:expr) => {
        #[test]
        fn owner_and_thieves() {
            $crate::owner_and_thieves_within(1, stringify!($policy), $policy);
        }
    };
}

/// The tests of this build, in the brief form: only those of loom take long.
#[cfg(not(warpweft_loom))]
#[doc(hidden)]
#[macro_export]
macro_rules! __brief_tests {
    ($policy:expr) => {
        $crate::__tests!($policy);
    };
}

/// The tests of this build.
#[cfg(warpweft_shuttle)]
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($policy:expr) => {
        #[test]
        fn small_pool() {
            $crate::small_pool(|| $policy);
        }
    };
}
