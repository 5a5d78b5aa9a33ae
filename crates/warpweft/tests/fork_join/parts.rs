//! Frames that run parts of the half that they wait for: such a part may end on a worker that its waiting
//! frame then gets.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use warpweft::time::sleep;
use warpweft::{ForkCx, Pool, Runtime, join, scope};

/// How often a closure found that its thread carries no worker.
static ASTRAY: AtomicUsize = AtomicUsize::new(0);

fn note() {
    if Pool::current_worker().is_none() {
        ASTRAY.fetch_add(1, Ordering::Relaxed);
    }
    // Other threads come meanwhile.
    thread::yield_now();
}

fn tree(cx: ForkCx<'_>, depth: usize) {
    if depth == 0 {
        return note();
    }
    cx.join(
        |cx| {
            tree(cx, depth - 1);
            note();
        },
        |cx| {
            note();
            tree(cx, depth - 1);
        },
    );
    note();
}

fn workers(count: usize) -> Runtime {
    Runtime::builder()
        .workers(count)
        .stuck_after(None)
        .build()
        .expect("workers")
}

/// After each join, a frame is on a worker again, whoever has run what.
#[test]
fn a_frame_has_a_worker_again_when_its_join_returns() {
    for count in [2, 4, 8] {
        let runtime = workers(count);
        for _ in 0..20 {
            runtime
                .install(|cx| cx.join(|cx| tree(cx, 8), |cx| tree(cx, 8)))
                .expect("open");
        }
    }
    assert_eq!(ASTRAY.load(Ordering::Relaxed), 0);
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

/// A part spawns into a scope of the stack that runs it, and ends at once while its owner waits for it. The
/// owner continues with the worker, and the job is still on offer.
#[test]
fn a_job_on_offer_is_not_lost_with_the_worker() {
    let (done, ended) = channel();
    thread::spawn(move || {
        parts_that_spawn();
        done.send(()).expect("the test waits");
    });
    let in_time = ended.recv_timeout(Duration::from_secs(30));
    in_time.expect("a job or a worker is lost, or the thread has panicked");
}

fn parts_that_spawn() {
    let runtime = workers(2);
    for _ in 0..20 {
        let (stolen, part_began, ran) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        let (jobs_ran, after) = runtime
            .install(|_| {
                scope(|jobs| {
                    join(
                        || until(&stolen),
                        || {
                            stolen.store(true, Ordering::Release);
                            join(
                                || until(&part_began),
                                || {
                                    part_began.store(true, Ordering::Release);
                                    // The owner of this part sleeps by then.
                                    thread::sleep(Duration::from_millis(3));
                                    jobs.spawn(|_| _ = ran.fetch_add(1, Ordering::Relaxed));
                                },
                            );
                        },
                    );
                });
                (ran.load(Ordering::Relaxed), Pool::current_worker())
            })
            .expect("open");
        assert_eq!(jobs_ran, 1);
        assert!(after.is_some());
    }
}

/// A stolen fork spawns into a scope that is older than it. Its owner, which waits for it and may hold a
/// lock, does not wait for that job: it must not run on top.
#[test]
fn a_job_of_an_older_scope_is_no_part() {
    let runtime = workers(2);
    for _ in 0..100 {
        let (fork_began, part_began) = (AtomicBool::new(false), AtomicBool::new(false));
        let holder = Mutex::new(None::<ThreadId>);
        let is_holder = |id| *holder.lock().expect("no panic") == Some(id);
        let (is_holder, on_top) = (&is_holder, &AtomicBool::new(false));
        runtime
            .install(|cx| {
                cx.scope(|jobs| {
                    join(
                        || until(&fork_began),
                        || {
                            *holder.lock().expect("no panic") = Some(thread::current().id());
                            fork_began.store(true, Ordering::Release);
                            join(
                                || until(&part_began),
                                || {
                                    part_began.store(true, Ordering::Release);
                                    jobs.spawn(move |_| {
                                        let here = thread::current().id();
                                        on_top.fetch_or(is_holder(here), Ordering::Relaxed);
                                    });
                                    // The owner of this part looks for others meanwhile.
                                    let start = Instant::now();
                                    while start.elapsed() < Duration::from_millis(3) {
                                        thread::yield_now();
                                    }
                                },
                            );
                            *holder.lock().expect("no panic") = None;
                        },
                    );
                });
            })
            .expect("open");
        assert!(!on_top.load(Ordering::Relaxed));
    }
}

/// The thread, and the worker that it carries.
type Caller = (ThreadId, Option<usize>);

/// Joins in its wake, on the worker that calls it, and notes where: before, in the second half, and after.
#[derive(Default)]
struct Joins(Mutex<Option<[Caller; 3]>>);

impl Wake for Joins {
    fn wake(self: Arc<Self>) {
        let at = || (thread::current().id(), Pool::current_worker());
        let before = at();
        let (second_began, mut second) = (AtomicBool::new(false), before);
        join(
            || {
                // Time enough for the other worker to take the second half.
                let start = Instant::now();
                while !second_began.load(Ordering::Acquire) && start.elapsed() < Duration::from_millis(60) {
                    thread::yield_now();
                }
            },
            || {
                second_began.store(true, Ordering::Release);
                second = at();
            },
        );
        *self.0.lock().expect("no panic") = Some([before, second, at()]);
    }
}

/// A worker that calls a waker between two steps is the same afterwards, and nothing that the waker forks is
/// on offer: its thief might need what the worker is about to do.
#[test]
fn a_join_in_a_waker_stays_on_its_worker() {
    let runtime = workers(2);
    for _ in 0..3 {
        let joins = Arc::new(Joins::default());
        let waker = Waker::from(Arc::clone(&joins));
        let mut sleeper = Box::pin(sleep(Duration::from_millis(5)));
        runtime.block_on(async {
            let polled = sleeper.as_mut().poll(&mut Context::from_waker(&waker));
            assert_eq!(polled, Poll::Pending);
        });
        // The other worker looks for work when this has ended.
        let busy = runtime.spawn_job(|| thread::sleep(Duration::from_millis(20)));
        let start = Instant::now();
        let [before, second, after] = loop {
            assert!(start.elapsed() < Duration::from_secs(30), "the waker hangs");
            if let Some(seen) = *joins.0.lock().expect("no panic") {
                break seen;
            }
            thread::sleep(Duration::from_millis(1));
        };
        drop((sleeper, busy.wait()));
        assert!(before.1.is_some(), "a worker calls it");
        assert_eq!([before, before], [second, after]);
    }
}
