//! The laws of a pool's classes, and what is let in.

use super::law::{Law, Start};
use super::settings::QueueDelay;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::Mutex;

/// The number of the class of tasks without a priority. A priority's class is its level and one.
fn class_of(priority: Option<u8>, classes: usize) -> usize {
    priority.map_or(0, |level| (usize::from(level) + 1).min(classes - 1))
}

/// A class: its law, and what the law has decided.
#[derive(Debug)]
struct Class {
    law: Law,
    admitted: u64,
    refused: u64,
    shed: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Controller {
    pool: String,
    settings: QueueDelay,
    classes: Box<[Mutex<Class>]>,
}

/// What a pool's admission has decided for a class so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AdmissionStats {
    /// How many were admitted.
    pub admitted: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many were admitted, and then ended without a start because they had waited too long.
    pub shed: u64,
    /// How many are admitted now and have not started.
    pub waiting: u64,
    /// How long the last one that started had waited.
    pub delay: Duration,
    /// True if some are refused now.
    pub is_overloaded: bool,
}

/// The reason why a pool refused a task: it would start too late.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overload {
    /// The name of the pool.
    pub pool: String,
    /// The priority of the class; `None` for tasks without one.
    pub priority: Option<u8>,
    /// How long the task would have waited, by an estimate; or has waited, if it was shed.
    pub delay: Duration,
    /// The [target](QueueDelay::target).
    pub target: Duration,
    /// The [interval](QueueDelay::interval), after which it may be better.
    pub interval: Duration,
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pool,
            priority,
            delay,
            target,
            ..
        } = self;
        write!(f, "the pool `{pool}` is overloaded: a task ")?;
        if let Some(priority) = priority {
            write!(f, "of priority {priority} ")?;
        }
        write!(
            f,
            "waits {delay:.1?} until it starts, and {target:.1?} is the target; come back later, or spawn fewer"
        )
    }
}

impl std::error::Error for Overload {}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Controller {
    /// Makes the controller of a pool with that number of priorities. The settings were checked.
    pub(crate) fn new(pool: String, settings: QueueDelay, priorities: u8) -> Self {
        let law = Law::new(nanoseconds(settings.target), nanoseconds(settings.interval));
        let class = || {
            Mutex::new(Class {
                law: law.clone(),
                admitted: 0,
                refused: 0,
                shed: 0,
            })
        };
        Self {
            pool,
            settings,
            classes: (0..=priorities).map(|_| class()).collect(),
        }
    }

    pub(crate) fn pool(&self) -> &str {
        &self.pool
    }

    pub(crate) fn settings(&self) -> QueueDelay {
        self.settings
    }

    /// Calls `f` with the class, unless this is a forked child whose parent had its lock.
    fn with<R>(&self, priority: Option<u8>, f: impl FnOnce(&mut Class) -> R) -> Option<R> {
        let class = class_of(priority, self.classes.len());
        self.classes[class]
            .lock_unless_lost()
            .map(|mut class| f(&mut class))
    }

    #[cold]
    fn overload(&self, priority: Option<u8>, delay: u64) -> Box<Overload> {
        Box::new(Overload {
            pool: self.pool.clone(),
            priority,
            delay: Duration::from_nanos(delay),
            target: self.settings.target,
            interval: self.settings.interval,
        })
    }

    /// Asks whether one of that class is let in now.
    ///
    /// # Errors
    ///
    /// It would start too late.
    pub(crate) fn ask(self: &Arc<Self>, priority: Option<u8>) -> Result<Admitted, Box<Overload>> {
        let asked = now_ns();
        let answer = self.with(priority, |class| {
            let answer = class.law.ask(asked);
            match answer {
                Ok(()) => class.admitted += 1,
                Err(_) => class.refused += 1,
            }
            answer
        });
        match answer {
            Some(Err(delay)) => Err(self.overload(priority, delay)),
            Some(Ok(())) | None => Ok(Admitted {
                controller: Some(Arc::clone(self)),
                priority,
                asked,
            }),
        }
    }

    pub(crate) fn stats(&self, priority: Option<u8>) -> AdmissionStats {
        self.with(priority, |class| AdmissionStats {
            admitted: class.admitted,
            refused: class.refused,
            shed: class.shed,
            waiting: class.law.waiting(),
            delay: Duration::from_nanos(class.law.delay()),
            is_overloaded: class.law.is_overloaded(),
        })
        .unwrap_or_default()
    }
}

/// What was admitted and has not started. It waits, for the pool's measure, until one of its methods says
/// that it starts. If it is dropped before, it has not waited.
#[must_use = "what is dropped before it starts is not measured"]
pub struct Admitted {
    /// `None` once it has started.
    controller: Option<Arc<Controller>>,
    priority: Option<u8>,
    asked: u64,
}

impl Admitted {
    fn started(&mut self, may_shed: bool) -> Result<(), Box<Overload>> {
        let Some(controller) = self.controller.take() else {
            return Ok(());
        };
        let now = now_ns();
        let start = controller.with(self.priority, |class| {
            let start = class.law.start(self.asked, now, may_shed);
            class.shed += u64::from(start != Start::Run);
            start
        });
        match start {
            Some(Start::Late(delay)) => Err(controller.overload(self.priority, delay)),
            Some(Start::Run) | None => Ok(()),
        }
    }

    /// Returns when it was admitted, in nanoseconds of the machine's clock.
    pub(crate) fn asked_ns(&self) -> u64 {
        self.asked
    }

    /// Says that it starts.
    pub fn start(mut self) {
        // Never late, because it may not be.
        let _ = self.started(false);
    }

    /// Says that it starts, unless it has waited so long that it should end at once.
    ///
    /// # Errors
    ///
    /// The pool is overloaded, it has waited more than twice the [target](QueueDelay::target), and others
    /// wait that may still be in time.
    pub fn start_in_time(mut self) -> Result<(), Box<Overload>> {
        self.started(true)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.with(self.priority, |class| class.law.forget());
        }
    }
}

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted")
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_priority_is_a_class_and_none_is_one() {
        assert_eq!(
            [None, Some(0), Some(1), Some(7)].map(|priority| class_of(priority, 3)),
            [0, 1, 2, 2]
        );
        assert_eq!(class_of(Some(3), 1), 0);
    }

    #[test]
    fn what_is_dropped_before_its_start_does_not_wait() {
        let controller = Arc::new(Controller::new(String::from("web"), QueueDelay::new(), 0));
        let first = controller.ask(None).expect("none waits");
        let second = controller.ask(None).expect("no overload");
        assert_eq!(controller.stats(None).waiting, 2);
        drop(first);
        assert_eq!(controller.stats(None).waiting, 1);
        second.start();
        let stats = controller.stats(None);
        assert_eq!((stats.waiting, stats.admitted, stats.refused), (0, 2, 0));
    }

    #[test]
    fn the_error_names_the_pool_the_delay_and_the_target() {
        let controller = Controller::new(String::from("web"), QueueDelay::new(), 2);
        let overload = controller.overload(Some(1), 12_345_678);
        assert_eq!(
            overload.to_string(),
            "the pool `web` is overloaded: a task of priority 1 waits 12.3ms until it starts, and 5.0ms is the \
             target; come back later, or spawn fewer"
        );
        assert!(!controller.overload(None, 1).to_string().contains("priority"));
    }
}
