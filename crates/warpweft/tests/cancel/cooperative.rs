//! Cooperative code under a token.

use super::{Alive, in_time, runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpweft::cancel::CancelToken;
use warpweft::{cooperate, cooperative, uncooperative};

#[cooperative]
fn computes(begun: &AtomicBool) {
    loop {
        begun.store(true, Ordering::Relaxed);
    }
}

#[test]
fn cooperative_code_stops_at_a_check() {
    in_time(|| {
        let runtime = runtime(2);
        for kind in 0..5 {
            let (token, alive) = (CancelToken::new(), Alive::default());
            let begun = Arc::new(AtomicBool::new(false));
            let (held, flag) = (alive.hold(), Arc::clone(&begun));
            let direct = move || {
                let _held = held;
                computes(&flag);
            };
            let task = match kind {
                0 => token.run(|| runtime.spawn_fiber(direct)),
                1 => token.run(|| runtime.spawn_job(direct)),
                2 => token.run(|| runtime.spawn(cooperate!(async move { direct() }))),
                3 => token.run(|| {
                    runtime
                        .try_spawn_blocking(direct)
                        .unwrap_or_else(|error| panic!("{error:?}"))
                }),
                _ => {
                    let ours = token.clone();
                    Ok(runtime.spawn_job(move || assert!(ours.run(direct).is_err())))
                }
            };
            until(|| begun.load(Ordering::Relaxed));
            token.cancel();
            let ended = task.expect("live").wait();
            assert_eq!(ended.is_err(), kind < 4, "kind {kind}: {ended:?}");
            assert_eq!(alive.count(), 0);
        }
    });
}

#[test]
fn it_stops_on_a_thread_of_no_pool_unless_it_says_otherwise() {
    in_time(|| {
        let (token, begun) = (CancelToken::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| token.run(|| computes(&begun)));
            until(|| begun.load(Ordering::Relaxed));
            token.cancel();
            assert!(thread.join().expect("no panic goes further").is_err());
        });
        let token = CancelToken::new();
        let sum = token.run(|| {
            token.cancel();
            uncooperative(|| uncooperative(counts) + counts())
        });
        assert_eq!(sum, Ok(200_000));
        let token = CancelToken::new();
        let stopped = token.run(|| {
            token.cancel();
            uncooperative(|| ());
            counts()
        });
        assert!(stopped.is_err(), "the call has ended");
    });
}

#[cooperative]
fn counts() -> usize {
    let mut count = 0;
    for n in 0..100_000 {
        count += std::hint::black_box(usize::from(n < usize::MAX));
    }
    count
}
