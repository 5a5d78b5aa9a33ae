//! Sleeps, intervals and time limits, with both ways of polling; sleeping and computing side by side.
#![cfg(feature = "net")]

use crate::in_time::in_time;
use crate::inout::both_ways;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use warpweft::net::UnixStream;
use warpweft::time::{
    Elapsed, MissedTicks, Sleep, interval, interval_at, sleep, sleep_until, timeout, timeout_at,
};
use warpweft::{Io, JoinError, Runtime, block_on, spawn, spawn_job, yield_now};

const MS: Duration = Duration::from_millis(1);
/// Far longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("one worker")
}

#[test]
fn never_too_early() {
    both_ways(|runtime| {
        let tasks: Vec<_> = (0..200_u32)
            .map(|number| {
                runtime.spawn(async move {
                    let (start, length) = (Instant::now(), number * MS / 20);
                    sleep(length).await;
                    assert!(start.elapsed() >= length);
                })
            })
            .collect();
        for task in tasks {
            task.wait().expect("no panic");
        }
    });
}

/// A task that polls for something, and is the only one that is ready, does not keep its worker from timers.
/// Without the monitor nobody else would look at them.
#[test]
fn a_task_that_yields_alone_lets_timers_end() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .build()
        .expect("one worker");
    let both = runtime.spawn(async {
        let slept = Arc::new(AtomicBool::new(false));
        let sees = Arc::clone(&slept);
        let begin = Instant::now();
        let polls = spawn(async move {
            while !sees.load(Ordering::Relaxed) {
                assert!(begin.elapsed() < 10_000 * MS, "the timer never ended");
                yield_now().await;
            }
        });
        sleep(MS).await;
        slept.store(true, Ordering::Relaxed);
        polls.await.expect("no panic");
    });
    both.wait().expect("no panic");
}

#[test]
fn in_the_order_of_their_deadlines() {
    // A compensating worker would run some of them beside the only worker.
    let runtime = Runtime::builder().workers(1).stuck_after(None).build();
    let runtime = runtime.expect("one worker");
    runtime.block_on(async {
        // On a busy machine the first deadline may pass before all of them wait. Then there is a later one.
        for until_first in [100 * MS, 1_000 * MS, 10_000 * MS] {
            let order = Arc::new(std::sync::Mutex::new(Vec::new()));
            let start = Instant::now() + until_first;
            let tasks = [5_u32, 1, 4, 2, 3, 0].map(|number| {
                let order = Arc::clone(&order);
                spawn(async move {
                    let mut sleeping = pin!(sleep_until(start + number * 10 * MS));
                    // It is asked first: so it waits if the first deadline is still to come.
                    let is_over = poll_fn(|cx| Poll::Ready(sleeping.as_mut().poll(cx).is_ready())).await;
                    let waits = !is_over && Instant::now() < start;
                    sleeping.await;
                    order.lock().expect("not poisoned").push(number);
                    waits
                })
            });
            let mut all_waited = true;
            for task in tasks {
                all_waited &= task.await.expect("no panic");
            }
            if all_waited {
                assert_eq!(*order.lock().expect("not poisoned"), [0, 1, 2, 3, 4, 5]);
                return;
            }
        }
        panic!("they never waited in time");
    });
}

#[test]
fn deadlines_at_both_ends() {
    both_ways(|runtime| {
        runtime.block_on(async {
            let now = Instant::now();
            sleep(Duration::ZERO).await;
            sleep_until(now).await;
            if let Some(past) = now.checked_sub(HOUR) {
                sleep_until(past).await;
                assert_eq!(timeout_at(past, async { 1 }).await, Ok(1), "the result is there");
            }
            for never in [
                Duration::MAX,
                Duration::from_nanos(u64::MAX),
                HOUR * 24 * 365 * 300,
            ] {
                assert!(timeout(MS, sleep(never)).await.is_err());
                assert_eq!(timeout(never, async { 2 }).await, Ok(2));
            }
            let mut last = interval(Duration::MAX);
            last.tick().await;
            assert!(
                timeout(MS, last.tick()).await.is_err(),
                "the second tick never comes"
            );
        });
    });
}

#[test]
fn a_time_limit_drops_its_future() {
    struct ThreadEvent(Arc<AtomicBool>);
    impl Drop for ThreadEvent {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    both_ways(|runtime| {
        let dropped = Arc::new(AtomicBool::new(false));
        let note = ThreadEvent(Arc::clone(&dropped));
        let slow = runtime.block_on(timeout(MS, async move {
            let _note = note;
            sleep(HOUR).await;
        }));
        assert!(slow.is_err());
        assert!(dropped.load(Ordering::Relaxed));
        let error: io::Error = slow
            .map(|()| unreachable!())
            .unwrap_or_else(|elapsed: Elapsed| elapsed.into());
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    });
}

#[test]
fn an_earlier_timer_wakes_a_sleeper_with_a_later_one() {
    both_ways(|runtime| {
        let late = runtime.spawn(sleep(HOUR));
        std::thread::sleep(5 * MS);
        // All workers sleep until the hour is over. From inside a task, and from outside:
        runtime.spawn(sleep(MS)).wait().expect("no panic");
        std::thread::sleep(5 * MS);
        runtime.block_on(sleep(MS));
        late.cancel();
        assert!(matches!(late.wait(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn a_sleep_may_change_its_task_and_its_length() {
    both_ways(|runtime| {
        let mut sleeping = sleep(HOUR);
        // Once polled in this task…
        runtime.block_on(async {
            assert!(timeout(MS, &mut sleeping).await.is_err());
        });
        sleeping.reset(Instant::now() + 3 * MS);
        // …it ends in another one.
        runtime.spawn(sleeping).wait().expect("no panic");
        let mut again: Sleep = sleep(MS);
        runtime.block_on(async {
            (&mut again).await;
            (&mut again).await;
        });
        assert!(again.is_over());
    });
}

#[test]
fn ticks_that_nobody_missed_are_on_the_beat() {
    both_ways(|runtime| {
        runtime.block_on(async {
            let start = Instant::now();
            let mut beat = interval_at(start + 2 * MS, 2 * MS);
            for number in 1..=5_u32 {
                let due = beat.tick().await;
                assert!(Instant::now() >= due);
                let beat = due.duration_since(start);
                assert!(beat.abs_diff(number * 2 * MS) < MS, "{beat:?}");
            }
        });
    });
}

#[test]
fn missed_ticks() {
    const PERIOD: Duration = Duration::from_millis(200);
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    runtime.block_on(async {
        // How many ticks are there at once after five periods without one?
        for (missed, at_once) in [
            (MissedTicks::Burst, 5),
            (MissedTicks::Delay, 1),
            (MissedTicks::Skip, 1),
        ] {
            let begin = Instant::now();
            let mut beat = interval(PERIOD).missed_ticks(missed);
            beat.tick().await;
            std::thread::sleep(PERIOD * 21 / 4);
            let mut ticks = 0;
            while timeout(Duration::ZERO, beat.tick()).await.is_ok() {
                ticks += 1;
            }
            // What the machine made later than that is in there as well.
            let periods = begin.elapsed().as_millis() / PERIOD.as_millis();
            let most = at_once + 1 + (periods - 5);
            assert!(
                (at_once..=most).contains(&ticks),
                "{missed:?}: {ticks} in {periods}"
            );
        }
    });
}

#[test]
fn a_hundred_thousand_sleeps() {
    both_ways(|runtime| {
        let over = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let tasks: Vec<_> = (0..100_000_u64)
            .map(|number| {
                let over = Arc::clone(&over);
                runtime.spawn(async move {
                    // Every fourth is given up.
                    let length = Duration::from_micros(number.wrapping_mul(7919) % 200_000);
                    if number.is_multiple_of(4) {
                        let _ = timeout(length, sleep(HOUR)).await;
                    } else {
                        sleep(length).await;
                    }
                    over.fetch_add(1, Ordering::Relaxed);
                    start.elapsed() >= length
                })
            })
            .collect();
        for task in tasks {
            assert!(task.wait().expect("no panic"));
        }
        assert_eq!(over.load(Ordering::Relaxed), 100_000);
    });
}

/// Tasks of tens of microseconds keep every worker busy; sockets and timers are served all the same.
#[test]
fn busy_workers_look_at_sockets_and_clocks() {
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder().workers(workers).build().expect("workers");
        let stop = Arc::new(AtomicBool::new(false));
        async fn compute(stop: Arc<AtomicBool>) {
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(30) {
                    std::hint::spin_loop();
                }
                yield_now().await;
            }
        }
        let busy: Vec<_> = (0..2 * workers + 1)
            .map(|_| runtime.spawn(compute(Arc::clone(&stop))))
            .collect();
        let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        let echo = runtime.spawn(async move {
            let mut byte = [0];
            while there.read(&mut byte).await? == 1 {
                sleep(MS).await;
                there.write_all(&byte).await?;
            }
            io::Result::Ok(())
        });
        for round in 0..20_u8 {
            block_on(here.write_all(&[round])).expect("room");
            let mut byte = [0];
            block_on(here.read_exact(&mut byte)).expect("an echo");
            assert_eq!(byte, [round]);
        }
        drop(here);
        echo.wait().expect("no panic").expect("no error");
        stop.store(true, Ordering::Relaxed);
        for task in busy {
            task.wait().expect("no panic");
        }
    }
}

/// With a thread that polls, timers expire while the only worker is in one long task: the wake-up waits in a
/// queue.
#[test]
fn a_worker_that_computes_does_not_stop_the_clock_of_others() {
    let runtime = Runtime::builder()
        .workers(1)
        .io(Io::Thread)
        .build()
        .expect("one worker");
    let stop = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&stop);
    let busy = runtime.spawn_job(move || {
        while !until.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    });
    // The caller's own future runs on this thread.
    runtime.block_on(sleep(5 * MS));
    stop.store(true, Ordering::Relaxed);
    busy.wait().expect("no panic");
}

#[test]
fn a_runtime_ends_with_ten_thousand_who_wait() {
    both_ways(|runtime| {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let alive = Arc::new(AtomicUsize::new(0));
        let pairs: Vec<_> = runtime.block_on(async {
            let pairs = (0..100)
                .map(|_| UnixStream::pair())
                .collect::<io::Result<Vec<_>>>();
            pairs.expect("descriptors").into_iter().map(Arc::new).collect()
        });
        let tasks: Vec<_> = (0..10_000)
            .map(|number| {
                alive.fetch_add(1, Ordering::Relaxed);
                let counted = Counted(Arc::clone(&alive));
                let pair = Arc::clone(&pairs[number % pairs.len()]);
                runtime.spawn(async move {
                    let _counted = counted;
                    if number.is_multiple_of(2) {
                        sleep(HOUR).await;
                    } else {
                        let _ = pair.0.read(&mut [0]).await;
                    }
                })
            })
            .collect();
        while runtime.idle_workers().1 < runtime.workers() {
            std::thread::sleep(MS);
        }
        runtime.shutdown();
        assert_eq!(alive.load(Ordering::Relaxed), 0);
        for task in tasks {
            assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
        }
        for pair in pairs {
            Arc::try_unwrap(pair).expect("nobody else has it");
        }
    });
}

#[test]
fn a_job_that_sleeps_lends_its_worker() {
    both_ways(|runtime| {
        let sleeper = runtime.spawn_job(|| {
            let start = Instant::now();
            block_on(sleep(20 * MS));
            start.elapsed()
        });
        let quick = runtime.spawn_job(|| spawn_job(|| 1).wait().expect("no panic"));
        assert_eq!(quick.wait().expect("no panic"), 1);
        assert!(sleeper.wait().expect("no panic") >= 20 * MS);
    });
}

#[test]
fn a_sleeper_outside_sleeps_on_when_the_runtime_ends() {
    both_ways(|runtime| {
        let sleeps = || {
            let start = Instant::now();
            runtime.block_on(sleep(20 * MS));
            start.elapsed()
        };
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(sleeps);
            std::thread::sleep(5 * MS);
            runtime.shutdown();
            assert!(sleeper.join().expect("no panic") >= 20 * MS);
        });
        assert!(sleeps() >= 20 * MS);
    });
}

/// A sleep that was begun in one runtime goes on in the next one, when the first one has ended.
#[test]
fn a_sleep_outlives_the_runtime_in_which_it_was_begun() {
    let (first, second) = (one_worker(), one_worker());
    let (start, length) = (Instant::now(), 40 * MS);
    let mut sleep = Box::pin(sleep(length));
    let begun = first.block_on(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))));
    assert!(begun.is_pending());
    let task = second.spawn(async move {
        sleep.await;
        start.elapsed()
    });
    std::thread::sleep(5 * MS);
    drop(first);
    assert!(task.wait().expect("no panic") >= length);
}

/// One more task takes long than there are workers: another thread polls nevertheless, and runs what it
/// wakes.
#[test]
fn sockets_and_clocks_go_on_whatever_the_number_of_long_tasks() {
    for (workers, long) in [(1, 2), (2, 3), (2, 6), (4, 5)] {
        in_time(move || {
            let runtime = Runtime::builder().workers(workers).build().expect("workers");
            let over = Arc::new(AtomicBool::new(false));
            let ticks = runtime.spawn(async {
                for _ in 0..100 {
                    sleep(2 * MS).await;
                }
            });
            let busy: Vec<_> = (0..long)
                .map(|_| {
                    let over = Arc::clone(&over);
                    runtime.spawn_job(move || {
                        while !over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            ticks.wait().expect("no panic");
            over.store(true, Ordering::Relaxed);
            busy.into_iter().for_each(|job| job.wait().expect("no panic"));
        });
    }
}
