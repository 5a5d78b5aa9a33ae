//! The task's state word under every interleaving of two or three threads.
//!
//! Each model ends with the same checks: the future or closure, the result, and the joiner's waker were
//! dropped once, the allocation was freed once, and no runnable is left.
#![cfg(warpweft_loom)]

mod common;

use common::{Count, Guard, Pool, alone, counting_waker};
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::cell::UnsafeCell;
use warpweft_platform::loom;
use warpweft_platform::loom::thread;
use warpweft_platform::sync::{Arc, Mutex};
use warpweft_task::{Abandon, JoinError, JoinHandle, Ran, Runnable, Suspended, reclaim};

/// Every schedule.
fn model(body: impl Fn() + Send + Sync + 'static) {
    let _alone = alone();
    loom::model(body);
}

/// Every schedule with at most this number of preemptions: for models of three threads.
fn bounded_model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let _alone = alone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// What a sleeping task waits for: flags that others raise, and the wakers that it left for them.
struct Signals {
    raised: [AtomicBool; 2],
    wakers: Mutex<Vec<Waker>>,
}

impl Signals {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            raised: [AtomicBool::new(false), AtomicBool::new(false)],
            wakers: Mutex::new(Vec::new()),
        })
    }

    /// Raises a flag, `Relaxed`: only the wake that follows makes it visible.
    fn raise(&self, flag: usize) {
        self.raised[flag].store(true, Ordering::Relaxed);
    }

    fn is_raised(&self, flag: usize) -> bool {
        self.raised[flag].load(Ordering::Relaxed)
    }

    fn waker(&self) -> Option<Waker> {
        self.wakers.lock().pop()
    }
}

/// A future that leaves `wakers` wakers at its first step and ends when the first `flags` flags are raised.
fn sleeper(
    signals: &Arc<Signals>,
    wakers: usize,
    flags: usize,
    work: Guard,
    result: Guard,
) -> impl Future<Output = Guard> + Send + Unpin + use<> {
    let signals = Arc::clone(signals);
    let mut first = true;
    let mut result = Some(result);
    poll_fn(move |cx| {
        let _ = &work;
        if std::mem::take(&mut first) {
            signals
                .wakers
                .lock()
                .extend((0..wakers).map(|_| cx.waker().clone()));
        }
        if (0..flags).all(|flag| signals.is_raised(flag)) {
            Poll::Ready(
                result
                    .take()
                    .unwrap_or_else(|| unreachable!("polled after the end")),
            )
        } else {
            Poll::Pending
        }
    })
}

/// How a waker is used.
#[derive(Clone, Copy)]
enum How {
    ByValue,
    ByRef,
}

impl How {
    fn wake(self, waker: Waker) {
        match self {
            Self::ByValue => waker.wake(),
            Self::ByRef => waker.wake_by_ref(),
        }
    }
}

fn poll_once<T: Send + 'static>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

/// The drop counts of a task's work and result.
fn assert_each_once(work: &Count, result: &Count) {
    assert_eq!(
        (work.get(), result.get()),
        (1, 1),
        "drops of the work, of the result"
    );
}

/// A wake before, during or after the end of the step that waits for it: the task runs again, once.
fn wake_against_suspend(how: How) {
    model(move || {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 1, 1, work.guard(), result.guard()));
        let ringer = thread::spawn({
            let signals = Arc::clone(&signals);
            move || {
                // It may come before the first step; then the flag is all that counts.
                signals.raise(0);
                if let Some(waker) = signals.waker() {
                    how.wake(waker);
                }
            }
        });
        pool.step(runnable);
        ringer.join().unwrap();
        // A waker that came too late for the other thread: its wake is the last one.
        if let Some(waker) = signals.waker() {
            waker.wake();
        }
        pool.run();
        assert!(handle.is_finished(), "a wake was lost");
        drop(handle.wait());
        assert_each_once(&work, &result);
        pool.close();
    });
}

#[test]
fn a_wake_by_value_against_the_suspension() {
    wake_against_suspend(How::ByValue);
}

#[test]
fn a_wake_by_reference_against_the_suspension() {
    wake_against_suspend(How::ByRef);
}

/// The thread that wakes a task also runs its next step. It finds what the step before wrote after the waker
/// had been given away.
#[test]
fn a_step_sees_the_step_before_on_another_thread() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let mut sleeper = sleeper(&signals, 1, 1, work.guard(), result.guard());
        let written = UnsafeCell::new(0);
        let (runnable, handle) = pool.future(poll_fn(move |cx| {
            let poll = Pin::new(&mut sleeper).poll(cx);
            // SAFETY: a step has exclusive access to the future, which this model tests.
            written.with_mut(|steps| unsafe { *steps += 1 });
            poll
        }));
        let ringer = thread::spawn({
            let signals = Arc::clone(&signals);
            move || {
                signals.raise(0);
                if let Some(waker) = signals.waker() {
                    waker.wake();
                    pool.run();
                }
            }
        });
        pool.step(runnable);
        ringer.join().unwrap();
        if let Some(waker) = signals.waker() {
            waker.wake();
        }
        pool.run();
        drop(handle.wait());
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// A sleeper is woken twice, each time after a `Relaxed` store. The second wake finds it QUEUED, or even
/// running: what was stored before must be visible to a step that follows. (Every schedule of up to four
/// preemptions.)
fn second_wake(how: How) {
    bounded_model(4, move || {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 2, 2, work.guard(), result.guard()));
        pool.step(runnable);
        signals.raise(0);
        how.wake(signals.waker().unwrap());
        let waker = signals.waker().unwrap();
        let ringer = thread::spawn({
            let signals = Arc::clone(&signals);
            move || {
                signals.raise(1);
                how.wake(waker);
            }
        });
        pool.run();
        ringer.join().unwrap();
        pool.run();
        assert!(handle.is_finished(), "a wake was lost, or did not publish");
        drop(handle.wait());
        assert_each_once(&work, &result);
        pool.close();
    });
}

#[test]
fn a_wake_that_finds_the_task_queued_publishes_by_value() {
    second_wake(How::ByValue);
}

#[test]
fn a_wake_that_finds_the_task_queued_publishes_by_reference() {
    second_wake(How::ByRef);
}

/// Two threads wake a sleeper at once while a third runs it. (Every schedule of up to two preemptions.)
#[test]
fn two_wakes_at_once() {
    bounded_model(2, || {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 2, 2, work.guard(), result.guard()));
        pool.step(runnable);
        let ringers = [(0, How::ByValue), (1, How::ByRef)].map(|(flag, how)| {
            let waker = signals.waker().unwrap();
            let signals = Arc::clone(&signals);
            thread::spawn(move || {
                signals.raise(flag);
                how.wake(waker);
            })
        });
        // Runs what was pushed until now, in the midst of the wakes.
        pool.run();
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        pool.run();
        assert!(handle.is_finished(), "a wake was lost, or did not publish");
        drop(handle.wait());
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// One thread wakes, another drops its waker: the task is neither lost nor ended twice.
#[test]
fn a_wake_against_the_drop_of_another_waker() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 2, 1, work.guard(), result.guard()));
        drop(handle);
        pool.step(runnable);
        let dropped = signals.waker().unwrap();
        let dropper = thread::spawn(move || drop(dropped));
        signals.raise(0);
        signals.waker().unwrap().wake();
        pool.run();
        dropper.join().unwrap();
        pool.run();
        assert_each_once(&work, &result);
        assert_eq!(pool.pushed.get(), 1);
        pool.close();
    });
}

/// No handle exists, and the last waker is dropped without a wake: the task is cancelled, whenever that
/// happens.
#[test]
fn the_last_waker_is_dropped_against_the_suspension() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 1, 1, work.guard(), result.guard()));
        drop(handle);
        let dropper = thread::spawn({
            let signals = Arc::clone(&signals);
            move || drop(signals.waker())
        });
        pool.step(runnable);
        dropper.join().unwrap();
        drop(signals.waker());
        pool.run();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// Two wakers are the last references to a sleeper, and both are dropped: one of them leaves a runnable.
#[test]
fn the_last_two_wakers_are_dropped_at_once() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 2, 1, work.guard(), result.guard()));
        drop(handle);
        pool.step(runnable);
        let waker = signals.waker().unwrap();
        let dropper = thread::spawn(move || drop(waker));
        drop(signals.waker());
        dropper.join().unwrap();
        pool.run();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// Wakers outlive the end of their task: the last of them frees it.
#[test]
fn wakers_after_the_end() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 2, 1, work.guard(), result.guard()));
        pool.step(runnable);
        let waker = signals.waker().unwrap();
        signals.raise(0);
        signals.waker().unwrap().wake();
        let late = thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        });
        pool.run();
        drop(handle);
        late.join().unwrap();
        pool.run();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// A thread sleeps in `wait` while another runs the task.
#[test]
fn wait_against_completion() {
    model(|| {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (runnable, handle) = pool.job(move || {
            drop(guard);
            value
        });
        let runner = thread::spawn(move || pool.step(runnable));
        assert!(handle.wait().is_ok());
        runner.join().unwrap();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// The handle is polled while the task ends, perhaps spuriously a second time, and is then dropped; with
/// `second`, with another waker than the first time. The thread that is left with the waker drops it; the
/// last waker that was left is woken.
fn poll_against_completion(second: bool) {
    model(move || {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (runnable, mut handle) = pool.job(move || {
            drop(guard);
            value
        });
        let runner = thread::spawn(move || pool.step(runnable));
        let (one, ones) = counting_waker();
        let (two, twos) = counting_waker();
        let again = if second { &two } else { &one };
        let pending = poll_once(&mut handle, &one).is_pending() && poll_once(&mut handle, again).is_pending();
        if pending {
            runner.join().unwrap();
            let left = if second { &twos } else { &ones };
            assert_eq!(left.wakes.get(), 1, "the waker that was left last wakes once");
            assert!(poll_once(&mut handle, &one).is_ready());
            drop(handle);
        } else {
            // At once: the runner may be just about to wake.
            drop(handle);
            runner.join().unwrap();
        }
        drop((one, two));
        assert_eq!(
            (
                std::sync::Arc::strong_count(&ones),
                std::sync::Arc::strong_count(&twos)
            ),
            (1, 1)
        );
        assert_each_once(&work, &result);
        pool.close();
    });
}

#[test]
fn a_handle_polled_twice_against_completion() {
    poll_against_completion(false);
}

#[test]
fn a_waker_replaced_against_completion() {
    poll_against_completion(true);
}

/// The handle is dropped while the task ends; with `polled`, after it has left a waker.
fn drop_against_completion(polled: bool) {
    model(move || {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (runnable, mut handle) = pool.job(move || {
            drop(guard);
            value
        });
        let (waker, counts) = counting_waker();
        if polled {
            assert!(poll_once(&mut handle, &waker).is_pending());
        }
        drop(waker);
        let runner = thread::spawn(move || pool.step(runnable));
        drop(handle);
        runner.join().unwrap();
        assert_eq!(
            std::sync::Arc::strong_count(&counts),
            1,
            "the joiner's waker was not dropped"
        );
        assert_each_once(&work, &result);
        pool.close();
    });
}

#[test]
fn a_handle_dropped_against_completion() {
    drop_against_completion(false);
}

#[test]
fn a_polled_handle_dropped_against_completion() {
    drop_against_completion(true);
}

/// No waker is left, and the handle is dropped: the task is cancelled, asleep or not yet.
#[test]
fn the_only_handle_is_dropped_against_the_suspension() {
    model(|| {
        let pool = Pool::open();
        let work = Count::default();
        let guard = work.guard();
        let (runnable, handle) = pool.future(Box::pin(async move {
            let _guard = guard;
            pending::<()>().await;
        }));
        let dropper = thread::spawn(move || drop(handle));
        pool.step(runnable);
        dropper.join().unwrap();
        pool.run();
        assert_eq!(work.get(), 1);
        pool.close();
    });
}

/// Cancelling a task that another thread starts. It has a value if and only if the cancellation came too
/// late, even if the closure has returned. It is freed with its value once.
#[test]
fn cancel_against_a_job() {
    model(|| {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (runnable, handle) = pool.job(move || {
            drop(guard);
            value
        });
        let runner = thread::spawn(move || pool.step(runnable));
        let unfinished = handle.cancel();
        match handle.wait() {
            Ok(value) => {
                assert!(!unfinished, "it was cancelled, and says that it was not");
                drop(value);
            }
            Err(error) => assert!(error.is_cancelled() && unfinished),
        }
        runner.join().unwrap();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// Cancelling a task that ends while its handle is dropped: one of the two drops the value, once.
#[test]
fn cancel_and_drop_the_handle_against_a_job() {
    model(|| {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (runnable, handle) = pool.job(move || {
            drop(guard);
            value
        });
        let runner = thread::spawn(move || pool.step(runnable));
        handle.cancel();
        drop(handle);
        runner.join().unwrap();
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// Cancelling a future in the middle of a step that will wait forever: it must not fall asleep.
#[test]
fn cancel_against_the_suspension() {
    model(|| {
        let pool = Pool::open();
        let work = Count::default();
        let guard = work.guard();
        let (runnable, handle) = pool.future(Box::pin(async move {
            let _guard = guard;
            pending::<()>().await;
        }));
        let runner = thread::spawn(move || {
            pool.step(runnable);
            pool.run();
        });
        assert!(handle.cancel());
        runner.join().unwrap();
        pool.run();
        assert!(handle.is_finished(), "a cancelled task fell asleep");
        assert!(handle.wait().is_err_and(|error| error.is_cancelled()));
        assert_eq!(work.get(), 1);
        pool.close();
    });
}

/// Cancel, wake and run at the same time: one runnable, one end.
#[test]
fn cancel_against_wake_against_run() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 1, 1, work.guard(), result.guard()));
        pool.step(runnable);
        let waker = signals.waker().unwrap();
        let ringer = thread::spawn({
            let signals = Arc::clone(&signals);
            move || {
                signals.raise(0);
                waker.wake();
                pool.run();
            }
        });
        let unfinished = handle.cancel();
        pool.run();
        ringer.join().unwrap();
        pool.run();
        assert!(handle.is_finished());
        match handle.wait() {
            Ok(value) => {
                assert!(!unfinished, "it was cancelled, and says that it was not");
                drop(value);
            }
            Err(error) => assert!(error.is_cancelled() && unfinished),
        }
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// A pool that shuts down reclaims a registered sleeper while a thread wakes it: one of the two gets its
/// runnable.
#[test]
fn reclaim_against_wake() {
    model(|| {
        let (pool, signals) = (Pool::open(), Signals::new());
        let (work, result) = (Count::default(), Count::default());
        let (runnable, handle) = pool.future(sleeper(&signals, 1, 1, work.guard(), result.guard()));
        let Ran::Pending(mut pending) = runnable.run() else {
            unreachable!("it waits for the signals")
        };
        assert!(!pending.is_registered());
        // SAFETY: the pool of these tests knows its tasks by this one place.
        unsafe { pending.register(Pool::PLACE) };
        assert!(pending.is_registered());
        let entry = pending.register_entry();
        assert!(matches!(pending.suspend(), Suspended::Asleep));
        let waker = signals.waker().unwrap();
        let ringer = thread::spawn(move || waker.wake());
        // SAFETY: no thread runs the task before the call returns, so it is registered.
        let reclaimed = unsafe { reclaim(entry) };
        ringer.join().unwrap();
        let runnables = [reclaimed, pool.take(), pool.take()];
        assert_eq!(
            runnables.iter().flatten().count(),
            1,
            "the sleeper has one runnable"
        );
        // As the pool that shuts down does, whichever of the two has it.
        let end = |runnable: Runnable| runnable.abandon(Abandon::Shutdown);
        runnables.into_iter().flatten().for_each(end);
        assert_eq!(pool.unregistered.get(), 1);
        assert!(handle.wait().is_err_and(|error| error.is_cancelled()));
        assert_each_once(&work, &result);
        pool.close();
    });
}

/// A task waits for another one, each on its own thread: the join handle's waker is itself a task's.
#[test]
fn a_task_awaits_a_task() {
    model(|| {
        let pool = Pool::open();
        let (work, result) = (Count::default(), Count::default());
        let (guard, value) = (work.guard(), result.guard());
        let (inner, inner_handle) = pool.job(move || {
            drop(guard);
            value
        });
        let (outer, outer_handle) = pool.future(Box::pin(async move { inner_handle.await.is_ok() }));
        let runner = thread::spawn(move || pool.step(inner));
        pool.step(outer);
        runner.join().unwrap();
        pool.run();
        assert!(
            outer_handle.is_finished(),
            "the end of the inner task did not wake the outer one"
        );
        assert!(
            pin!(outer_handle)
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
        assert_each_once(&work, &result);
        pool.close();
    });
}
