//! hyper's timer for one connection. hyper sets a time-out for the head of each request, and drops it when
//! the head is there, so few of them ever expire.
//!
//! ```text
//!   the first request      a timer of the pool is set, for the end of its time-out
//!   each further request   its time-out ends later: the timer stays as it is
//!   the timer fires        the connection is polled, and sets it again for the present time-out
//! ```
//!
//! So a request sets no timer of the pool, and a connection is woken once in the time of a time-out.
//!
//! # Invariants
//!
//! - While a sleep waits, the pool's timer is set for its deadline or an earlier time, and wakes its task.
//! - A timer never fires before its time. So one that was set for a later time than now has not fired.

use hyper::rt::{Sleep, Timer};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use warpweft::time;
use warpweft_platform::sync::Mutex;

/// Makes the sleeps of one connection. The task that waits for them polls each of them whenever it is
/// woken, as hyper's does.
#[derive(Debug)]
pub(crate) struct ConnectionTimer(Arc<Mutex<SharedTimer>>);

/// The pool's timer that all sleeps of a connection share.
#[derive(Debug)]
struct SharedTimer {
    sleep: time::Sleep,
    /// When it fires.
    at: Instant,
    /// Which task it wakes. `None` before it is set for the first time.
    waker: Option<Waker>,
}

impl ConnectionTimer {
    pub(crate) fn new() -> Self {
        let at = Instant::now();
        Self(Arc::new(Mutex::new(SharedTimer {
            sleep: time::sleep_until(at),
            at,
            waker: None,
        })))
    }
}

impl Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let now = Instant::now();
        // A time-out that no clock can reach is none.
        self.sleep_until(now.checked_add(duration).unwrap_or(now + FOR_EVER))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(ConnectionSleep {
            deadline,
            shared: Arc::clone(&self.0),
        })
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<ConnectionSleep>() {
            Some(own) => own.get_mut().deadline = deadline,
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// A century.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A sleep of a [`ConnectionTimer`].
#[derive(Debug)]
struct ConnectionSleep {
    deadline: Instant,
    shared: Arc<Mutex<SharedTimer>>,
}

impl Sleep for ConnectionSleep {}

impl Future for ConnectionSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if self.deadline <= now {
            return Poll::Ready(());
        }
        let mut shared = self.shared.lock();
        let wakes_us = |waker: &Waker| waker.will_wake(cx.waker());
        if now < shared.at && shared.at <= self.deadline && shared.waker.as_ref().is_some_and(wakes_us) {
            return Poll::Pending;
        }
        shared.sleep.reset(self.deadline);
        shared.at = self.deadline;
        let old = shared.waker.replace(cx.waker().clone());
        let polled = Pin::new(&mut shared.sleep).poll(cx);
        drop(shared);
        // Without the lock: this may end the task that had the waker, and what it owns.
        drop(old);
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionTimer;
    use hyper::rt::{Sleep, Timer as _};
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;
    use std::time::{Duration, Instant};
    use warpweft::Runtime;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    fn runtime() -> Runtime {
        Runtime::builder().workers(1).build().expect("a worker")
    }

    /// Polls it once.
    async fn waits(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await
    }

    /// Waits until it is over. That the time-out ends it means that it woke no task.
    async fn ends(sleep: Pin<Box<dyn Sleep>>) {
        const PATIENCE: Duration = Duration::from_secs(60);
        let start = Instant::now();
        let ended = warpweft::time::timeout(PATIENCE, sleep).await;
        assert!(ended.is_ok() && start.elapsed() < PATIENCE, "it wakes the task");
    }

    #[test]
    fn a_thousand_limits_are_one_timer() {
        let runtime = runtime();
        let timer = ConnectionTimer::new();
        let timers = || runtime.metrics().pools[0].depths.timers;
        runtime.block_on(async {
            for _ in 0..1000 {
                assert!(waits(&mut timer.sleep(LONG)).await);
            }
            let mut again = timer.sleep(LONG);
            timer.reset(&mut again, Instant::now() + 2 * LONG);
            assert!(waits(&mut again).await);
        });
        assert_eq!(timers(), 1);
        drop(timer);
        assert_eq!(timers(), 0);
    }

    #[test]
    fn a_limit_is_kept_after_others_that_were_not_met() {
        runtime().block_on(async {
            let timer = ConnectionTimer::new();
            let start = Instant::now();
            // The timer fires for a limit that is dropped, and is set anew for the one after it.
            assert!(waits(&mut timer.sleep(SHORT)).await);
            ends(timer.sleep(3 * SHORT)).await;
            assert!(start.elapsed() >= 3 * SHORT);
            // A shorter limit than the one for which it is set.
            assert!(waits(&mut timer.sleep(LONG)).await);
            ends(timer.sleep(SHORT)).await;
            // And one that is over.
            ends(timer.sleep_until(start)).await;
        });
    }

    #[test]
    fn another_task_may_go_on_with_a_sleep() {
        let runtime = runtime();
        // It is not over before the first task looks, on a busy machine either.
        let mut sleep = ConnectionTimer::new().sleep(25 * SHORT);
        let first = runtime.spawn(async move {
            assert!(waits(&mut sleep).await);
            Some(sleep)
        });
        let sleep = first.wait().expect("no panic").expect("it was returned");
        runtime.spawn(ends(sleep)).wait().expect("no panic");
    }

    #[test]
    fn a_limit_without_end_is_no_overflow() {
        runtime().block_on(async {
            let timer = ConnectionTimer::new();
            assert!(waits(&mut timer.sleep(Duration::MAX)).await);
        });
    }
}
