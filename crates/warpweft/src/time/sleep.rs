//! The future that waits for a moment.

use crate::driver::core::Driver;
use crate::driver::timers::{NEVER, TimerKey};
use crate::runtime::current_driver::{current_driver, driver_elsewhere};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use warpweft_platform::clock;
use warpweft_task::budget::poll_budget;

/// Waits for `duration`, from now.
///
/// ```
/// use std::time::{Duration, Instant};
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let start = Instant::now();
/// runtime.block_on(warpweft::time::sleep(Duration::from_millis(3)));
/// assert!(start.elapsed() >= Duration::from_millis(3));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::until_ns(clock::now_ns().saturating_add(nanoseconds(duration)))
}

/// Waits until `deadline`.
///
/// ```
/// use std::time::{Duration, Instant};
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let deadline = Instant::now() + Duration::from_millis(3);
/// runtime.block_on(warpweft::time::sleep_until(deadline));
/// assert!(Instant::now() >= deadline);
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::until_ns(clock::ns_at(deadline))
}

/// Converts a duration to nanoseconds; one that does not fit becomes infinite.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// The future of [`sleep`] and [`sleep_until`]; it is ready once its deadline has passed.
///
/// It costs 32 bytes here and 44 in the runtime while it waits, and no separate allocation. Dropping it
/// removes the timer at once; the runtime keeps the memory for later timers. Any task on any thread may poll
/// it. A sleep that was begun in a runtime which has shut down goes on in the one that polls it next, and on
/// an external thread in the [default one](crate::default_runtime).
#[derive(Debug)]
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep {
    deadline_ns: u64,
    timer: Option<(Arc<Driver>, TimerKey)>,
}

impl Sleep {
    pub(super) fn until_ns(deadline_ns: u64) -> Self {
        Self {
            deadline_ns,
            timer: None,
        }
    }

    /// Returns true if the deadline has passed, even if the future was not polled since.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.deadline_ns != NEVER && self.deadline_ns <= clock::now_ns()
    }

    /// Sets another deadline. If a task waits for this sleep, it is woken then and not before, also if it
    /// does not poll again meanwhile. A sleep for ever has no timer: poll it after the call. It stays with
    /// the runtime in which it was polled first.
    pub fn reset(&mut self, deadline: Instant) {
        let waits = self.cancel();
        self.deadline_ns = clock::ns_at(deadline);
        let Some((driver, old, waker)) = waits.filter(|_| self.deadline_ns != NEVER) else {
            return;
        };
        if self.deadline_ns <= driver.now_ns() {
            return waker.wake();
        }
        match driver.set_timer(old.worker(), self.deadline_ns, waker.clone()) {
            Some(key) => self.timer = Some((driver, key)),
            // The pool has shut down, and did not find this waker.
            None => waker.wake(),
        }
    }

    /// Removes the timer, unless it has expired. Returns it, and whom it would have woken.
    fn cancel(&mut self) -> Option<(Arc<Driver>, TimerKey, Waker)> {
        // In a forked child the wheel is the parent's, and its lock may be lost.
        let (driver, key) = self.timer.take().filter(|(driver, _)| driver.check().is_ok())?;
        let waker = driver.timers().cancel(key)?;
        Some((driver, key, waker))
    }

    fn enter(&mut self, cx: &Context<'_>) -> Poll<()> {
        // Before a runtime is looked for: there may be none, or none that is allowed to wait.
        if self.is_over() {
            // A loop over what is late already would never wait.
            return poll_budget(cx);
        }
        let set = match current_driver() {
            Ok((driver, worker)) => {
                let key = driver.set_timer(worker, self.deadline_ns, cx.waker().clone());
                key.map(|key| (driver, key))
            }
            // The runtime has shut down.
            Err(error) if error.kind() == ErrorKind::NotConnected => None,
            Err(error) => no_timer(&error),
        };
        self.timer = set.or_else(|| set_elsewhere(self.deadline_ns, cx.waker()));
        if self.timer.is_some() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

/// Sets a timer of the default runtime, where the caller may wait on although its own runtime has shut down.
#[cold]
fn set_elsewhere(deadline_ns: u64, waker: &Waker) -> Option<(Arc<Driver>, TimerKey)> {
    let driver = match driver_elsewhere() {
        Ok(found) => found?,
        // The default runtime has shut down, too.
        Err(error) if error.kind() == ErrorKind::NotConnected => return None,
        Err(error) => no_timer(&error),
    };
    let key = driver.set_timer(None, deadline_ns, waker.clone())?;
    Some((driver, key))
}

#[cold]
fn no_timer(error: &io::Error) -> ! {
    panic!("there can be no timer here: {error}")
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.deadline_ns == NEVER {
            return Poll::Pending;
        }
        match &self.timer {
            None => self.enter(cx),
            Some((driver, key)) => {
                if let Err(error) = driver.check() {
                    no_timer(&error);
                }
                if driver.timers().renew(*key, cx.waker()) {
                    return Poll::Pending;
                }
                let is_early = driver.is_closed() && !self.is_over();
                self.timer = None;
                if is_early {
                    // It was begun in a runtime that has shut down, and goes on in another one.
                    return self.enter(cx);
                }
                // The timer has expired. From here on every poll returns ready.
                self.deadline_ns = 0;
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        drop(self.cancel());
    }
}

#[cfg(all(test, not(any(warpweft_loom, warpweft_shuttle))))]
mod tests {
    use super::{Sleep, nanoseconds, sleep};
    use crate::Runtime;
    use crate::runtime::current_driver::current_driver;
    use std::pin::pin;
    use std::sync::{Arc, mpsc};
    use std::task::{Context, Wake, Waker};
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(60);

    struct Tells(mpsc::Sender<()>);

    impl Wake for Tells {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("the test waits");
        }
    }

    #[test]
    fn who_drops_a_sleep_frees_its_timer_at_once() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        runtime.block_on(async {
            let (driver, _) = current_driver().expect("a driver");
            for _ in 0..3 {
                let sleeps: Vec<_> = (0..100)
                    .map(|_| {
                        let mut sleep = Box::pin(sleep(Duration::from_secs(3600)));
                        assert!(
                            sleep
                                .as_mut()
                                .poll(&mut Context::from_waker(Waker::noop()))
                                .is_pending()
                        );
                        sleep
                    })
                    .collect();
                assert_eq!(driver.timers().len(), 100);
                drop(sleeps);
                assert_eq!(driver.timers().len(), 0);
            }
            let never = pin!(sleep(Duration::MAX));
            assert!(never.poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(driver.timers().len(), 0, "what never comes is not kept");
        });
    }

    #[test]
    fn a_sleep_that_is_set_anew_wakes_whom_it_knows() {
        let runtime = Runtime::builder().workers(1).build().expect("one worker");
        let (tells, told) = mpsc::channel();
        let waker = Waker::from(Arc::new(Tells(tells)));
        runtime.block_on(async {
            let mut sleep = pin!(sleep(LONG));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            sleep.reset(Instant::now() + Duration::from_millis(3));
            told.recv_timeout(LONG)
                .expect("it is woken, though nobody polls it");
            assert!(sleep.is_over());
        });
    }

    #[test]
    fn a_sleep_is_small_and_goes_anywhere() {
        fn sendable<T: Send + Sync + Unpin + 'static>(_: &T) {}
        sendable(&sleep(Duration::ZERO));
        assert!(size_of::<Sleep>() <= 32, "{}", size_of::<Sleep>());
    }

    #[test]
    fn long_is_for_ever_and_no_overflow() {
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX);
        assert!(!sleep(Duration::MAX).is_over());
        assert!(!sleep(Duration::from_nanos(u64::MAX - 1)).is_over());
        assert!(sleep(Duration::ZERO).is_over());
    }
}
