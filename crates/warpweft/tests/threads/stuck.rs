//! A worker that is stuck in one task, and what waits behind it.
#![cfg(feature = "net")]

use crate::eventually::eventually;
use crate::stalls::flag;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::net::TcpListener;
use warpweft::policy::Count;
use warpweft::sync::channel;
use warpweft::{
    Fifo, Lifo, Policy, Pool, Runtime, Stall, TaskBuilder, block_on, fiber, spawn, spawn_job, time, yield_now,
};
use warpweft_platform::sync::Mutex;

/// Each of `workers` workers is stuck until the function returns `true`. Says when they are.
fn hog(runtime: &Runtime, until: &Arc<AtomicBool>) {
    let inside = Arc::new(AtomicUsize::new(0));
    for _ in 0..runtime.workers() {
        let (inside, until) = (Arc::clone(&inside), Arc::clone(until));
        drop(runtime.spawn_job(move || {
            inside.fetch_add(1, Ordering::Relaxed);
            while !until.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(100));
            }
        }));
    }
    eventually("all are stuck", || {
        inside.load(Ordering::Relaxed) == runtime.workers()
    });
}

fn runtime(workers: usize, policy: impl Policy) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(policy)
        .build()
        .expect("threads")
}

#[test]
fn what_waits_behind_a_stuck_worker_goes_on() {
    for (workers, lifo) in [(1, false), (1, true), (2, false), (4, true)] {
        let runtime = if lifo {
            runtime(workers, Lifo::default())
        } else {
            runtime(workers, Fifo::default())
        };
        let until = Arc::new(AtomicBool::new(false));
        // Tasks behind it in its own queue, and one from outside.
        let stuck = Arc::clone(&until);
        let behind = runtime
            .install(move |_| {
                let behind: Vec<_> = (0..20)
                    .map(|n| {
                        spawn(async move {
                            yield_now().await;
                            n
                        })
                    })
                    .collect();
                behind
            })
            .expect("it is open");
        hog(&runtime, &stuck);
        let outside = runtime.spawn_job(|| spawn_job(|| 1).wait().expect("no panic") + 1);
        for (n, task) in behind.into_iter().enumerate() {
            assert_eq!(task.wait().expect("no panic"), n);
        }
        assert_eq!(outside.wait().expect("no panic"), 2);
        assert!(runtime.stalls() >= 1);
        until.store(true, Ordering::Relaxed);
    }
}

#[test]
fn timers_and_wakers_go_on() {
    let runtime = runtime(1, Fifo::default());
    let until = Arc::new(AtomicBool::new(false));
    let ticks = runtime.spawn(async {
        for _ in 0..5 {
            time::sleep(Duration::from_millis(3)).await;
        }
    });
    hog(&runtime, &until);
    let start = Instant::now();
    ticks.wait().expect("no panic");
    // Generous: a lost timer would never end.
    assert!(start.elapsed() < Duration::from_secs(30));
    until.store(true, Ordering::Relaxed);
}

/// tokio#4730: one task that hogs its worker, others that wake each other, from 1 worker up.
#[test]
fn one_task_that_never_ends_does_not_freeze_the_others() {
    for workers in [1, 2, 4] {
        let runtime = runtime(workers, Fifo::default());
        let until = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&until);
        let hog = runtime.spawn(async move {
            let (there, back) = channel::unbounded();
            let other = spawn(async move { back.recv().await.expect("a value") });
            there.send(7).await.expect("a receiver");
            // Woken just now, and behind this task in its worker's queue.
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            other.await.expect("no panic")
        });
        let others: Vec<_> = (0..50)
            .map(|n| {
                runtime.spawn(async move {
                    for _ in 0..10 {
                        yield_now().await;
                    }
                    n
                })
            })
            .collect();
        for (n, other) in others.into_iter().enumerate() {
            assert_eq!(other.wait().expect("no panic"), n);
        }
        until.store(true, Ordering::Relaxed);
        assert_eq!(hog.wait().expect("no panic"), 7);
    }
}

#[test]
fn compensatings_go_when_the_worker_comes_back() {
    let runtime = runtime(1, Fifo::default());
    for round in 1..=5 {
        let until = Arc::new(AtomicBool::new(false));
        hog(&runtime, &until);
        let count = Arc::new(AtomicUsize::new(0));
        // A stream of tasks that never leaves the compensating worker without one.
        let stream = {
            let (until, count) = (Arc::clone(&until), Arc::clone(&count));
            runtime.spawn(async move {
                while !until.load(Ordering::Relaxed) || count.load(Ordering::Relaxed) < 100 {
                    count.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            })
        };
        eventually("the compensating worker works", || {
            count.load(Ordering::Relaxed) > 10
        });
        until.store(true, Ordering::Relaxed);
        stream.wait().expect("no panic");
        assert_eq!(runtime.spawn_job(move || round).wait().expect("no panic"), round);
    }
    // The worker, its spares, and nobody in the middle of anything.
    eventually("they are spare", || runtime.threads().all <= 3);
}

#[test]
fn a_compensating_waits_hands_over_and_starts_fibers_like_any_worker() {
    let runtime = runtime(1, Fifo::default());
    let until = Arc::new(AtomicBool::new(false));
    hog(&runtime, &until);
    let job = runtime.spawn_job(|| {
        let woken = spawn_job(|| 3);
        let (a, b) = warpweft::join(|| block_on(async { 1 }), || 2);
        a + b + woken.wait().expect("no panic")
    });
    let fiber = runtime.spawn_fiber(|| {
        let fibers = thread::current().id();
        let inner = fiber::spawn(|| 4);
        let inner = inner.wait().expect("no panic");
        time_out();
        assert_eq!(thread::current().id(), fibers);
        inner
    });
    assert_eq!(job.wait().expect("no panic"), 6);
    assert_eq!(fiber.wait().expect("no panic"), 4);
    assert_eq!(
        runtime
            .spawn_job(|| warpweft::blocking(|| 5))
            .wait()
            .expect("no panic"),
        5
    );
    until.store(true, Ordering::Relaxed);
}

fn time_out() {
    fiber::wait(time::sleep(Duration::from_millis(2)));
}

#[test]
fn a_pool_closes_while_compensatings_work() {
    for _ in 0..20 {
        let runtime = runtime(2, Lifo::default());
        let until = Arc::new(AtomicBool::new(false));
        hog(&runtime, &until);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..8 {
            let count = Arc::clone(&count);
            drop(runtime.spawn(async move {
                loop {
                    count.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }));
        }
        eventually("a compensating worker works", || {
            count.load(Ordering::Relaxed) > 0
        });
        let end = thread::spawn(move || runtime.shutdown());
        until.store(true, Ordering::Relaxed);
        end.join().expect("no panic");
    }
}

#[test]
fn the_report_names_the_spawn_site_and_comes_once() {
    let stalls: Arc<Mutex<Vec<Stall>>> = Arc::default();
    // A worker that is awake, and in no task, is reported as well if others keep the CPU from it for so long.
    let of_tasks = |stalls: &Mutex<Vec<Stall>>| -> Vec<Stall> {
        let stalls = stalls.lock();
        let of_task = stalls.iter().filter(|stall| stall.spawned_at.is_some());
        of_task.cloned().collect()
    };
    let (heard, told) = (Arc::clone(&stalls), Arc::clone(&stalls));
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_millis(5)))
        .on_stall(move |stall| {
            heard.lock().push(stall.clone());
            panic!("a report that panics harms nobody");
        })
        .build()
        .expect("threads");
    let line = line!() + 1;
    let job = runtime.spawn_job(move || {
        eventually("it is told", || !of_tasks(&told).is_empty());
        // This is long enough for a second report.
        thread::sleep(Duration::from_millis(60));
        // It is a compensating one, if others kept the CPU from the first.
        Pool::current_worker()
    });
    let worker = job.wait().expect("no panic");
    let stalls = of_tasks(&stalls);
    assert_eq!(stalls.len(), 1, "{stalls:?}");
    assert_eq!(Some(stalls[0].worker), worker);
    assert!(stalls[0].stuck_for >= Duration::from_millis(5));
    let site = stalls[0].spawned_at.expect("a job has a spawn site");
    assert_eq!((site.file(), site.line()), (file!(), line));
    assert_eq!(stalls[0].name, None);
}

/// Returns the one report of a runtime with a worker, which is stuck in what `start` starts there. The time
/// after which it is reported is long, because others may keep the CPU from the worker on its way there.
fn report_on(start: impl FnOnce(&Runtime)) -> (Stall, Runtime) {
    let stalls: Arc<Mutex<Vec<Stall>>> = Arc::default();
    let heard = Arc::clone(&stalls);
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_millis(300)))
        .on_stall(move |stall| heard.lock().push(stall.clone()))
        .build()
        .expect("threads");
    start(&runtime);
    eventually("it is told", || !stalls.lock().is_empty());
    let stall = stalls.lock()[0].clone();
    (stall, runtime)
}

#[test]
fn the_report_names_a_task_that_has_a_name() {
    let over = Arc::new(AtomicBool::new(false));
    let line = line!() + 3;
    let (stall, _runtime) = report_on(|runtime| {
        for name in ["before", "long", "behind"] {
            let task = TaskBuilder::new().name(name).on(runtime);
            let over = Arc::clone(&over);
            drop(task.spawn_job(move || {
                while name == "long" && !over.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            }));
        }
    });
    over.store(true, Ordering::Relaxed);
    let site = stall.spawned_at.expect("a job has a spawn site");
    assert_eq!(stall.name.as_deref(), Some("long"));
    assert_eq!((site.file(), site.line()), (file!(), line));
    let text = stall.to_string();
    assert!(text.contains("worker 0 of `warpweft` has been for"), "{text}");
    assert!(
        text.contains(&format!("the job `long`, spawned at {site}")),
        "{text}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_fork_is_not_reported_as_the_task_before() {
    let over = AtomicBool::new(false);
    let inside = Arc::new(AtomicUsize::new(0));
    // What was told while both were in it.
    let stalls: Arc<Mutex<Vec<Stall>>> = Arc::default();
    let (heard, entered) = (Arc::clone(&stalls), Arc::clone(&inside));
    let runtime = Runtime::builder()
        .workers(2)
        .on_stall(move |stall| {
            if entered.load(Ordering::SeqCst) == 2 {
                heard.lock().push(stall.clone());
            }
        })
        .build()
        .expect("threads");
    // Either worker has run a task with a spawn site: each waits for the other one.
    let meet = AtomicUsize::new(0);
    let meets = || {
        meet.fetch_add(1, Ordering::Relaxed);
        eventually("both are here", || meet.load(Ordering::Relaxed) == 2);
    };
    runtime.broadcast(|_| meets()).expect("open");
    let taken_by = AtomicU32::new(0);
    let spin = || {
        inside.fetch_add(1, Ordering::SeqCst);
        while !over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let of_the_fork = || {
        let stalls = stalls.lock();
        let of_it = |stall: &&Stall| {
            let thread_state = stall.thread_state.as_ref();
            thread_state.is_some_and(|its| its.thread == taken_by.load(Ordering::SeqCst))
        };
        stalls.iter().find(of_it).cloned()
    };
    let stall = thread::scope(|scope| {
        scope.spawn(|| {
            let second = |_: warpweft::ForkCx<'_>| {
                let thread = warpweft_platform::thread_state::thread();
                taken_by.store(thread.expect("Linux numbers them"), Ordering::SeqCst);
                spin();
            };
            runtime.install(|cx| cx.join(|_| spin(), second)).expect("open");
        });
        let start = Instant::now();
        while of_the_fork().is_none() && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::Relaxed);
        of_the_fork().expect("it was told")
    });
    assert_eq!((stall.name.clone(), stall.spawned_at), (None, None), "{stall}");
    assert!(stall.to_string().contains("in a fork"), "{stall}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_report_says_what_the_kernel_knows_of_the_thread() {
    let (tell, told) = std::sync::mpsc::channel();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let (stall, _runtime) = report_on(|runtime| {
        drop(runtime.spawn_job(move || {
            tell.send(warpweft_platform::thread_state::thread())
                .expect("a listener");
            // Asleep in the kernel, until `wake` goes.
            let _ = woken.recv();
        }));
    });
    drop(wake);
    let thread_state = stall.thread_state.clone().expect("Linux tells");
    assert_eq!(Some(thread_state.thread), told.recv().expect("it ran"));
    assert_eq!(thread_state.state, 'S', "{thread_state}");
    assert!(stall.to_string().contains("sleeps"), "{stall}");
}

#[test]
fn without_a_monitor_nobody_looks() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .build()
        .expect("threads");
    let until = Arc::new(AtomicBool::new(false));
    hog(&runtime, &until);
    let other = runtime.spawn_job(|| ());
    thread::sleep(Duration::from_millis(50));
    assert!(!other.is_finished());
    assert_eq!(runtime.stalls(), 0);
    until.store(true, Ordering::Relaxed);
    other.wait().expect("no panic");
}

/// Threads that only compute are no reason for more threads.
#[test]
fn forks_are_left_to_the_workers() {
    let runtime = runtime(2, Fifo::default());
    fn spin(cx: warpweft::ForkCx<'_>, depth: u32) {
        if depth == 0 {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(2) {}
        } else {
            cx.join(|cx| spin(cx, depth - 1), |cx| spin(cx, depth - 1));
        }
    }
    runtime.install(|cx| spin(cx, 6)).expect("it is open");
    let compensating = runtime.counters().compensating;
    assert_eq!(compensating.len(), 2);
    for counts in compensating {
        assert_eq!(counts.get(Count::ForksTaken), 0);
    }
}

/// Starts an echo server on the runtime, and gives it a client.
fn echo(runtime: &Runtime) -> TcpStream {
    let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) });
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    drop(runtime.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            stream.write_all(&byte).await.expect("the client reads");
        }
    }));
    let client = TcpStream::connect(address).expect("it listens");
    client.set_nodelay(true).expect("it is open");
    client
}

/// A job that computes for three milliseconds and is followed by the next, until it is told to stop.
fn chain(until: Arc<AtomicBool>, links: Arc<AtomicUsize>) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(3) {}
    links.fetch_sub(1, Ordering::Relaxed);
    if !until.load(Ordering::Relaxed) {
        links.fetch_add(1, Ordering::Relaxed);
        drop(spawn_job(move || chain(until, links)));
    }
}

/// No task takes as long as to be stuck, and yet what sockets wake does not wait for them.
fn sockets_beside_long_tasks(workers: usize, policy: impl Policy) {
    // Longer than a busy machine keeps the CPU from a compensating worker, which is reported for that, too.
    const STUCK: Duration = Duration::from_millis(500);
    let compensatings_told_of = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&compensatings_told_of);
    let runtime = Runtime::builder()
        .workers(workers)
        .policy(policy)
        .stuck_after(Some(STUCK))
        .on_stall(move |stall| {
            let _ = told.fetch_add(usize::from(stall.worker >= workers), Ordering::Relaxed);
        })
        .build()
        .expect("threads");
    let mut client = echo(&runtime);
    let (until, links) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 * workers {
        links.fetch_add(1, Ordering::Relaxed);
        let (until, links) = (Arc::clone(&until), Arc::clone(&links));
        drop(runtime.spawn_job(move || chain(until, links)));
    }
    let served = || {
        let compensating = runtime.counters().compensating;
        compensating
            .iter()
            .map(|counts| counts.get(Count::Ran))
            .sum::<u64>()
    };
    let start = Instant::now();
    while served() < 20 {
        let mut byte = [7];
        client.write_all(&byte).expect("it is open");
        client.read_exact(&mut byte).expect("it is open");
        assert_eq!(byte, [7]);
        assert!(start.elapsed() < Duration::from_secs(60), "nobody looks out");
    }
    // It sleeps in the poller, and nothing comes.
    thread::sleep(3 * STUCK);
    assert_eq!(compensatings_told_of.load(Ordering::Relaxed), 0);
    until.store(true, Ordering::Relaxed);
    // It goes when it is needed no more.
    eventually("the standby poller retires", || {
        let threads = runtime.threads();
        links.load(Ordering::Relaxed) == 0 && threads.all - threads.spare == workers
    });
}

#[test]
fn sockets_are_served_beside_long_tasks() {
    for workers in [1, 2] {
        sockets_beside_long_tasks(workers, Fifo::default());
        sockets_beside_long_tasks(workers, Lifo::default());
    }
}

/// A fiber that started on the standby poller's thread goes on there, though nothing happens in the poller
/// where that sleeps.
#[test]
fn the_standby_poller_wakes_for_a_fiber_of_its_thread() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_secs(100)))
        .build()
        .expect("threads");
    let workers_thread = runtime.spawn_job(warpweft_platform::thread_state::thread);
    let workers_thread = workers_thread.wait().expect("no panic");
    let listener = runtime.block_on(async { TcpListener::bind(([127, 0, 0, 1], 0)) });
    let listener = listener.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let (tell, told) = std::sync::mpsc::channel();
    drop(runtime.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            let tell = tell.clone();
            drop(fiber::spawn(move || {
                let (wake, woken) = channel::bounded(1);
                let thread = warpweft_platform::thread_state::thread();
                tell.send((thread, wake)).expect("somebody listens");
                woken.recv().wait().expect("it is sent");
            }));
        }
    }));
    let mut client = TcpStream::connect(address).expect("it listens");
    let (until, links) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(1)));
    let (stop, left) = (Arc::clone(&until), Arc::clone(&links));
    drop(runtime.spawn_job(move || chain(stop, left)));
    let start = Instant::now();
    let wake = loop {
        client.write_all(&[7]).expect("it is open");
        let (thread, wake) = told.recv().expect("it starts");
        if thread != workers_thread {
            break wake;
        }
        wake.send(()).wait().expect("it waits");
        assert!(start.elapsed() < Duration::from_secs(60), "nobody looks out");
    };
    eventually("the fiber waits", || runtime.fibers().live > 0);
    // Now it sleeps in the poller, and nothing comes.
    thread::sleep(Duration::from_millis(100));
    wake.send(()).wait().expect("it waits");
    eventually("the fiber ends", || runtime.fibers().live == 0);
    assert!(
        links.load(Ordering::Relaxed) > 0,
        "the worker is busy all the time"
    );
    until.store(true, Ordering::Relaxed);
}

#[test]
fn fibers_that_take_turns_are_not_stuck() {
    const FIBERS: usize = 16;
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_secs(1)))
        .build()
        .expect("threads");
    let there = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let there = Arc::clone(&there);
            runtime.spawn_fiber(move || {
                there.fetch_add(1, Ordering::Relaxed);
                // As long as one of them is to be started, which is a task, they do not run one after
                // another.
                while there.load(Ordering::Relaxed) < FIBERS {
                    fiber::yield_now();
                }
                for _ in 0..2 {
                    fiber::yield_now();
                    thread::sleep(Duration::from_millis(80));
                }
            })
        })
        .collect();
    for fiber in fibers {
        fiber.wait().expect("no panic");
    }
    assert_eq!(runtime.stalls(), 0);
}

/// A waker of another crate blocks the worker that calls it, which is in no task.
#[test]
fn a_waker_that_blocks_its_worker_is_found() {
    struct Blocks(Arc<AtomicBool>);
    impl Wake for Blocks {
        fn wake(self: Arc<Self>) {
            while !self.0.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let runtime = runtime(1, Fifo::default());
    let (over, _over) = flag();
    let waker = Waker::from(Arc::new(Blocks(over)));
    let timer = runtime.spawn(async move {
        let mut timer = Box::pin(time::sleep(Duration::from_millis(5)));
        assert!(timer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        [timer]
    });
    let _timer = timer.wait().expect("no panic");
    eventually("the monitor sees it", || runtime.stalls() > 0);
}
