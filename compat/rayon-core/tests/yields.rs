//! What a yield lets run, and what it says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon_core::{ThreadPoolBuilder, Yield, spawn, yield_local, yield_now};

#[test]
fn a_yield_runs_what_waits_and_says_so() {
    assert_eq!((yield_now(), yield_local()), (None, None));
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        assert_eq!(
            (yield_now(), yield_local()),
            (Some(Yield::Idle), Some(Yield::Idle))
        );
        for way in [yield_now, yield_local] {
            let ran = Arc::new(AtomicUsize::new(0));
            for _ in 0..10 {
                let ran = Arc::clone(&ran);
                spawn(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                });
            }
            let mut yields = 0;
            while way() == Some(Yield::Executed) {
                yields += 1;
                assert!(yields <= 100, "it says that it runs something for ever");
            }
            assert_eq!(ran.load(Ordering::SeqCst), 10);
        }
    });
}

/// As programs do that wait for what they have spawned.
#[test]
fn a_loop_that_yields_gets_what_it_waits_for() {
    let pool = ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    pool.install(|| {
        let (send, receive) = std::sync::mpsc::channel();
        spawn(move || send.send(7).expect("the loop waits"));
        let value = loop {
            if let Ok(value) = receive.try_recv() {
                break value;
            }
            assert_eq!(yield_local(), Some(Yield::Executed));
        };
        assert_eq!(value, 7);
    });
}
