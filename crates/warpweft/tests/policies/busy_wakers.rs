//! The program of tokio#4730: a task wakes another one and then does not let go of its worker. There it froze
//! whatever lay behind it; here everybody else goes on.
//!
//! Each run is another program, made of its seed. `WARPWEFT_SEEDS` says how many (default 100);
//! `cargo xtask deep` takes ten thousand, with random delays. `WARPWEFT_SEED` is the first: to see one again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use warpweft::sync::{Notify, channel, oneshot};
use warpweft::{Io, PolicySpec, Runtime, fiber, join, spawn, spawn_job, time, yield_now};

/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The numbers that make a program (splitmix64).
struct Seeds(u64);

impl Seeds {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Does not let go of its worker until somebody says so.
fn hog(over: &AtomicBool, sleeps: bool) {
    while !over.load(Ordering::Relaxed) {
        if sleeps {
            thread::sleep(Duration::from_micros(50));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Wakes or spawns a task that is behind it then, and hogs.
async fn wakes_and_hogs(kind: u64, over: Arc<AtomicBool>, woken: Arc<AtomicUsize>, sleeps: bool) {
    let count = move || {
        woken.fetch_add(1, Ordering::Relaxed);
    };
    let waits = match kind {
        0 => {
            let (there, back) = channel::unbounded();
            let waits = spawn(async move { back.recv().await.map(|()| count()).expect("a value") });
            // It is asleep by now, or about to be, if there is somebody to run it.
            yield_now().await;
            there.send(()).await.expect("a receiver");
            waits
        }
        1 => {
            let (there, back) = oneshot::channel();
            let waits = spawn(async move { back.await.map(|()| count()).expect("a value") });
            yield_now().await;
            there.send(()).expect("a receiver");
            waits
        }
        2 => {
            let wakeup = Arc::new(Notify::new());
            let notified = Arc::clone(&wakeup);
            let waits = spawn(async move {
                notified.notified().await;
                count();
            });
            yield_now().await;
            wakeup.notify_one();
            waits
        }
        3 => spawn_job(count),
        _ => spawn(async move {
            yield_now().await;
            count();
        }),
    };
    hog(&over, sleeps);
    waits.await.expect("no panic");
}

fn program(seed: u64) {
    let mut seeds = Seeds(seed);
    let workers = 1 + seeds.below(4) as usize;
    let policy = seeds.one_of(&[
        "fifo",
        "lifo",
        "lifo+steal=one",
        "fifo+overflow=locked+capacity=16",
    ]);
    let runtime = Runtime::builder()
        .workers(workers)
        .policy_spec(policy.parse::<PolicySpec>().expect("a policy"))
        .io(seeds.one_of(&[Io::Inline, Io::Thread]))
        .stuck_after(Some(Duration::from_micros(200 + seeds.below(2000))))
        .build()
        .expect("threads");
    let over = Arc::new(AtomicBool::new(false));
    let woken = Arc::new(AtomicUsize::new(0));
    // Others before, between and behind those that hog.
    let mut others = Vec::new();
    let mut more = |seeds: &mut Seeds| {
        for _ in 0..seeds.below(8) {
            let length = 1 + seeds.below(5);
            others.push(match seeds.below(5) {
                0 => runtime.spawn(async move {
                    for _ in 0..length {
                        yield_now().await;
                    }
                }),
                1 => runtime.spawn(async move { time::sleep(Duration::from_micros(100 * length)).await }),
                2 => runtime.spawn_job(move || {
                    let (one, other) = join(|| length, || spawn_job(move || length).wait());
                    assert_eq!(one, other.expect("no panic"));
                }),
                // One that has started waits for its thread, which may be a hog's by then: so it does not
                // wait.
                3 => runtime.spawn_fiber(|| drop(fiber::spawn(|| ()))),
                _ => runtime.spawn(async move {
                    let inner = spawn(async move { length });
                    assert_eq!(inner.await.expect("no panic"), length);
                }),
            });
        }
    };
    more(&mut seeds);
    let hogs = 1 + seeds.below(workers as u64) as usize;
    let mut hogging = Vec::new();
    for _ in 0..hogs {
        let (over, woken) = (Arc::clone(&over), Arc::clone(&woken));
        let (kind, sleeps) = (seeds.below(5), seeds.below(2) == 0);
        hogging.push(runtime.spawn(wakes_and_hogs(kind, over, woken, sleeps)));
        more(&mut seeds);
    }
    for other in others {
        other.wait().expect("no panic");
    }
    // Each was woken, or spawned, by one that hogs still.
    while woken.load(Ordering::Relaxed) < hogs {
        thread::sleep(Duration::from_micros(100));
    }
    over.store(true, Ordering::Relaxed);
    for hogging in hogging {
        hogging.wait().expect("no panic");
    }
}

#[test]
fn a_task_that_hogs_its_worker_freezes_nobody() {
    let first = number("WARPWEFT_SEED", 0);
    for seed in first..first + number("WARPWEFT_SEEDS", 100) {
        let (end, ended) = mpsc::channel::<()>();
        let run = thread::spawn(move || {
            let _end = end;
            program(seed);
        });
        // It says nothing: the end of the thread closes the channel.
        let heard = ended.recv_timeout(PATIENCE);
        assert_eq!(
            heard,
            Err(mpsc::RecvTimeoutError::Disconnected),
            "seed {seed} hangs: WARPWEFT_SEED={seed} WARPWEFT_SEEDS=1"
        );
        assert!(run.join().is_ok(), "seed {seed} panicked");
    }
}
