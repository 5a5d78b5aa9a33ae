//! The flight recorder of a pool whose workers run, under shuttle: it is switched and read meanwhile.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::thread;
use support::models::check;
use warpweft::{EventKind, Push, Runtime, Snapshot, StepEnd, spawn, yield_now};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .stuck_after(None)
        .build()
        .expect("a pool")
}

/// Checks that steps on each track follow each other. Returns how many begin and how many end a task.
fn steps(snapshot: &Snapshot) -> (usize, usize) {
    let (mut begun, mut ended) = (0, 0);
    for track in snapshot.pools.iter().flat_map(|pool| &pool.tracks) {
        let mut is_open = false;
        for event in &track.events {
            match &event.kind {
                EventKind::Begin { site, .. } => {
                    assert!(!is_open && site.is_some(), "{:#?}", track.events);
                    (is_open, begun) = (true, begun + 1);
                }
                EventKind::End { how } => {
                    assert!(is_open, "{:#?}", track.events);
                    is_open = false;
                    ended += usize::from(*how == StepEnd::Ended);
                }
                _ => {}
            }
        }
    }
    (begun, ended)
}

/// Tasks of two workers spawn and wake each other while another thread switches the recorder and reads it.
#[test]
fn it_is_switched_and_read_while_workers_run() {
    check(|| {
        let runtime = runtime(2);
        let recorder = runtime.recorder();
        let switch = {
            let recorder = recorder.clone();
            thread::spawn(move || {
                recorder.record_steps(true);
                steps(&recorder.snapshot());
                recorder.measure_steps(true);
                recorder.record_steps(false);
                steps(&recorder.snapshot());
            })
        };
        let root = runtime.spawn(async {
            let child = spawn(yield_now());
            yield_now().await;
            child.await.expect("no panic");
        });
        root.wait().expect("no panic");
        switch.join().expect("no panic");
        runtime.shutdown();
        let (begun, ended) = steps(&recorder.snapshot());
        assert!(ended <= begun && ended <= 2);
    });
}

/// All is recorded from the begin to the end, on whichever worker it happens.
#[test]
fn what_runs_after_the_switch_is_recorded_once() {
    check(|| {
        let runtime = runtime(2);
        let recorder = runtime.recorder();
        recorder.record_steps(true);
        // From here on each loop that begins records; those that began before change over at their next look.
        runtime.spawn(async {}).wait().expect("no panic");
        let root = runtime.spawn(async {
            for _ in 0..2 {
                spawn(async {}).await.expect("no panic");
            }
        });
        root.wait().expect("no panic");
        runtime.shutdown();
        let snapshot = recorder.snapshot();
        let (begun, ended) = steps(&snapshot);
        assert!(ended <= 4 && ended <= begun);
        let injected = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::Push {
                    why: Push::Injected,
                    ..
                }
            )
        };
        assert_eq!(snapshot.events().filter(|event| injected(&event.kind)).count(), 2);
    });
}
