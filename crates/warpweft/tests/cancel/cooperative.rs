//! Cooperative code under a token.

use super::{Alive, in_time, runtime, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use warpweft::cancel::CancelToken;
use warpweft::{cooperate, cooperative};

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
        for kind in 0..4 {
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
                _ => {
                    let ours = token.clone();
                    Ok(runtime.spawn_job(move || assert!(ours.run(direct).is_err())))
                }
            };
            until(|| begun.load(Ordering::Relaxed));
            token.cancel();
            let ended = task.expect("live").wait();
            assert_eq!(ended.is_err(), kind < 3, "kind {kind}: {ended:?}");
            assert_eq!(alive.count(), 0);
        }
    });
}
