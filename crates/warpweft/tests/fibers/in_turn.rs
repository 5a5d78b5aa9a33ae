//! Fibers that go on in place when they are alone, and pass their turns on to each other: whatever else is
//! due comes as soon as if the loop had each turn. One worker; the figures are turns, not times.
#![cfg(all(feature = "net", feature = "macros"))]

use std::backtrace::Backtrace;
use std::io::Write as _;
use std::net::TcpListener as StdListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::net::TcpStream;
use warpweft::policy::Count;
use warpweft::sync::{Notify, oneshot};
use warpweft::{Fifo, JoinError, Runtime, cooperate, fiber, spawn, time};

/// More turns than anything here may take: who gets there has been forgotten.
const FORGOTTEN: usize = 100_000;
/// After so many turns a worker without tasks asks its policy again (`FIBERS` in
/// `scheduler/worker_loop.rs`), in the middle of the next one.
const UNTIL_ASKED: usize = 17;
/// So often it asks what is overdue, whatever it has (`Policy::INTERVAL` of `fifo`), and looks at the clock
/// for sockets and timers.
const UNTIL_OVERDUE: usize = 61 + UNTIL_ASKED;

/// Nobody takes over what waits behind it, however long the system keeps its thread from running.
fn one_worker() -> Runtime {
    Runtime::builder()
        .workers(1)
        .stuck_after(None)
        .policy(Fifo::new())
        .build()
        .expect("one worker")
}

/// How many turns the calling fiber has until `it` is true.
fn turns_until(it: impl Fn() -> bool) -> usize {
    (0..FORGOTTEN).take_while(|_| !it() && fiber::yield_now()).count()
}

/// Calls `does` on a thread of its own, and returns when it has, without a turn for anybody.
fn elsewhere(does: impl FnOnce() + Send + 'static) {
    thread::spawn(does).join().expect("no panic");
}

/// Runs `body` in a fiber that has had its first turns, alone, or beside so many that always give way; with
/// the runtime and a flag.
fn in_a_fiber(beside: usize, body: impl FnOnce(&Arc<Runtime>, &Arc<AtomicBool>) + Send + 'static) {
    let runtime = Arc::new(one_worker());
    let here = Arc::clone(&runtime);
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..beside)
        .map(|_| {
            let over = Arc::clone(&over);
            runtime.spawn_fiber(move || turns_until(|| over.load(Ordering::Relaxed)))
        })
        .collect();
    let flag = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let fiber = runtime.spawn_fiber(move || {
        struct Over(Arc<AtomicBool>);
        impl Drop for Over {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(told);
        for _ in 0..100 {
            assert!(fiber::yield_now());
        }
        body(&here, &flag);
    });
    fiber.wait().expect("no panic");
    for other in others {
        assert!(other.wait().expect("no panic") < FORGOTTEN);
    }
}

fn is(flag: &Arc<AtomicBool>) -> impl Fn() -> bool {
    let flag = Arc::clone(flag);
    move || flag.load(Ordering::Relaxed)
}

#[test]
fn a_task_of_its_worker_runs_when_the_policy_is_asked_again() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, move |_, ran| {
            let runs = Arc::clone(ran);
            spawn(async move { runs.store(true, Ordering::Relaxed) }).detach();
            let turns = turns_until(is(ran)) * (beside + 1);
            assert!(
                turns <= UNTIL_ASKED + beside,
                "{turns} turns beside {beside} fibers"
            );
        });
    }
}

#[test]
fn an_injected_task_runs_at_the_global_look() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, move |runtime, ran| {
            let (injector, runs) = (Arc::clone(runtime), Arc::clone(ran));
            elsewhere(move || {
                injector
                    .spawn(async move { runs.store(true, Ordering::Relaxed) })
                    .detach();
            });
            let turns = turns_until(is(ran)) * (beside + 1);
            assert!(
                turns <= UNTIL_OVERDUE + beside,
                "{turns} turns beside {beside} fibers"
            );
        });
    }
}

/// One turn for the fiber, or the one before it in the line, that was about to go on; then the mailbox has
/// its own.
#[test]
fn a_fiber_that_another_thread_wakes_is_next() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, |_, woken| {
            let (sender, receiver) = oneshot::channel::<()>();
            let wakes = Arc::clone(woken);
            let waits = Arc::new(AtomicBool::new(false));
            let waiting = Arc::clone(&waits);
            fiber::spawn(move || {
                waiting.store(true, Ordering::Relaxed);
                receiver.wait().expect("it is sent");
                wakes.store(true, Ordering::Relaxed);
            })
            .detach();
            assert!(turns_until(is(&waits)) < FORGOTTEN);
            elsewhere(move || sender.send(()).expect("it is waited for"));
            let turns = turns_until(is(woken));
            assert_eq!(turns, 1);
        });
    }
}

/// They are taken out of the mailbox at once, and go on in turn with the line, in the order of their wakes.
#[test]
fn fibers_that_another_thread_wakes_at_once_take_turns_with_the_line() {
    const WOKEN: usize = 5;
    in_a_fiber(0, |_, _| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let senders: Vec<_> = (0..WOKEN)
            .map(|number| {
                let (sender, receiver) = oneshot::channel::<()>();
                let order = Arc::clone(&order);
                fiber::spawn(move || {
                    receiver.wait().expect("it is sent");
                    order.lock().expect("no panic").push(number);
                })
                .detach();
                sender
            })
            .collect();
        // All of them wait.
        (0..2 * UNTIL_OVERDUE).for_each(|_| _ = fiber::yield_now());
        elsewhere(move || {
            for sender in senders {
                sender.send(()).expect("it is waited for");
            }
        });
        let ran = || order.lock().expect("no panic").len();
        let turns: Vec<_> = (1..=WOKEN).map(|woken| turns_until(|| ran() >= woken)).collect();
        assert_eq!(turns, [1; WOKEN]);
        assert_eq!(*order.lock().expect("no panic"), (0..WOKEN).collect::<Vec<_>>());
    });
}

#[test]
fn a_timer_is_looked_at() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, move |_, ran| {
            let runs = Arc::clone(ran);
            let sleeps = Arc::new(AtomicBool::new(false));
            let asleep = Arc::clone(&sleeps);
            spawn(async move {
                asleep.store(true, Ordering::Relaxed);
                time::sleep(Duration::from_millis(1)).await;
                runs.store(true, Ordering::Relaxed);
            })
            .detach();
            assert!(turns_until(is(&sleeps)) < FORGOTTEN);
            thread::sleep(Duration::from_millis(20));
            let turns = turns_until(is(ran)) * (beside + 1);
            assert!(
                turns <= UNTIL_OVERDUE + UNTIL_ASKED + beside,
                "{turns} turns beside {beside} fibers"
            );
        });
    }
}

#[test]
fn a_socket_is_looked_at() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, move |_, ran| {
            let listener = StdListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("bound");
            let accepted = thread::spawn(move || listener.accept().expect("a connection").0);
            let runs = Arc::clone(ran);
            let waits = Arc::new(AtomicBool::new(false));
            let waiting = Arc::clone(&waits);
            spawn(async move {
                let stream = TcpStream::connect(address).await.expect("connected");
                waiting.store(true, Ordering::Relaxed);
                stream.read(&mut [0]).await.expect("a byte");
                runs.store(true, Ordering::Relaxed);
            })
            .detach();
            let start = Instant::now();
            while !waits.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(20) {
                fiber::yield_now();
            }
            assert!(waits.load(Ordering::Relaxed), "connected");
            // Until it waits, and the driver's clock goes: that begins at the first look.
            for _ in 0..200 {
                fiber::yield_now();
            }
            let mut peer = accepted.join().expect("no panic");
            peer.write_all(b"x").expect("sent");
            // The poller is looked at ten thousand times a second at most.
            thread::sleep(Duration::from_millis(1));
            let turns = turns_until(is(ran)) * (beside + 1);
            assert!(
                turns <= UNTIL_OVERDUE + UNTIL_ASKED + beside,
                "{turns} turns beside {beside} fibers"
            );
        });
    }
}

/// What watches the workers sees by these steps that none is stuck.
#[test]
fn each_turn_is_a_step() {
    for beside in [0, 1, 5] {
        in_a_fiber(beside, move |runtime, _| {
            let ran = || {
                let counters = runtime.counters().total();
                counters.get(Count::Ran) + counters.get(Count::FiberTurns)
            };
            let before = ran();
            for turn in 1..=100 {
                assert!(fiber::yield_now());
                let steps = (ran() - before) as usize;
                assert!(steps >= turn * (beside + 1), "{steps} steps in {turn} turns");
            }
        });
    }
}

/// In a line first in, first out, whoever has the turn from whom.
#[test]
fn turns_go_round() {
    in_a_fiber(0, |_, _| {
        let shared = Arc::new(Mutex::new(Vec::new()));
        let ready = Arc::new(AtomicUsize::new(0));
        let fibers: Vec<_> = (0..5)
            .map(|n| {
                let (shared, ready) = (Arc::clone(&shared), Arc::clone(&ready));
                fiber::spawn(move || {
                    ready.fetch_add(1, Ordering::Relaxed);
                    while ready.load(Ordering::Relaxed) < 5 {
                        fiber::yield_now();
                    }
                    for _ in 0..200 {
                        shared.lock().expect("no panic").push(n);
                        fiber::yield_now();
                    }
                })
            })
            .collect();
        for fiber in fibers {
            fiber.wait().expect("no panic");
        }
        let order = shared.lock().expect("no panic");
        let mut all = order[100..105].to_vec();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4]);
        for turns in order[100..900].chunks(5) {
            assert_eq!(turns, &order[100..105]);
        }
    });
}

/// Waits, too, go from fiber to fiber; and a task has its turn in between.
#[test]
fn rings_of_fibers_let_tasks_run() {
    in_a_fiber(0, |_, ran| {
        let bells: Arc<[Notify; 3]> = Arc::new([(); 3].map(|()| Notify::new()));
        let transfers = Arc::new(AtomicUsize::new(0));
        let ring: Vec<_> = (0..3)
            .map(|n| {
                let (bells, transfers, ran) = (Arc::clone(&bells), Arc::clone(&transfers), Arc::clone(ran));
                fiber::spawn(move || {
                    while !ran.load(Ordering::Relaxed) && transfers.load(Ordering::Relaxed) < FORGOTTEN {
                        bells[n].notified().wait();
                        transfers.fetch_add(1, Ordering::Relaxed);
                        bells[(n + 1) % 3].notify_one();
                    }
                    bells[(n + 1) % 3].notify_one();
                })
            })
            .collect();
        bells[0].notify_one();
        for _ in 0..10 {
            fiber::yield_now();
        }
        let (runs, at) = (Arc::clone(ran), Arc::clone(&transfers));
        let asked = transfers.load(Ordering::Relaxed);
        let task = spawn(async move {
            runs.store(true, Ordering::Relaxed);
            at.load(Ordering::Relaxed)
        });
        let transfers = task.wait().expect("no panic") - asked;
        assert!(transfers <= UNTIL_ASKED, "{transfers} transfers");
        for fiber in ring {
            fiber.wait().expect("no panic");
        }
    });
}

#[test]
fn the_end_of_the_runtime_is_seen() {
    for fibers in [1, 2, 7] {
        let runtime = one_worker();
        let running = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..fibers)
            .map(|_| {
                let running = Arc::clone(&running);
                runtime.spawn_fiber(move || {
                    running.fetch_add(1, Ordering::Relaxed);
                    while fiber::yield_now() {}
                })
            })
            .collect();
        while running.load(Ordering::Relaxed) < fibers {
            thread::sleep(Duration::from_millis(1));
        }
        drop(runtime);
        for handle in handles {
            assert!(matches!(handle.wait(), Err(JoinError::Shutdown)));
        }
    }
}

#[test]
fn a_fiber_that_is_alone_stops_when_it_is_cancelled() {
    let runtime = one_worker();
    let turns = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&turns);
    let fiber = runtime.spawn_fiber(move || {
        cooperate!(loop {
            counts.fetch_add(1, Ordering::Relaxed);
        })
    });
    while turns.load(Ordering::Relaxed) < 100_000 {
        thread::sleep(Duration::from_millis(1));
    }
    fiber.cancel();
    assert!(matches!(fiber.wait(), Err(JoinError::Cancelled)));
}

#[inline(never)]
fn three_frames_deep(frames: usize) -> String {
    if frames > 0 {
        let text = three_frames_deep(frames - 1);
        std::hint::black_box(&text);
        return text;
    }
    for _ in 0..40 {
        fiber::yield_now();
    }
    Backtrace::force_capture().to_string()
}

/// Also behind a switch that came from another fiber.
#[test]
fn a_backtrace_ends_at_the_foot_of_the_stack() {
    in_a_fiber(3, |_, _| {
        let text = three_frames_deep(3);
        assert!(text.matches("three_frames_deep").count() >= 4, "{text}");
        assert!(text.lines().count() < 300, "{text}");
    });
}

/// A panic in a fiber that others left their turns to is its own.
#[test]
fn panics_stay_apart() {
    in_a_fiber(2, |_, _| {
        let fibers: Vec<_> = (0..10)
            .map(|n| {
                fiber::spawn(move || {
                    for _ in 0..n {
                        fiber::yield_now();
                    }
                    assert!(n % 2 == 0, "odd");
                    n
                })
            })
            .collect();
        for (n, fiber) in fibers.into_iter().enumerate() {
            let result = fiber.wait();
            assert_eq!(result.is_err(), n % 2 == 1, "{result:?}");
        }
    });
}
