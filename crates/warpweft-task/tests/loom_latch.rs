//! A latch against its waiter, under every interleaving: the runnable is pushed once or comes back, and never
//! stays behind.
#![cfg(warpweft_loom)]

use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::loom;
use warpweft_platform::loom::thread;
use warpweft_platform::sync::Arc;
use warpweft_task::test_tasks::TestTasks;
use warpweft_task::{Latch, Runnable};

/// Its task number 0.
fn runnable(probe: &TestTasks) -> Runnable {
    // SAFETY: the pool of all `TestTasks` counts nothing, and leaves its tasks to the tests.
    unsafe { probe.task(0).into_runnable() }
}

struct World {
    latch: Latch,
    /// Relaxed: only the latch makes it visible.
    news: AtomicU64,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            latch: Latch::new(),
            news: AtomicU64::new(0),
        })
    }

    fn tell(&self) {
        self.news.store(1, Ordering::Relaxed);
        self.latch.set();
    }

    fn assert_heard(&self) {
        assert_eq!(
            self.news.load(Ordering::Relaxed),
            1,
            "set, and what came before it is not visible"
        );
    }
}

#[test]
fn a_runnable_is_registered_while_the_latch_is_set() {
    loom::model(|| {
        let world = World::new();
        let probe = TestTasks::new(1);
        let other = Arc::clone(&world);
        let teller = thread::spawn(move || other.tell());
        match world.latch.register(runnable(&probe)) {
            // The pool of the `TestTasks` ends what is pushed to it.
            Ok(()) => {
                teller.join().unwrap();
                assert_eq!((probe.runs(0), probe.lost(0)), (0, 1));
            }
            Err(runnable) => {
                world.assert_heard();
                drop(runnable.run());
                teller.join().unwrap();
                assert_eq!((probe.runs(0), probe.lost(0)), (1, 0));
            }
        }
        assert!(world.latch.is_set());
        world.assert_heard();
    });
}

#[test]
fn two_threads_that_set_it_push_one_runnable() {
    loom::model(|| {
        let world = World::new();
        let probe = TestTasks::new(1);
        world.latch.register(runnable(&probe)).expect("not set yet");
        let tellers = [(); 2].map(|()| {
            let other = Arc::clone(&world);
            thread::spawn(move || other.tell())
        });
        for teller in tellers {
            teller.join().unwrap();
        }
        assert_eq!((probe.runs(0), probe.lost(0)), (0, 1));
        assert!(world.latch.take());
        assert!(!world.latch.take());
    });
}

#[test]
fn whoever_sees_it_set_sees_what_came_before() {
    loom::model(|| {
        let world = World::new();
        let other = Arc::clone(&world);
        let teller = thread::spawn(move || other.tell());
        if world.latch.is_set() {
            world.assert_heard();
        }
        if world.latch.take() {
            world.assert_heard();
        }
        teller.join().unwrap();
    });
}

/// The frame that holds a latch ends as soon as its waiter sees it set. So the thread that set it must not
/// touch it again.
#[test]
fn a_latch_may_go_as_soon_as_it_is_set() {
    loom::model(|| {
        let latch = Box::new(Latch::new());
        let there = At(&raw const *latch);
        let teller = thread::spawn(move || {
            // SAFETY: it is there until it is set.
            unsafe { there.latch() }.set();
        });
        while !latch.is_set() {
            thread::yield_now();
        }
        drop(latch);
        teller.join().unwrap();
    });
}

/// The address of a latch.
struct At(*const Latch);

// SAFETY: latches may be shared between threads.
unsafe impl Send for At {}

impl At {
    /// # Safety
    ///
    /// The latch still exists.
    unsafe fn latch(&self) -> &Latch {
        // SAFETY: by contract.
        unsafe { &*self.0 }
    }
}

#[test]
fn a_latch_that_is_dropped_takes_its_runnable_along() {
    loom::model(|| {
        let probe = TestTasks::new(1);
        let latch = Latch::new();
        latch.register(runnable(&probe)).expect("not set yet");
        drop(latch);
        assert_eq!((probe.runs(0), probe.lost(0)), (0, 1));
    });
}
