//! The last task of a pool's policy against the end of the pool, under loom.
#![cfg(warpweft_loom)]

#[allow(dead_code, reason = "the pool asks more of it than these models")]
#[path = "../src/pool/ledger.rs"]
mod ledger;

use ledger::Ledger;
use loom::sync::Arc;
use loom::thread;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::cell::UnsafeCell;

/// A pool: the threads that release a task read it, and the last one frees it.
struct Pool {
    ledger: Ledger,
    alive: UnsafeCell<bool>,
    freed: AtomicUsize,
}

// SAFETY: the models show that accesses to `alive` do not race.
unsafe impl Sync for Pool {}
// SAFETY: a plain value.
unsafe impl Send for Pool {}

impl Pool {
    fn touch(&self) {
        let alive = self.alive.with(|alive| {
            // SAFETY: loom checks that nothing writes meanwhile.
            unsafe { *alive }
        });
        assert!(alive, "a token met a pool that was freed");
    }

    fn free(&self) {
        self.alive.with_mut(|alive| {
            // SAFETY: loom checks that nothing else touches it.
            unsafe { *alive = false };
        });
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    fn drop_task_ref(&self) {
        self.touch();
        if self.ledger.release_one() {
            self.free();
        }
    }
}

/// Lets `droppers` threads drop a task each while the pool ends.
fn end_against(droppers: usize, orphaned: usize) {
    loom::model(move || {
        let pool = Arc::new(Pool {
            ledger: Ledger::new(),
            alive: UnsafeCell::new(true),
            freed: AtomicUsize::new(0),
        });
        let threads: Vec<_> = (0..droppers + orphaned)
            .map(|_| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.drop_task_ref())
            })
            .collect();
        pool.touch();
        if pool.ledger.settle(droppers as i64, orphaned) == 0 {
            pool.free();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(pool.freed.load(Ordering::Relaxed), 1, "the pool goes once");
    });
}

#[test]
fn the_pool_goes_with_the_last_task_ref() {
    end_against(1, 0);
    end_against(2, 0);
}

#[test]
fn the_pool_goes_with_the_last_shard() {
    end_against(1, 1);
}
