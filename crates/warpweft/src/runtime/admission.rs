//! Admission by delay: what asks, and what says that it starts.

use super::pool::Pool;
use super::priority::{Priority, Rank};
use super::spawn_error::SpawnError;
use crate::admission::controller::{AdmissionStats, Admitted, Controller, Overload};
use crate::admission::settings::QueueDelay;
use crate::execution::stack_context;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use warpweft_policy::priority;

impl Pool {
    /// Returns what admits tasks by delay, if the pool has [`Builder::admission`](crate::Builder::admission).
    #[must_use]
    pub fn admission(&self) -> Option<AdmissionControl> {
        self.info().admission.as_ref().map(|controller| AdmissionControl {
            controller: Arc::clone(controller),
            priority: None,
        })
    }

    /// Asks for admission, if the pool has it, for a task of that rank.
    pub(super) fn ask(&self, rank: Option<Rank>) -> Result<Option<Admitted>, SpawnError> {
        self.info().admission.as_ref().map_or(Ok(None), |controller| {
            self.check()?;
            let admitted = controller.ask(self.class_of(rank));
            admitted.map(Some).map_err(SpawnError::Overloaded)
        })
    }

    /// Returns the priority that a task of that rank will have here, as far as it is known before its push.
    fn class_of(&self, rank: Option<Rank>) -> Option<u8> {
        let given = rank.and_then(|rank| rank.priority_in(self.header()));
        given.or_else(|| self.inherited_priority())
    }

    /// Returns the priority that a task of this pool has from the calling one.
    fn inherited_priority(&self) -> Option<u8> {
        if self.info().priorities == 0 || !self.is_here() {
            return None;
        }
        stack_context::here().and_then(|context| priority::of(context.class()))
    }
}

/// Admits what asks for it, unless it would start too late. It belongs to a pool, and to a class of tasks:
/// those of one priority, or those without. Clones are the same.
///
/// [`try_spawn`](Pool::try_spawn) and its kin ask by themselves. This is for work that is a part of a
/// task, such as a request of a connection: it asks, stays behind what is ready by
/// [`yield_soft`](crate::yield_soft), and says that it starts.
///
/// ```
/// use warpweft::{Overload, QueueDelay, Runtime, yield_soft};
///
/// async fn serve(admission: &warpweft::AdmissionControl) -> Result<&'static str, Box<Overload>> {
///     let admitted = admission.try_admit()?;
///     yield_soft().await;
///     admitted.start_in_time()?;
///     Ok("the page")
/// }
///
/// let runtime = Runtime::builder().workers(1).admission(QueueDelay::new()).build()?;
/// let admission = runtime.first().admission().ok_or("the builder says so")?;
/// assert_eq!(runtime.block_on(serve(&admission))?, "the page");
/// assert_eq!(admission.stats().admitted, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AdmissionControl {
    controller: Arc<Controller>,
    priority: Option<u8>,
}

impl AdmissionControl {
    /// Returns the same for the class of that priority. It should be one of the same pool; one that the pool
    /// does not have counts as its last.
    ///
    /// ```
    /// use warpweft::{QueueDelay, Runtime, policy::Negele};
    /// let builder = Runtime::builder().workers(1).policy(Negele::new());
    /// let runtime = builder.admission(QueueDelay::new()).build()?;
    /// let admission = runtime.first().admission().ok_or("the builder says so")?;
    /// let urgent = admission.with_priority(runtime.priority(0)?);
    /// urgent.try_admit()?.start();
    /// assert_eq!((urgent.stats().admitted, admission.stats().admitted), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_priority(&self, priority: Priority) -> Self {
        Self {
            controller: Arc::clone(&self.controller),
            priority: Some(priority.level()),
        }
    }

    /// Asks whether something may wait for its start now. Costs a read of the clock and a short lock.
    ///
    /// # Errors
    ///
    /// The class is overloaded, and it would start too late.
    pub fn try_admit(&self) -> Result<Admitted, Box<Overload>> {
        self.controller.ask(self.priority)
    }

    /// Returns what was decided so far. Takes a short lock.
    #[must_use]
    pub fn stats(&self) -> AdmissionStats {
        self.controller.stats(self.priority)
    }

    /// Returns the settings.
    #[must_use]
    pub fn queue_delay(&self) -> QueueDelay {
        self.controller.settings()
    }
}

impl fmt::Debug for AdmissionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionControl")
            .field("pool", &self.controller.pool())
            .field("priority", &self.priority)
            .field("queue_delay", &self.queue_delay())
            .finish_non_exhaustive()
    }
}

/// A future that was admitted: its first poll says that it starts.
pub(super) struct Starts<F> {
    admitted: Option<Admitted>,
    /// Pinned.
    future: F,
}

impl<F> Starts<F> {
    pub(super) fn new(admitted: Admitted, future: F) -> Self {
        Self {
            admitted: Some(admitted),
            future,
        }
    }
}

impl<F: Future> Future for Starts<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the future inside is not moved: it is polled in its place, and dropped there.
        let this = unsafe { self.get_unchecked_mut() };
        if let Some(admitted) = this.admitted.take() {
            admitted.start();
        }
        // SAFETY: it is pinned with the value around it.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(cx)
    }
}
