//! The third idiom: a piece of work splits in two and continues when both halves have ended.
//!
//! ```text
//!  ForkPool::run(root) ──▶ Branch::run(root, cx) ──▶ cx.join(a, b) ──▶ Branch::run(a, cx of a)
//!    from outside                                                      Branch::run(b, cx of b)
//! ```
//!
//! Invariants
//! - A context goes to each branch by value. It is what the contestant makes of it: nothing (rayon), a
//!   mutable borrow (chili), a handle in a register. No contestant pays for another's.
//! - A branch is a type, not a closure: a closure cannot be generic over the context it gets, and
//!   the contexts of chili have another lifetime in every branch.
//! - Which branch runs first, and which is offered to the others, is the contestant's own business.
//!
//! Beside it, for those that have it: a scope, any number of closures that end before it does.

use std::time::Duration;

use harness::Counters;

/// A piece of work that may fork: one side of a join, or the root.
pub trait Branch: Send {
    /// Its result.
    type Out: Send;

    /// Does the work. Borrows end with the call: data may be on the stack of the one that waits.
    fn run<F: Fork>(self, cx: F) -> Self::Out;
}

/// From inside a pool that joins: the one call of a branch.
pub trait Fork: Sized {
    /// Runs both, in parallel if a worker is free, and returns when both have ended.
    fn join<A: Branch, B: Branch>(&mut self, a: A, b: B) -> (A::Out, B::Out);
}

/// From outside: a pool that joins.
pub trait ForkPool {
    /// Runs the root as a branch of the pool and waits for it.
    fn run<R: Branch>(&self, root: R) -> R::Out;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

/// From outside: a pool with scopes.
pub trait ScopePool {
    /// On a worker, opens a scope, spawns `n` times the same job into it and waits until all have run. Says
    /// how long that took there.
    fn scope(&self, n: u64, job: impl Fn() + Copy + Send + Sync) -> Duration;

    /// The scheduler's counters, where it has some.
    fn counters(&self) -> Option<Counters> {
        None
    }
}
