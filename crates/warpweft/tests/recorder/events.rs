//! What is recorded, and when.

use crate::eventually::eventually;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use warpweft::policy::Count;
use warpweft::{
    Event, EventKind, Push, Runtime, Snapshot, StepEnd, StepKind, TaskBuilder, TaskSite, fiber, spawn,
    spawn_job,
};

/// A runtime without a monitor, which would have events, too.
pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .stuck_after(None)
        .build()
        .expect("a runtime")
}

/// The sites of all steps of tasks, with the numbers of their steps.
fn steps(snapshot: &Snapshot) -> HashMap<String, usize> {
    let mut steps = HashMap::new();
    for event in snapshot.events() {
        if let EventKind::Begin { site: Some(site), .. } = &event.kind {
            *steps.entry(site.to_string()).or_default() += 1;
        }
    }
    steps
}

#[test]
fn nothing_of_steps_is_recorded_before_it_is_switched_on() {
    let runtime = runtime(1);
    runtime.spawn_job(|| ()).wait().expect("no panic");
    let is_step = |kind: &EventKind| matches!(kind, EventKind::Begin { .. } | EventKind::Push { .. });
    let snapshot = runtime.recorder().snapshot();
    assert!(!runtime.recorder().records_steps());
    assert!(!snapshot.events().any(|event| is_step(&event.kind)));
}

#[test]
fn a_worker_that_sleeps_records_its_next_task() {
    let runtime = runtime(1);
    for _ in 0..50 {
        eventually("the worker sleeps", || runtime.idle_workers().1 == 1);
        runtime.recorder().record_steps(true);
        let builder = TaskBuilder::new().on(&runtime).name("first");
        let child = builder.spawn_job(|| spawn_job(|| ())).wait().expect("no panic");
        child.wait().expect("no panic");
        runtime.recorder().record_steps(false);
    }
    let snapshot = runtime.recorder().snapshot();
    assert_eq!(steps(&snapshot).get("first"), Some(&50));
    let spawned = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Push {
                why: Push::Spawned,
                ..
            }
        )
    };
    assert_eq!(snapshot.events().filter(|event| spawned(&event.kind)).count(), 50);
}

#[test]
fn every_step_has_its_begin_its_end_and_its_push() {
    let runtime = runtime(2);
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let root = runtime.spawn(async {
        let handles: Vec<_> = (0..200).map(|n| spawn_job(move || n)).collect();
        for handle in handles {
            handle.await.expect("no panic");
        }
        for _ in 0..3 {
            warpweft::yield_now().await;
        }
    });
    root.wait().expect("no panic");
    drop(runtime);
    let snapshot = recorder.snapshot();
    let (mut begun, mut ended, mut pushed) = (0, HashMap::<StepEnd, usize>::new(), HashMap::new());
    for track in &snapshot.pools[0].tracks {
        let mut is_open = false;
        let mut last = Duration::ZERO;
        for event in &track.events {
            assert!(event.at >= last, "events are in order of time");
            last = event.at;
            match &event.kind {
                EventKind::Begin { what, site, .. } => {
                    assert_eq!(*what, StepKind::Task);
                    assert!(!is_open && site.is_some(), "{event:?}");
                    (is_open, begun) = (true, begun + 1);
                }
                EventKind::End { how } => {
                    assert!(is_open, "{event:?} of {:#?}", track.events);
                    is_open = false;
                    *ended.entry(*how).or_default() += 1;
                }
                EventKind::Push { why, .. } => *pushed.entry(*why).or_default() += 1,
                _ => {}
            }
        }
    }
    assert_eq!(begun, ended.values().sum::<usize>(), "no worker is in a step");
    assert_eq!(ended[&StepEnd::Ended], 201);
    assert_eq!(pushed[&Push::Injected], 1);
    assert_eq!(pushed[&Push::Spawned], 200);
    let woken: usize = pushed.get(&Push::Woken).copied().unwrap_or(0);
    let waits = ended.get(&StepEnd::Waits).copied().unwrap_or(0);
    assert_eq!(waits, woken, "{ended:?} {pushed:?}");
}

#[test]
fn a_fibers_turns_are_recorded_with_its_site() {
    let runtime = runtime(1);
    runtime.recorder().record_steps(true);
    let fibers: Vec<_> = (0..2)
        .map(|_| {
            runtime.spawn_fiber(|| {
                for _ in 0..20 {
                    fiber::yield_now();
                }
            })
        })
        .collect();
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("no panic"));
    let snapshot = runtime.recorder().snapshot();
    let here = |site: &Arc<TaskSite>| site.spawned_at.file().ends_with("events.rs");
    let is_turn = |kind: &EventKind| matches!(kind, EventKind::Begin { what: StepKind::Fiber, site: Some(site), .. } if here(site));
    let turns = snapshot.events().filter(|event| is_turn(&event.kind)).count();
    assert!((20..=60).contains(&turns), "{turns} turns");
}

/// More fibers end than the thread keeps stacks: the last one's stack is gone when its turn is recorded.
#[test]
fn the_turn_of_a_fiber_whose_stack_is_gone_is_recorded() {
    const FIBERS: usize = 200;
    let runtime = runtime(1);
    runtime.recorder().record_steps(true);
    let root = runtime.spawn_fiber(|| {
        let fibers: Vec<_> = (0..FIBERS).map(|_| fiber::spawn(fiber::yield_now)).collect();
        fibers.into_iter().for_each(|fiber| assert!(fiber.wait().is_ok()));
    });
    root.wait().expect("no panic");
    let snapshot = runtime.recorder().snapshot();
    let is_turn = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Begin {
                what: StepKind::Fiber,
                ..
            }
        )
    };
    assert!(snapshot.events().filter(|event| is_turn(&event.kind)).count() >= FIBERS);
}

#[test]
fn workers_that_sleep_and_wake_up_are_recorded_without_steps() {
    let runtime = runtime(1);
    let parks = || runtime.counters().total().get(Count::Parks);
    let mut before = 0;
    let mut sleeps_again = || {
        // It is counted after it is announced.
        eventually("the worker sleeps", || {
            runtime.idle_workers().1 == 1 && parks() > before
        });
        before = parks();
    };
    for _ in 0..5 {
        sleeps_again();
        runtime.spawn_job(|| ()).wait().expect("no panic");
    }
    sleeps_again();
    let snapshot = runtime.recorder().snapshot();
    let count = |name: &str| {
        snapshot
            .events()
            .filter(|event| event.kind.name() == name)
            .count()
    };
    assert!(
        count("park") >= 5 && count("unpark") >= 5 && count("wake worker") >= 5,
        "{snapshot:?}"
    );
}

#[test]
fn a_stuck_worker_and_its_replacement_are_recorded() {
    let runtime = Runtime::builder()
        .workers(1)
        .stuck_after(Some(Duration::from_millis(1)))
        .build()
        .expect("a runtime");
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    let stuck = runtime.spawn_job(move || while !flag.load(Ordering::Relaxed) {});
    // Runs on a compensating worker.
    runtime.spawn_job(|| ()).wait().expect("no panic");
    is_over.store(true, Ordering::Relaxed);
    stuck.wait().expect("no panic");
    let seen = |wanted: fn(&EventKind) -> bool| {
        eventually("it is recorded", || {
            runtime
                .recorder()
                .snapshot()
                .events()
                .any(|event| wanted(&event.kind))
        });
    };
    seen(|kind| matches!(kind, EventKind::Stall { worker: 0, .. }));
    seen(|kind| matches!(kind, EventKind::Compensate { worker: 1 }));
    seen(|kind| matches!(kind, EventKind::Retire { worker: 1 }));
}

#[test]
fn a_task_that_changes_pools_is_recorded() {
    let runtime = Runtime::builder()
        .workers(1)
        .then("second", Runtime::builder().workers(1))
        .build()
        .expect("a runtime");
    let second = runtime.pool("second").expect("it is there").clone();
    let moved = runtime.spawn(async move { second.enter().await.expect("open") });
    moved.wait().expect("no panic");
    let snapshot = runtime.recorder().snapshot();
    assert_eq!(snapshot.pools.len(), 2);
    let transfers = |pool: usize| {
        let mut events = snapshot.pools[pool].tracks.iter().flat_map(|track| &track.events);
        events.any(|event| matches!(event.kind, EventKind::Transfer { .. }))
    };
    assert!(transfers(0) && !transfers(1));
}

#[test]
fn recording_goes_on_and_off_under_load() {
    let runtime = runtime(2);
    let recorder = runtime.recorder();
    let (over, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let load: Vec<_> = (0..4)
        .map(|_| {
            let (over, ran) = (Arc::clone(&over), Arc::clone(&ran));
            runtime.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    spawn(async {}).await.expect("no panic");
                    ran.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for round in 0..12 {
        recorder.record_steps(round % 2 == 0);
        recorder.measure_steps(round % 3 == 0);
        let before = ran.load(Ordering::Relaxed);
        eventually("tasks run", || ran.load(Ordering::Relaxed) > before + 200);
        let snapshot = recorder.snapshot();
        for track in &snapshot.pools[0].tracks {
            assert!(track.events.is_sorted_by_key(|event| event.at));
        }
    }
    over.store(true, Ordering::Relaxed);
    load.into_iter().for_each(|task| task.wait().expect("no panic"));
    assert!(
        recorder
            .snapshot()
            .events()
            .any(|event| matches!(event.kind, EventKind::Begin { .. }))
    );
}

#[test]
fn a_recorder_of_no_bytes_records_nothing() {
    let runtime = Runtime::builder()
        .workers(1)
        .recorder_bytes(0)
        .build()
        .expect("a runtime");
    runtime.recorder().record_steps(true);
    runtime.spawn_job(|| ()).wait().expect("no panic");
    assert_eq!(runtime.recorder().snapshot().events().count(), 0);
}

#[test]
fn the_memory_of_a_ring_is_bounded() {
    let bytes = 64 << 10;
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let runtime = builder.recorder_bytes(bytes).build().expect("a runtime");
    runtime.recorder().record_steps(true);
    let root = runtime.spawn(async {
        for _ in 0..20_000 {
            spawn_job(|| ()).await.expect("no panic");
        }
    });
    root.wait().expect("no panic");
    let snapshot = runtime.recorder().snapshot();
    // A begin is shown as an end as well.
    let events = snapshot.pools[0].tracks[0].events.len();
    assert!(
        events <= 2 * (bytes + bytes / 32) / 16 && events > bytes / 32,
        "{events} events"
    );
}

/// Returns how many pushes there are on the track of each name.
fn pushes_of_threads(snapshot: &Snapshot) -> Vec<(String, usize)> {
    let is_push = |event: &&Event| matches!(event.kind, EventKind::Push { .. });
    let tracks = snapshot.pools[0].tracks.iter();
    let named = tracks.filter_map(|track| Some((track.thread.as_deref()?, track)));
    named
        .map(|(name, track)| {
            assert_eq!((track.worker, track.blocking), (None, None));
            let pushes = track.events.iter().filter(is_push).count();
            assert_eq!(pushes, track.events.len(), "nothing else is known of a thread");
            (name.to_owned(), pushes)
        })
        .collect()
}

#[test]
fn threads_without_a_worker_have_tracks_with_their_names() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    runtime.recorder().record_steps(true);
    let runs = || runtime.spawn_job(|| ()).wait().expect("no panic");
    let (sender, receiver) = warpweft::sync::oneshot::channel();
    let waits = runtime.spawn(receiver);
    std::thread::scope(|scope| {
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        // Two of the same name, one after the other.
        for _ in 0..2 {
            let polls = thread("kafka \"poll\"")
                .spawn_scoped(scope, runs)
                .expect("a thread");
            polls.join().expect("no panic");
        }
        scope.spawn(runs).join().expect("no panic");
        let wakes = thread("waker").spawn_scoped(scope, || sender.send(()));
        wakes
            .expect("a thread")
            .join()
            .expect("no panic")
            .expect("it waits");
    });
    assert_eq!(waits.wait().expect("no panic"), Ok(()));
    let snapshot = runtime.recorder().snapshot();
    let mut pushes = pushes_of_threads(&snapshot);
    let own = std::thread::current().name().map(str::to_owned);
    assert_eq!(pushes.remove(0), (own.expect("tests have names"), 1));
    assert_eq!(pushes.remove(0), (String::from("kafka \"poll\""), 2));
    assert_eq!(pushes, [(String::from("waker"), 1)]);
    let mut tracks = snapshot.pools[0].tracks.iter();
    let others = tracks.find(|track| track.worker.is_none() && track.thread.is_none());
    let others = others.expect("a track of other threads");
    let is_push = |event: &&Event| matches!(event.kind, EventKind::Push { .. });
    assert_eq!(others.events.iter().filter(is_push).count(), 1, "one has no name");
    let mut json = Vec::new();
    snapshot.write_json(&mut json).expect("memory");
    assert!(String::from_utf8_lossy(&json).contains(r#""thread":"kafka \"poll\"""#));
}

#[test]
fn a_track_whose_earlier_events_were_overwritten_says_from_when_on_it_is_complete() {
    let builder = Runtime::builder().workers(1).stuck_after(None);
    let runtime = builder.recorder_bytes(64 << 10).build().expect("a runtime");
    runtime.recorder().record_steps(true);
    let lost = |snapshot: &Snapshot| -> Vec<usize> {
        let tracks = snapshot.pools[0].tracks.iter().enumerate();
        let marked =
            tracks.filter(|(_, track)| track.events.iter().any(|event| event.kind == EventKind::Lost));
        marked.map(|(at, _)| at).collect()
    };
    runtime.spawn_job(|| ()).wait().expect("no panic");
    assert_eq!(lost(&runtime.recorder().snapshot()), []);
    for _ in 0..20_000 {
        runtime.spawn_job(|| ()).wait().expect("no panic");
    }
    let snapshot = runtime.recorder().snapshot();
    let others = snapshot.pools[0]
        .tracks
        .iter()
        .position(|track| track.worker.is_none() && track.thread.is_none());
    assert_eq!(lost(&snapshot), [0, others.expect("a track of other threads")]);
    for track in &snapshot.pools[0].tracks {
        let is_lost = |event: &Event| event.kind == EventKind::Lost;
        let Some(at) = track.events.iter().position(is_lost) else {
            continue;
        };
        let is_rare = |event: &Event| {
            !matches!(
                event.kind,
                EventKind::Begin { .. } | EventKind::End { .. } | EventKind::Push { .. }
            )
        };
        assert!(track.events[..at].iter().all(is_rare), "no step is before it");
        if track.worker.is_some() {
            assert_eq!(track.events[at].at, track.events[at + 1].at);
            continue;
        }
        // It is said of all threads without a worker.
        let outside = snapshot.pools[0]
            .tracks
            .iter()
            .filter(|track| track.worker.is_none());
        let first = outside
            .filter_map(|track| track.events.first())
            .map(|event| event.at);
        assert_eq!((at, Some(track.events[at].at)), (0, first.min()));
    }
    let mut trace = Vec::new();
    snapshot.write_perfetto(&mut trace).expect("memory");
    let text = b"earlier events are lost";
    assert!(trace.windows(text.len()).any(|part| part == text));
}

#[test]
fn json_has_every_event() {
    let runtime = runtime(1);
    runtime.recorder().record_steps(true);
    TaskBuilder::new()
        .on(&runtime)
        .name("a \"quoted\" name")
        .spawn_job(|| ())
        .wait()
        .expect("no panic");
    let snapshot = runtime.recorder().snapshot();
    let mut json = Vec::new();
    snapshot.write_json(&mut json).expect("memory");
    let json = String::from_utf8(json).expect("text");
    assert_eq!(json.matches("\"at_ns\":").count(), snapshot.events().count());
    assert!(json.contains("\"name\":\"a \\\"quoted\\\" name\""), "{json}");
    assert_eq!(json.matches('{').count(), json.matches('}').count());
}

#[test]
fn the_steps_of_a_fiber_have_one_key_say_how_they_ended_and_its_wakes_are_recorded() {
    let runtime = runtime(1);
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let (send, receive) = warpweft::sync::channel::unbounded::<u32>();
    let root = runtime.spawn_fiber(move || {
        let waiter = TaskBuilder::new().name("waiter").spawn_fiber(move || {
            let first = receive.recv().wait();
            fiber::yield_now();
            first
        });
        let waker = TaskBuilder::new().name("waker").spawn_fiber(move || {
            fiber::yield_now();
            fiber::yield_now();
            send.send(7).wait()
        });
        assert_eq!(waker.wait().expect("no panic"), Ok(()));
        assert_eq!(waiter.wait().expect("no panic"), Ok(7));
    });
    root.wait().expect("no panic");
    drop(runtime);
    let snapshot = recorder.snapshot();
    let events = &snapshot.pools[0].tracks[0].events;
    let is_waiter = |kind: &EventKind| match kind {
        EventKind::Begin {
            task,
            site: Some(site),
            ..
        } if site.to_string() == "waiter" => Some(*task),
        _ => None,
    };
    let mut keys: Vec<_> = events.iter().filter_map(|event| is_waiter(&event.kind)).collect();
    assert_eq!(
        keys.len(),
        3,
        "its begin, after the message, after the yield: {events:#?}"
    );
    keys.dedup();
    let [key] = keys[..] else {
        panic!("{keys:?}");
    };
    let ends: Vec<_> = events
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| is_waiter(&pair[0].kind).is_some())
        .filter_map(|(at, _)| {
            events[at..].iter().find_map(|event| match event.kind {
                EventKind::End { how } => Some(how),
                _ => None,
            })
        })
        .collect();
    assert_eq!(ends, [StepEnd::Waits, StepEnd::Again, StepEnd::Ended]);
    // Woken once, in a step of the fiber that sent the message.
    let woken = EventKind::Push {
        task: key,
        why: Push::Woken,
    };
    let at: Vec<_> = (0..events.len()).filter(|&at| events[at].kind == woken).collect();
    let [at] = at[..] else {
        panic!("{at:?} of {events:#?}");
    };
    let during = events[..at].iter().rev().find_map(|event| match &event.kind {
        EventKind::Begin { site, .. } => site.as_ref().map(ToString::to_string),
        EventKind::End { .. } => Some("no step".to_owned()),
        _ => None,
    });
    assert_eq!(during.as_deref(), Some("waker"));
}

#[test]
fn closures_that_block_have_tracks_of_their_own() {
    let runtime = runtime(1);
    let recorder = runtime.recorder();
    recorder.record_steps(true);
    let running = Arc::new(AtomicU32::new(0));
    let root = runtime.spawn(async move {
        let both: Vec<_> = (0..2)
            .map(|_| {
                let running = Arc::clone(&running);
                spawn(warpweft::spawn_blocking(move || {
                    running.fetch_add(1, Ordering::Relaxed);
                    eventually("both run", || running.load(Ordering::Relaxed) == 2);
                }))
            })
            .collect();
        for one in both {
            one.await.expect("no panic").expect("no panic");
        }
    });
    root.wait().expect("no panic");
    drop(runtime);
    let snapshot = recorder.snapshot();
    let tracks: Vec<_> = snapshot.pools[0]
        .tracks
        .iter()
        .filter(|track| track.blocking.is_some())
        .collect();
    assert_eq!(tracks.len(), 2, "both ran at the same time");
    for (number, track) in tracks.into_iter().enumerate() {
        assert_eq!((track.blocking, track.worker), (Some(number), None));
        let [begin, end] = &track.events[..] else {
            panic!("{:?}", track.events);
        };
        let EventKind::Begin {
            what: StepKind::Blocking,
            task,
            site: Some(site),
        } = &begin.kind
        else {
            panic!("{begin:?}");
        };
        assert!(site.spawned_at.file().ends_with("events.rs"));
        let ended = EventKind::End { how: StepEnd::Ended };
        assert_eq!(end.kind, ended);
        let pushed = EventKind::Push {
            task: *task,
            why: Push::Spawned,
        };
        let mut by_worker = snapshot.pools[0].tracks[0].events.iter();
        assert!(by_worker.any(|event| event.kind == pushed && event.at <= begin.at));
    }
}
