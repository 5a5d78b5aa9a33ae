//! Frames that run parts of the half that they wait for: such a part may end on a worker that its waiting frame
//! then gets.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "outside the checkers the system's own threads are what is tested against"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use warpweft::{ForkCx, Pool, Runtime, scope};

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

/// After each join, a frame is on a worker again, whoever has run what.
#[test]
fn a_frame_has_a_worker_again_when_its_join_returns() {
    for workers in [2, 4, 8] {
        let runtime = Runtime::builder()
            .workers(workers)
            .stuck_after(None)
            .build()
            .expect("workers");
        for _ in 0..20 {
            runtime
                .install(|cx| {
                    cx.join(|cx| tree(cx, 8), |cx| tree(cx, 8));
                    // Jobs of a scope below are on offer while parts of forks run.
                    scope(|jobs| {
                        for _ in 0..8 {
                            jobs.spawn(|_| ForkCx::with(|cx| tree(cx.expect("a worker"), 5)));
                        }
                        ForkCx::with(|cx| tree(cx.expect("a worker"), 6));
                    });
                })
                .expect("open");
        }
    }
    assert_eq!(ASTRAY.load(Ordering::Relaxed), 0);
}
