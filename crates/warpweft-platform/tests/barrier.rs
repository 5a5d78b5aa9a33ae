//! Dekker's test of the asymmetric barrier. It has its own process, because a refusal changes the barrier of
//! the whole process.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};
use warpweft_platform::barrier::{Asymmetric, refuse};
use warpweft_platform::clock;

/// Both threads begin a round at about the same time: in some of the rounds within the time of a store
/// buffer.
struct Gate {
    arrived: AtomicU32,
    over: AtomicBool,
}

impl Gate {
    fn new() -> Self {
        Self {
            arrived: AtomicU32::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Waits for the `n`th meeting, from 1 on. Gives up once the other thread has panicked.
    fn meet(&self, n: u32) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0;
        while self.arrived.load(Ordering::Acquire) < 2 * n {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            looks += 1;
            if looks > 1000 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        true
    }
}

/// Ends the other thread's wait when this one unwinds.
struct Over<'a>(&'a Gate);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// A store that must wait for this line keeps the later ones in the store buffer.
#[repr(align(128))]
struct CacheLine(AtomicU32);

/// Dekker's test, many times: if both sides read an old value, that is the lost wake-up. In round `refusal`
/// the kernel begins to refuse.
fn dekker(rounds: u32, refusal: Option<u32>) {
    let barrier = Asymmetric::new();
    let (hot, cold) = (CacheLine(AtomicU32::new(0)), CacheLine(AtomicU32::new(0)));
    let slow = CacheLine(AtomicU32::new(0));
    let by_hot = AtomicU32::new(0);
    let gate = Gate::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&gate);
            for round in 1..=rounds {
                if !gate.meet(2 * round - 1) {
                    return;
                }
                slow.0.store(round, Ordering::Relaxed);
                hot.0.store(round, Ordering::Relaxed);
                barrier.light();
                by_hot.store(cold.0.load(Ordering::Relaxed), Ordering::Relaxed);
                if !gate.meet(2 * round) {
                    return;
                }
            }
        });
        let _over = Over(&gate);
        for round in 1..=rounds {
            slow.0.store(0, Ordering::Relaxed);
            // The line is this thread's before the round begins.
            fence(Ordering::SeqCst);
            if refusal == Some(round) {
                refuse(true);
            }
            if !gate.meet(2 * round - 1) {
                return;
            }
            cold.0.store(round, Ordering::Relaxed);
            barrier.heavy();
            let by_cold = hot.0.load(Ordering::Relaxed);
            if !gate.meet(2 * round) {
                return;
            }
            let by_hot = by_hot.load(Ordering::Relaxed);
            assert!(
                by_hot == round || by_cold == round,
                "both sides missed each other in round {round}; refusal in {refusal:?}"
            );
        }
    });
}

/// One test, because each part changes the barrier of the whole process.
#[test]
fn one_of_two_sides_sees_the_other() {
    let given = Asymmetric::new().is_process_wide();
    dekker(20_000, None);
    assert_eq!(Asymmetric::new().is_process_wide(), given, "nothing was refused");

    // Refused in the middle, again and again.
    for n in 0..50 {
        refuse(false);
        assert_eq!(Asymmetric::new().is_process_wide(), given);
        dekker(200, Some(1 + n));
        assert!(!Asymmetric::new().is_process_wide(), "two fences from then on");
    }

    // Refused for long.
    dekker(20_000, None);
    let start = clock::now_ns();
    Asymmetric::new().heavy();
    assert!(
        clock::now_ns() - start < 5_000_000,
        "one period of grace is enough for a process"
    );

    each_refused_thread_waits_for_the_end();
}

/// Several cold threads are refused at the same time: none continues before the period of grace is over.
fn each_refused_thread_waits_for_the_end() {
    refuse(false);
    if !Asymmetric::new().is_process_wide() {
        return;
    }
    refuse(true);
    let took: Vec<_> = std::thread::scope(|scope| {
        let start = Instant::now();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    Asymmetric::new().heavy();
                    start.elapsed()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert!(
        took.iter().all(|took| *took >= Duration::from_millis(9)),
        "{took:?}"
    );
}
