//! The setting of admission by delay.

use super::Builder;
use crate::admission::settings::QueueDelay;

impl Builder {
    /// Refuses tasks that would start too late. The default is to refuse none.
    ///
    /// The verbs that may fail ask for it: [`try_spawn`](crate::Pool::try_spawn) and its kin,
    /// [`spawn_with_permit`](crate::Pool::spawn_with_permit) and its kin when they have their permit,
    /// requests of `warpweft_tokio::serve`, and
    /// [`AdmissionControl::try_admit`](crate::AdmissionControl::try_admit). What they spawn is measured from
    /// then until it starts. If the mean delay is above the [target](QueueDelay::target) for a whole
    /// [interval](QueueDelay::interval), or nothing has started for so long, the pool is overloaded. Then as
    /// many may wait as start within the target, and the next one gets
    /// [`SpawnError::Overloaded`](crate::SpawnError::Overloaded), or
    /// [`EnterError::Overloaded`](crate::EnterError::Overloaded). One is always admitted while none waits.
    /// The state ends after an interval in which none was refused.
    ///
    /// What is spawned by `try_spawn` and its kin is never shed: what was admitted before the overload was
    /// noticed is worked off, and starts late. Only
    /// [`start_after_others`](crate::Admitted::start_after_others), which requests of `serve` await, ends
    /// what has waited too long.
    ///
    /// Each priority is a class, and so are the tasks without one. Other spawns are neither refused nor
    /// measured, and cost nothing more. One that asks costs two reads of the clock and two short locks, about
    /// 0.1 µs. Under a policy that runs the youngest task first, less is refused: many tasks start at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::{QueueDelay, Runtime};
    /// let delay = QueueDelay::new().target(Duration::from_millis(20));
    /// let runtime = Runtime::builder().workers(1).admission(delay).build()?;
    /// let task = runtime.try_spawn(async { 42 })?;
    /// assert_eq!(task.wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admission(mut self, delay: QueueDelay) -> Self {
        self.config.admission = Some(delay);
        self
    }
}
