//! In which order closures run.

use std::sync::mpsc;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

#[path = "../../../crates/warpweft/tests/support/in_time.rs"]
mod in_time;
use in_time::in_time;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .expect("threads")
}

/// The closures of threads that wait for them run in the order in which they came, as in the original.
#[test]
fn what_comes_from_outside_runs_oldest_first() {
    in_time(|| {
        let pool = pool(1);
        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        pool.spawn(move || gone.recv().expect("the test sends"));
        for number in 0..100 {
            let tell = tell.clone();
            pool.spawn(move || tell.send(number).expect("the test waits"));
        }
        go.send(()).expect("the closure waits");
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    });
}

/// What a closure spawns goes before what waits outside.
#[test]
fn own_closures_go_first() {
    in_time(|| {
        let pool = pool(1);
        let (go, gone) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let inner = tell.clone();
        pool.spawn(move || {
            gone.recv().expect("the test sends");
            for number in 0..3 {
                let inner = inner.clone();
                rayon_core::spawn(move || inner.send(number).expect("the test waits"));
            }
        });
        for number in 3..6 {
            let tell = tell.clone();
            pool.spawn(move || tell.send(number).expect("the test waits"));
        }
        go.send(()).expect("the closure waits");
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), [2, 1, 0, 3, 4, 5]);
    });
}
