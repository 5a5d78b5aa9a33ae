//! Fibers that borrow from the frame that waits for them.

use crate::fork_join;
use std::fmt;

/// Spawns fibers that may borrow whatever lives longer than the scope; made by [`scope`].
#[derive(Clone, Copy)]
pub struct Scope<'scope, 'env: 'scope>(&'scope fork_join::Scope<'scope, 'env>);

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a fiber, which any worker may start. If it panics, the scope panics when all have ended.
    ///
    /// If there is no stack for it, it is dropped, and the scope panics when all have ended.
    #[track_caller]
    pub fn spawn<F>(self, body: F)
    where
        F: FnOnce(Scope<'scope, 'env>) + Send + 'scope,
    {
        self.0.spawn_fiber(move |scope| body(Scope(scope)));
    }
}

/// Calls `body` with a [`Scope`], in which it spawns fibers that borrow from here. Returns when `body` and
/// all fibers have ended.
///
/// In a fiber the wait switches to other work; in a job the thread passes its worker on; outside of a task
/// `body` runs on the [default runtime](crate::default_runtime). The frame cannot be left earlier: the stack
/// of a live fiber is never freed, so what is borrowed stays. For that reason a runtime that shuts down
/// unwinds the scope's fibers before the frame that waits for them.
///
/// ```
/// use warpweft::fiber;
/// let mut words = [String::new(), String::new()];
/// fiber::scope(|scope| {
///     for (n, word) in words.iter_mut().enumerate() {
///         scope.spawn(move |_| *word = fiber::wait(async { n.to_string() }));
///     }
/// });
/// assert_eq!(words, ["0", "1"]);
/// ```
///
/// # Panics
///
/// As [`scope`](crate::scope()) for jobs.
pub fn scope<'env, T: Send>(body: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> T + Send) -> T {
    fork_join::scope(|scope| body(Scope(scope)))
}
