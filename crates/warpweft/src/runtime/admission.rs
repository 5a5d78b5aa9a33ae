//! Admission by delay: what asks, and what says that it starts.

use super::pool::Pool;
use super::priority::{Priority, Rank};
use super::spawn_error::SpawnError;
use super::yields::{YieldNow, yield_soft};
use crate::admission::controller::{AdmissionStats, Admitted, Controller, Overload};
use crate::admission::settings::QueueDelay;
use crate::execution::stack_context;
use crate::scheduler::poll_interval::LOOK_NS;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use warpweft_platform::clock;
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
/// task, such as a request of a connection: it asks, and [starts after others](Admitted::start_after_others).
///
/// ```
/// use warpweft::{Overload, QueueDelay, Runtime};
///
/// async fn serve(admission: &warpweft::AdmissionControl) -> Result<&'static str, Box<Overload>> {
///     admission.try_admit()?.start_after_others().await?;
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

impl Admitted {
    /// Stays behind all tasks that are ready on this worker, except for those that the policy puts behind: a
    /// long kind under `shortest`. Among them are those that the sockets have woken meanwhile. Then it says
    /// that it starts, unless it has waited so long that it should end at once.
    ///
    /// So whoever comes asks before long work begins, and is refused at once rather than after it. On a
    /// [standby poller](crate::Builder::stuck_after) it waits for another worker. It costs a yield, and a
    /// second one if tasks ran meanwhile for 100 µs or more.
    ///
    /// # Errors
    ///
    /// As [`start_in_time`](Self::start_in_time).
    pub fn start_after_others(self) -> StartAfterOthers {
        StartAfterOthers {
            yields: yield_soft(),
            asked_ns: self.asked_ns(),
            yielded_again: false,
            admitted: Some(self),
        }
    }
}

/// The future of [`Admitted::start_after_others`].
#[derive(Debug)]
#[must_use = "nothing starts unless it is awaited"]
pub struct StartAfterOthers {
    yields: YieldNow,
    asked_ns: u64,
    /// Once only: those that come later do the same, and would overtake it.
    yielded_again: bool,
    /// `None` once it has started.
    admitted: Option<Admitted>,
}

impl Future for StartAfterOthers {
    type Output = Result<(), Box<Overload>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            ready!(Pin::new(&mut self.yields).poll(cx));
            let now = clock::now_ns();
            // The worker has looked at its sockets after such a time, and what they woke is behind this task.
            if self.yielded_again || now.saturating_sub(self.asked_ns) < LOOK_NS {
                break;
            }
            self.yielded_again = true;
            self.yields = yield_soft();
        }
        let Some(admitted) = self.admitted.take() else {
            panic!("a future was polled again after it had ended");
        };
        Poll::Ready(admitted.start_in_time())
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
