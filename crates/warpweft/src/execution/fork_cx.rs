//! The right to fork on a stack.

use super::stack_context::{StackContext, here};

/// The right to fork on this stack. It costs nothing to pass on, and saves each [`join`](ForkCx::join) the
/// look-up of the thread.
///
/// ```
/// use warpweft::ForkCx;
///
/// fn fib(cx: ForkCx<'_>, n: u64) -> u64 {
///     if n < 2 {
///         return n;
///     }
///     let (a, b) = cx.join(|cx| fib(cx, n - 1), |cx| fib(cx, n - 2));
///     a + b
/// }
///
/// let runtime = warpweft::Runtime::builder().workers(2).build()?;
/// assert_eq!(runtime.install(|cx| fib(cx, 20))?, 6765);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ForkCx<'stack>(&'stack StackContext);

impl<'stack> ForkCx<'stack> {
    pub(crate) fn new(context: &'stack StackContext) -> Self {
        Self(context)
    }

    /// Calls `body` with the right to fork on this stack, or with `None` on a thread of no pool.
    ///
    /// ```
    /// use warpweft::ForkCx;
    ///
    /// assert!(ForkCx::with(|cx| cx.is_none()));
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let sum = runtime.spawn_job(|| {
    ///     ForkCx::with(|cx| cx.map(|cx| cx.join(|_| 1, |_| 2)))
    /// });
    /// assert_eq!(sum.wait()?, Some((1, 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn with<R>(body: impl FnOnce(Option<ForkCx<'_>>) -> R) -> R {
        body(here().map(ForkCx::new))
    }

    pub(crate) fn context(self) -> &'stack StackContext {
        self.0
    }
}

/// Calls `body` with the right to fork on this stack, if it belongs to a pool.
pub(crate) fn with_forks<R>(body: impl FnOnce(ForkCx<'_>) -> R) -> R {
    match here() {
        Some(context) => body(ForkCx::new(context)),
        None => unreachable!("forks and installed closures are run by threads of pools"),
    }
}
