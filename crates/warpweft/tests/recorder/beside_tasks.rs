//! What is recorded of turns of fibers, of the threads that wake them, and of stolen forks.

use crate::events::runtime;
use crate::eventually::eventually;
use crate::perfetto::flows;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::sync::{Notify, channel};
use warpweft::{
    Event, EventKind, Push, Runtime, Snapshot, StepKind, TaskBuilder, TaskKey, TaskState, fiber, join,
    spawn_blocking, spawn_job, time, yield_now,
};

/// The fibers of that name which the snapshot has.
fn fibers(snapshot: &Snapshot, name: &str) -> Vec<TaskKey> {
    let mut keys: Vec<_> = snapshot
        .events()
        .filter_map(|event| match &event.kind {
            EventKind::Begin {
                task,
                site: Some(site),
                ..
            } if site.to_string() == name => Some(*task),
            _ => None,
        })
        .collect();
    keys.dedup();
    keys
}

/// How many wakes of the task the workers recorded, and how many other threads.
fn wakes(snapshot: &Snapshot, task: TaskKey) -> [usize; 2] {
    let woken = EventKind::Push {
        task,
        why: Push::Woken,
    };
    let count = |events: &[Event]| events.iter().filter(|event| event.kind == woken).count();
    [true, false].map(|of_worker| {
        let tracks = snapshot.pools[0].tracks.iter();
        let of_them = tracks.filter(|track| track.worker.is_some() == of_worker);
        of_them.map(|track| count(&track.events)).sum()
    })
}

fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

/// Computes until the flag is set.
fn spin_until(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(Ordering::Relaxed) {
        assert!(start.elapsed() < Duration::from_secs(20), "it is never stolen");
    }
}

/// Returns true once the fiber of that name waits, and has ended its turn: a wake before that would begin no
/// other one.
fn waits(runtime: &Runtime, name: &str) -> bool {
    let tasks = runtime.dump().tasks;
    let mut of_name = tasks.iter().filter(|task| task.name.as_deref() == Some(name));
    of_name
        .next()
        .is_some_and(|task| task.state == TaskState::Waiting && !task.waits.is_empty())
}

/// What wakes the fiber of a test.
type Wake = fn(&Runtime, Arc<Notify>);

const OUTSIDE: [(&str, Wake); 2] = [
    ("thread", |_, notify| {
        thread::spawn(move || notify.notify_one())
            .join()
            .expect("no panic");
    }),
    ("blocking", |runtime, notify| {
        let wake = spawn_blocking_on(runtime, move || notify.notify_one());
        runtime.block_on(wake);
    }),
];

async fn spawn_blocking_on(runtime: &Runtime, closure: impl FnOnce() + Send + 'static) {
    runtime.spawn_blocking(closure).await.expect("no panic");
}

/// Each wake of a fiber by a thread without a worker is recorded once, before the turn that follows, and the
/// trace has its flow.
#[test]
fn a_fibers_wake_by_a_thread_without_a_worker_has_a_flow() {
    const ROUNDS: usize = 20;
    for (name, wake) in OUTSIDE {
        let runtime = runtime(1);
        runtime.recorder().record_steps(true);
        let notify = Arc::new(Notify::new());
        let rounds = Arc::new(AtomicUsize::new(0));
        let (waited, count) = (Arc::clone(&notify), Arc::clone(&rounds));
        let fiber = TaskBuilder::new().name(name).on(&runtime).spawn_fiber(move || {
            for _ in 0..ROUNDS {
                waited.notified().wait();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..=ROUNDS {
            eventually("the fiber waits", || waits(&runtime, name));
            wake(&runtime, Arc::clone(&notify));
            eventually("it was woken", || rounds.load(Ordering::Relaxed) == round);
        }
        fiber.wait().expect("no panic");
        let recorder = runtime.recorder();
        drop(runtime);
        let snapshot = recorder.snapshot();
        let [key] = fibers(&snapshot, name)[..] else {
            panic!("{:?}", fibers(&snapshot, name));
        };
        assert_eq!(wakes(&snapshot, key), [0, ROUNDS], "{name}: {snapshot:#?}");
        // 20 wakes and the spawn, and each leads to a slice of its name.
        let led = flows(&snapshot)
            .into_iter()
            .filter(|flow| flow.to == name)
            .count();
        assert_eq!(led, ROUNDS + 1, "{name}");
    }
}

/// A task wakes the fiber that had the last turn of the thread, and a fiber yields after it has woken another
/// one.
#[test]
fn each_wake_of_a_fiber_by_its_own_thread_is_recorded() {
    const ROUNDS: usize = 10;
    for by_fiber in [false, true] {
        let runtime = runtime(1);
        runtime.recorder().record_steps(true);
        let notify = Arc::new(Notify::new());
        let rounds = Arc::new(AtomicUsize::new(0));
        let (waited, count) = (Arc::clone(&notify), Arc::clone(&rounds));
        let builder = TaskBuilder::new().name("waits").on(&runtime);
        let fiber = builder.spawn_fiber(move || {
            for _ in 0..ROUNDS {
                waited.notified().wait();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        eventually("the fiber waits", || waits(&runtime, "waits"));
        let is_over = move |round| rounds.load(Ordering::Relaxed) > round;
        if by_fiber {
            let wakes = runtime.spawn_fiber(move || {
                for round in 0..ROUNDS {
                    notify.notify_one();
                    while !is_over(round) {
                        fiber::yield_now();
                    }
                }
            });
            wakes.wait().expect("no panic");
        } else {
            let wakes = runtime.spawn(async move {
                for round in 0..ROUNDS {
                    notify.notify_one();
                    while !is_over(round) {
                        yield_now().await;
                    }
                }
            });
            wakes.wait().expect("no panic");
        }
        fiber.wait().expect("no panic");
        let recorder = runtime.recorder();
        drop(runtime);
        let snapshot = recorder.snapshot();
        let [key] = fibers(&snapshot, "waits")[..] else {
            panic!("{:?}", fibers(&snapshot, "waits"));
        };
        assert_eq!(
            wakes(&snapshot, key),
            [ROUNDS, 0],
            "by a fiber: {by_fiber}: {snapshot:#?}"
        );
    }
}

/// A fiber that waits for a task on a thread of its own, and one that a timer wakes.
#[test]
fn every_wake_of_a_fiber_has_a_flow() {
    const ROUNDS: usize = 10;
    let runtime = runtime(2);
    runtime.recorder().record_steps(true);
    let builder = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let (send, receive) = channel::unbounded();
    let sleeps = builder("sleeps").spawn_fiber(|| {
        for _ in 0..ROUNDS {
            fiber::wait(time::sleep(Duration::from_millis(1)));
        }
    });
    let asks = builder("asks").spawn_fiber(|| {
        for _ in 0..ROUNDS {
            fiber::wait(spawn_blocking(|| spin_for(Duration::from_millis(1)))).expect("no panic");
        }
    });
    let receives = builder("receives").spawn_fiber(move || while receive.recv().wait().is_ok() {});
    let sends = builder("sends").spawn_fiber(move || {
        for n in 0..ROUNDS {
            fiber::yield_now();
            send.send(n).wait().expect("it receives");
        }
    });
    for fiber in [sleeps, asks, receives, sends] {
        fiber.wait().expect("no panic");
    }
    let recorder = runtime.recorder();
    drop(runtime);
    let snapshot = recorder.snapshot();
    let led = flows(&snapshot);
    for name in ["sleeps", "asks"] {
        let [key] = fibers(&snapshot, name)[..] else {
            panic!("{:?}", fibers(&snapshot, name));
        };
        let wakes: usize = wakes(&snapshot, key).iter().sum();
        // Before its first wait a fiber is not known to those that wake it. On a busy machine a closure may
        // end before the fiber waits for it, or before the fiber's turn is over: no turn follows then.
        assert!(wakes >= ROUNDS / 2, "{name}: {wakes} wakes in {snapshot:#?}");
        let led = led
            .iter()
            .filter(|flow| flow.to == name && flow.why == "woken")
            .count();
        assert!(led <= wakes && led + 2 >= wakes, "{name}: {led} of {wakes}");
    }
}

#[test]
fn a_stolen_fork_has_a_flow_from_the_worker_that_offered_it() {
    let runtime = runtime(2);
    runtime.recorder().record_steps(true);
    let is_stolen = Arc::new(AtomicBool::new(false));
    let stolen = Arc::clone(&is_stolen);
    let root = runtime.spawn_job(move || {
        join(
            || spin_until(&is_stolen),
            || {
                stolen.store(true, Ordering::Relaxed);
                spin_for(Duration::from_millis(1));
            },
        );
    });
    root.wait().expect("no panic");
    let recorder = runtime.recorder();
    drop(runtime);
    let snapshot = recorder.snapshot();
    let tracks = &snapshot.pools[0].tracks;
    let find = |wanted: &dyn Fn(&EventKind) -> Option<TaskKey>| {
        let found = tracks.iter().enumerate().flat_map(|(track, events)| {
            let keys = events.events.iter().filter_map(|event| wanted(&event.kind));
            keys.map(move |key| (track, key))
        });
        found.collect::<Vec<_>>()
    };
    let taken = find(&|kind| match *kind {
        EventKind::Push {
            task,
            why: Push::Taken,
        } => Some(task),
        _ => None,
    });
    let ran = find(&|kind| match *kind {
        EventKind::Begin {
            what: StepKind::Fork,
            task,
            ..
        } => Some(task),
        _ => None,
    });
    let ([(from, taken)], [(to, ran)]) = (&taken[..], &ran[..]) else {
        panic!("{taken:?} {ran:?}");
    };
    assert_eq!(taken, ran);
    assert_ne!(from, to, "it is in the track of the worker that offered it");
    let flows = flows(&snapshot);
    let flow = flows.iter().find(|flow| flow.why == "taken").expect("a flow");
    assert_eq!(flow.to, "fork");
    assert_eq!(
        (flow.tracks.0.as_str(), flow.tracks.1.as_str()),
        (format!("worker {from}").as_str(), format!("worker {to}").as_str())
    );
}

/// The thief wakes the fiber that waits for its fork, by a latch and not by a waker.
#[test]
fn a_fiber_that_waits_for_a_stolen_fork_is_woken_in_the_track_of_its_thief() {
    let runtime = runtime(2);
    runtime.recorder().record_steps(true);
    let is_stolen = Arc::new(AtomicBool::new(false));
    let may_end = Arc::new(AtomicBool::new(false));
    let (stolen, end) = (Arc::clone(&is_stolen), Arc::clone(&may_end));
    let builder = TaskBuilder::new().name("joins").on(&runtime);
    let root = builder.spawn_fiber(move || {
        join(
            || spin_until(&is_stolen),
            || {
                stolen.store(true, Ordering::Relaxed);
                spin_until(&end);
            },
        );
    });
    eventually("the fiber waits", || waits(&runtime, "joins"));
    may_end.store(true, Ordering::Relaxed);
    root.wait().expect("no panic");
    let recorder = runtime.recorder();
    drop(runtime);
    let snapshot = recorder.snapshot();
    let [key] = fibers(&snapshot, "joins")[..] else {
        panic!("{:?}", fibers(&snapshot, "joins"));
    };
    assert_eq!(wakes(&snapshot, key), [1, 0], "{snapshot:#?}");
    let flows = flows(&snapshot);
    let wakes = flows
        .iter()
        .filter(|flow| flow.to == "joins" && flow.why == "woken");
    let tracks: Vec<_> = wakes.map(|flow| &flow.tracks).collect();
    assert!(matches!(tracks[..], [(from, to)] if from != to), "{tracks:?}");
}

/// A turn is recorded at its end, and its slice begins where it began, also if it pushed tasks meanwhile.
#[test]
fn what_a_turn_and_a_fork_push_is_inside_of_them() {
    const BEFORE: Duration = Duration::from_millis(3);
    let runtime = runtime(2);
    runtime.recorder().record_steps(true);
    let push = || {
        spin_for(BEFORE);
        spawn_job(|| ()).detach();
    };
    let fiber = TaskBuilder::new()
        .name("turns")
        .on(&runtime)
        .spawn_fiber(move || {
            // From here on it has turns of its own.
            fiber::wait(time::sleep(Duration::from_millis(1)));
            push();
        });
    fiber.wait().expect("no panic");
    let is_stolen = Arc::new(AtomicBool::new(false));
    let stolen = Arc::clone(&is_stolen);
    let root = runtime.spawn_job(move || {
        join(
            || spin_until(&is_stolen),
            || {
                stolen.store(true, Ordering::Relaxed);
                push();
            },
        );
    });
    root.wait().expect("no panic");
    let recorder = runtime.recorder();
    drop(runtime);
    let snapshot = recorder.snapshot();
    for wanted in [StepKind::Fiber, StepKind::Fork] {
        let (mut pushed_inside, mut ended) = (0, 0);
        for track in &snapshot.pools[0].tracks {
            let (mut began, mut has_pushed) = (None, false);
            for event in &track.events {
                match event.kind {
                    EventKind::Begin { what, .. } => {
                        (began, has_pushed) = ((what == wanted).then_some(event.at), false);
                    }
                    EventKind::End { .. } => {
                        ended += usize::from(has_pushed);
                        (began, has_pushed) = (None, false);
                    }
                    EventKind::Push {
                        why: Push::Spawned, ..
                    } => {
                        if let Some(began) = began {
                            assert!(event.at - began >= BEFORE, "{wanted:?}: {:#?}", track.events);
                            pushed_inside += 1;
                            has_pushed = true;
                        }
                    }
                    _ => {}
                }
            }
        }
        assert_eq!((pushed_inside, ended), (1, 1), "{wanted:?}: {snapshot:#?}");
    }
}
