//! Parallel loops, built on joins.

use crate::execution::fork_cx::ForkCx;
use crate::execution::token;
use std::ops::Range;

/// Calls `body` with each number of the range, in parallel if workers are free, and returns when all calls
/// have ended.
///
/// The range is halved down to pieces of `grain` numbers (0 counts as 1), which run in order. A fork that no
/// worker takes costs a few nanoseconds, so a piece of a microsecond of work is large enough. Outside of a
/// task it runs where [`join`](crate::join) does.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// let sum = AtomicU64::new(0);
/// warpweft::par_for(0..1000, 100, |n| {
///     sum.fetch_add(n as u64, Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Panics
///
/// If a call panics, after all pieces have ended, with the panic of the lowest such piece. The rest of that
/// piece is skipped. The other pieces run in any case, unless their [token](crate::cancel) is cancelled, with
/// the other exceptions that [`ForkCx::join`] names. Outside of a task, if the runtime cannot be built or is
/// shutting down.
pub fn par_for(range: Range<usize>, grain: usize, body: impl Fn(usize) + Sync) {
    fn halves<const CHECKED: bool>(
        cx: ForkCx<'_>,
        range: Range<usize>,
        grain: usize,
        body: &(impl Fn(usize) + Sync),
    ) {
        if range.len() <= grain {
            stop_if_cancelled::<CHECKED>(cx);
            return range.for_each(body);
        }
        let middle = range.start + range.len() / 2;
        cx.join(
            |cx| halves::<CHECKED>(cx, range.start..middle, grain, body),
            |cx| halves::<CHECKED>(cx, middle..range.end, grain, body),
        );
    }
    ForkCx::find(|cx| match cx.context().forks().is_checked() {
        false => halves::<false>(cx, range, grain.max(1), &body),
        true => halves::<true>(cx, range, grain.max(1), &body),
    });
}

/// Unwinds if a token counts in the loop, and is cancelled. A loop without a token has no look at one.
#[inline]
fn stop_if_cancelled<const CHECKED: bool>(cx: ForkCx<'_>) {
    if CHECKED && cx.context().is_stopped_at_fork() {
        token::unwind();
    }
}

/// Calls `body` with each piece of `slice` of `len` elements (the last may be shorter) and the number of the
/// piece. The calls run in parallel if workers are free. Returns when all have ended.
///
/// ```
/// let mut squares = vec![0; 1000];
/// warpweft::par_chunks_mut(&mut squares, 64, |piece, chunk| {
///     for (n, square) in chunk.iter_mut().enumerate() {
///         *square = (64 * piece + n) * (64 * piece + n);
///     }
/// });
/// assert_eq!(squares[999], 998_001);
/// ```
///
/// # Panics
///
/// If `len` is 0. If a call panics, as [`par_for`]: the other pieces run in any case, unless their
/// [token](crate::cancel) is cancelled. Outside of a task, if the runtime cannot be built or is shutting
/// down.
pub fn par_chunks_mut<T: Send>(slice: &mut [T], len: usize, body: impl Fn(usize, &mut [T]) + Sync) {
    fn halves<T: Send, const CHECKED: bool>(
        cx: ForkCx<'_>,
        first: usize,
        slice: &mut [T],
        len: usize,
        body: &(impl Fn(usize, &mut [T]) + Sync),
    ) {
        let pieces = slice.len().div_ceil(len);
        if pieces <= 1 {
            if pieces == 1 {
                stop_if_cancelled::<CHECKED>(cx);
                body(first, slice);
            }
            return;
        }
        let (left, right) = slice.split_at_mut(pieces / 2 * len);
        cx.join(
            |cx| halves::<T, CHECKED>(cx, first, left, len, body),
            |cx| halves::<T, CHECKED>(cx, first + pieces / 2, right, len, body),
        );
    }
    assert_ne!(len, 0, "pieces of a slice have at least one element");
    ForkCx::find(|cx| match cx.context().forks().is_checked() {
        false => halves::<T, false>(cx, 0, slice, len, &body),
        true => halves::<T, true>(cx, 0, slice, len, &body),
    });
}
