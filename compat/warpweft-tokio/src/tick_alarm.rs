//! An alarm that ends a sleep of the context's thread at the next tick of tokio's timers.
//!
//! ```text
//!   ticks        │         │         │         │          whole milliseconds since the runtime was made
//!   without      │      zz─┼─────────┼──zz     │          it sleeps for whole milliseconds: the timer of a
//!                │     sleeps        │due  late│          tick is late by the time from a tick to the sleep
//!   with         │      zz─┤─────────┤         │          a first, short sleep ends at a tick, and the next
//!                │   alarm ▲      due▲         │          ones are in time
//! ```
//!
//! # Invariants
//!
//! - A sleep that follows one that ended by the alarm sets none, whether the thread was in time or late. So a
//!   context without timers stays asleep on a slow machine, too.
//! - A sleep that begins soon after a tick sets none either.
//! - The beginning of the ticks is taken after the runtime was made, and is never earlier than tokio's. A
//!   sleep that began just before a tick would be late by nearly a whole one.

use std::io;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Runtime;
use warpweft_platform::timer::Timer;

/// The time between two ticks of tokio's timers.
const TICK: Duration = Duration::from_millis(1);
/// A timer may be late by this much. An alarm for less would wake the thread more often than its timers do.
const LATE: Duration = Duration::from_micros(200);

/// The alarm of one runtime. Its descriptor is among those for which the runtime sleeps. No task waits for
/// it.
#[derive(Debug)]
pub(crate) struct TickAlarm {
    begin: Instant,
    timer: AsyncFd<Timer>,
    sleeps: Sleeps,
}

impl TickAlarm {
    /// # Errors
    ///
    /// The system gives no descriptor, or the runtime has no driver.
    pub(crate) fn of(runtime: &Runtime) -> io::Result<Self> {
        let begin = Instant::now();
        let _entered = runtime.enter();
        #[allow(
            deprecated,
            reason = "the constructors that replace it are in the newest versions of tokio only"
        )]
        let timer = AsyncFd::with_interest(Timer::new()?, Interest::READABLE)?;
        Ok(Self {
            begin,
            timer,
            sleeps: Sleeps::default(),
        })
    }

    /// Ends the sleep that begins now at the next tick, if timers would be late otherwise. Costs a look at
    /// the clock, and a system call if it sets the alarm.
    pub(crate) fn before_sleep(&mut self) {
        if let Some(rest) = self.sleeps.begin(self.begin.elapsed()) {
            // An error: without the alarm, timers are late by less than a tick, as they are anyway.
            let _ = self.timer.get_ref().set(u64::from(rest.subsec_nanos()));
        }
    }

    /// Notes whether the alarm ended the sleep. Costs a look at the clock if one was set.
    pub(crate) fn after_sleep(&mut self) {
        let begin = self.begin;
        self.sleeps.end(|| begin.elapsed());
    }
}

/// Which sleeps have an alarm. Times are those since the first tick.
#[derive(Debug, Default)]
struct Sleeps {
    /// When the alarm of this sleep is due.
    due: Option<Duration>,
    /// The alarm ended the last one.
    was_ended: bool,
}

impl Sleeps {
    /// Returns in what time an alarm is to end the sleep that begins now, if there is to be one.
    fn begin(&mut self, now: Duration) -> Option<Duration> {
        let was_ended = std::mem::take(&mut self.was_ended);
        let rest = until_tick(now).filter(|_| !was_ended);
        self.due = rest.map(|rest| now + rest);
        rest
    }

    fn end(&mut self, now: impl FnOnce() -> Duration) {
        self.was_ended = self.due.take().is_some_and(|due| now() >= due);
    }
}

/// Returns the time until the next tick, `elapsed` after the first one, unless the last one was just now.
fn until_tick(elapsed: Duration) -> Option<Duration> {
    let since_tick = elapsed.subsec_nanos() % TICK.subsec_nanos();
    (since_tick > LATE.subsec_nanos())
        .then(|| Duration::from_nanos(u64::from(TICK.subsec_nanos() - since_tick)))
}

#[cfg(test)]
mod tests {
    use super::{LATE, Sleeps, TICK, TickAlarm, until_tick};
    use crate::context::small_runtime;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Poll, Waker};
    use std::time::{Duration, Instant};
    use tokio::time::sleep;
    use warpweft_platform::sync::Mutex;

    #[test]
    fn it_is_set_to_the_next_tick_unless_the_last_one_was_just_now() {
        let nanosecond = Duration::from_nanos(1);
        for ticks in [0, 1, 999, 1000, 86_400_000] {
            let tick = TICK * ticks;
            assert_eq!(until_tick(tick), None);
            assert_eq!(until_tick(tick + LATE), None);
            assert_eq!(
                until_tick(tick + LATE + nanosecond),
                Some(TICK - LATE - nanosecond)
            );
            assert_eq!(until_tick(tick + TICK - nanosecond), Some(nanosecond));
        }
    }

    #[test]
    fn a_thread_that_is_late_after_each_tick_has_one_alarm() {
        let late = |ticks| TICK * ticks + LATE * 2;
        let mut sleeps = Sleeps::default();
        assert_eq!(sleeps.begin(late(0)), Some(TICK - LATE * 2));
        sleeps.end(|| TICK);
        assert_eq!(sleeps.begin(late(1)), None, "the alarm ended the last one");
        sleeps.end(|| unreachable!("there was no alarm"));
        // What ended that one was an event. So is what ends this one, before its tick.
        assert_eq!(sleeps.begin(late(7)), Some(TICK - LATE * 2));
        sleeps.end(|| late(7) + LATE);
        assert_eq!(sleeps.begin(late(7) + LATE), Some(TICK - LATE * 3));
    }

    /// Runs `future` on a runtime with an alarm, from late after a tick on. `park` and `unpark` are called at
    /// the two ends of each sleep.
    fn late_after_a_tick<F: Future>(
        park: impl Fn() + Send + Sync + 'static,
        unpark: impl Fn() + Send + Sync + 'static,
        future: F,
    ) -> F::Output {
        let alarm = Arc::new(Mutex::new(None));
        let (parks, unparks) = (Arc::clone(&alarm), Arc::clone(&alarm));
        let runtime = small_runtime()
            .on_thread_park(move || {
                park();
                parks.lock().iter_mut().for_each(TickAlarm::before_sleep);
            })
            .on_thread_unpark(move || {
                unparks.lock().iter_mut().for_each(TickAlarm::after_sleep);
                unpark();
            })
            .build()
            .expect("a runtime");
        let begin = Instant::now();
        *alarm.lock() = Some(TickAlarm::of(&runtime).expect("a descriptor"));
        let output = runtime.block_on(async {
            while until_tick(begin.elapsed()).is_none() {}
            future.await
        });
        // The hooks have it, and it keeps the runtime.
        drop(alarm.lock().take());
        output
    }

    /// Returns how often the thread goes to sleep until a timer of 20 ms is due.
    fn sleeps() -> u32 {
        let count = Arc::new(AtomicU32::new(0));
        let counts = Arc::clone(&count);
        let park = move || _ = counts.fetch_add(1, Ordering::Relaxed);
        late_after_a_tick(park, || (), async { sleep(Duration::from_millis(20)).await });
        count.load(Ordering::Relaxed)
    }

    /// The alarm does not wake the thread at each tick.
    #[test]
    fn a_sleep_is_aligned_once() {
        let count = sleeps();
        assert!(count <= 10, "{count} sleeps in 20 ms");
    }

    /// Returns how long the first sleep takes while the only timer is due in a second. Before that comes one
    /// that ends at once, because the timer is new.
    fn first_sleep() -> Duration {
        let woken = Arc::new(Mutex::new(None));
        let wakes = Arc::clone(&woken);
        let unpark = move || wakes.lock().take().into_iter().for_each(Waker::wake);
        let begin = Instant::now();
        let two_sleeps = async {
            let mut timer = pin!(sleep(Duration::from_secs(1)));
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                *woken.lock() = Some(cx.waker().clone());
                if polls > 2 {
                    Poll::Ready(())
                } else {
                    timer.as_mut().poll(cx)
                }
            })
            .await;
        };
        late_after_a_tick(|| (), unpark, two_sleeps);
        begin.elapsed()
    }

    #[test]
    fn the_alarm_ends_a_sleep() {
        // One that begins just after a tick, because the system ran others meanwhile, is not ended.
        let ended = (0..10).any(|_| first_sleep() < Duration::from_millis(500));
        assert!(ended, "no sleep was ended by the alarm");
    }
}
