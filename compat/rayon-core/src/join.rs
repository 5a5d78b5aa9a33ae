//! `join`: two closures that may run in parallel.

use crate::global::with_target;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;
use warpweft::ForkCx;

/// Tells a closure of [`join_context`] where it runs.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// Not `Send`, as the original.
    thread: PhantomData<*mut ()>,
}

impl FnContext {
    fn new(migrated: bool) -> Self {
        Self {
            migrated,
            thread: PhantomData,
        }
    }

    /// Returns true if the closure runs on another thread than the one that called `join_context`.
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, in parallel if a thread is free, and returns when both have ended.
///
/// `oper_a` runs here; `oper_b` runs here after it, unless another thread has taken it. On a thread of no
/// pool both run in the global pool. Nothing else runs on top of a `join` that waits: see the [crate](crate).
///
/// # Panics
///
/// If one closure panics, when both have ended. If both do, with the panic of `oper_a`.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     match numbers {
///         [] => 0,
///         [number] => *number,
///         _ => {
///             let (left, right) = numbers.split_at(numbers.len() / 2);
///             let (left, right) = rayon_core::join(|| sum(left), || sum(right));
///             left + right
///         }
///     }
/// }
/// assert_eq!(sum(&(1..=100).collect::<Vec<_>>()), 5050);
/// ```
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    ForkCx::with(|cx| match cx {
        Some(cx) => cx.join(|_| oper_a(), |_| oper_b()),
        None => with_target(|target| target.install(|cx| cx.join(|_| oper_a(), |_| oper_b()))),
    })
}

/// As [`join`]; the closures are told whether they run on another thread than the caller's.
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    ForkCx::with(|cx| match cx {
        Some(cx) => fork(cx, false, oper_a, oper_b),
        None => with_target(|target| target.install(|cx| fork(cx, true, oper_a, oper_b))),
    })
}

#[inline]
fn fork<A, B, RA, RB>(cx: ForkCx<'_>, came_from_outside: bool, oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA,
    B: FnOnce(FnContext) -> RB + Send,
    RB: Send,
{
    let caller = thread_mark();
    cx.join(
        |_| oper_a(FnContext::new(came_from_outside)),
        move |_| oper_b(FnContext::new(came_from_outside || thread_mark() != caller)),
    )
}

/// Returns a number that no other thread has at this moment.
fn thread_mark() -> usize {
    thread_local!(static MARK: Cell<u8> = const { Cell::new(0) });
    MARK.with(|mark| ptr::from_ref(mark).addr())
}
