//! The event count against a sequential model, and under real threads.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};
use warpweft_platform::barrier::{self, Asymmetric};
use warpweft_queue::EventCount;

const WORKERS: usize = 4;
const MAX_SEARCHING: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Working,
    Searching,
    Announced,
    Chosen,
}

#[derive(Debug, Clone, Copy)]
enum Op {
    /// The worker takes the next step that its state allows; the flag chooses between two ways.
    Step(usize, bool),
    NotifyOne,
    Notify(usize),
    NotifyOnly(usize),
    NotifyAll,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => (0..WORKERS, any::<bool>()).prop_map(|(w, flag)| Op::Step(w, flag)),
        2 => Just(Op::NotifyOne),
        1 => (0..WORKERS).prop_map(Op::Notify),
        1 => (0..WORKERS).prop_map(Op::NotifyOnly),
        1 => Just(Op::NotifyAll),
    ];
    prop::collection::vec(op, 0..120)
}

/// The behaviour that a single thread can observe, exactly.
struct Model([State; WORKERS]);

impl Model {
    fn count(&self, what: &[State]) -> usize {
        self.0.iter().filter(|state| what.contains(state)).count()
    }

    fn searching(&self) -> usize {
        self.count(&[State::Searching, State::Chosen])
    }

    fn choose(&mut self, w: Option<usize>) -> bool {
        let chosen = w.filter(|&w| self.0[w] == State::Announced);
        if let Some(w) = chosen {
            self.0[w] = State::Chosen;
        }
        chosen.is_some()
    }

    fn notify_one(&mut self) -> bool {
        let lowest = self.0.iter().position(|&state| state == State::Announced);
        self.searching() == 0 && self.choose(lowest)
    }

    fn step(&mut self, idle: &EventCount, w: usize, flag: bool) {
        self.0[w] = match (self.0[w], flag) {
            (State::Working, true) => {
                let room = self.searching() < MAX_SEARCHING;
                assert_eq!(idle.try_search(), room);
                if room { State::Searching } else { State::Working }
            }
            (State::Searching, true) => {
                assert_eq!(idle.found(), self.searching() == 1);
                State::Working
            }
            (State::Working | State::Searching, false) => {
                idle.prepare(w, self.0[w] == State::Searching);
                State::Announced
            }
            (State::Announced, _) | (State::Chosen, true) => {
                idle.cancel(w);
                State::Searching
            }
            (State::Chosen, false) => {
                idle.park(w);
                State::Searching
            }
        };
    }
}

proptest! {
    /// Every result and both counts are those of the sequential model, after every step.
    #[test]
    fn agrees_with_the_model(ops in ops()) {
        let idle = EventCount::new(WORKERS, MAX_SEARCHING, Asymmetric::new());
        let mut model = Model([State::Working; WORKERS]);
        for op in ops {
            match op {
                Op::Step(w, flag) => model.step(&idle, w, flag),
                Op::NotifyOne => prop_assert_eq!(idle.notify_one(), model.notify_one()),
                Op::Notify(w) => prop_assert_eq!(idle.notify(w), model.choose(Some(w)) || model.notify_one()),
                Op::NotifyOnly(w) => prop_assert_eq!(idle.notify_only(w), model.choose(Some(w))),
                Op::NotifyAll => {
                    idle.notify_all();
                    (0..WORKERS).for_each(|w| { model.choose(Some(w)); });
                }
            }
            prop_assert_eq!(idle.snapshot(), (model.searching(), model.count(&[State::Announced])));
        }
    }
}

#[test]
#[should_panic(expected = "needs a worker")]
fn no_workers_are_refused() {
    let _ = EventCount::new(0, 1, Asymmetric::new());
}

#[test]
#[should_panic(expected = "nobody may search")]
fn no_searchers_are_refused() {
    let _ = EventCount::new(1, 0, Asymmetric::new());
}

/// Some queues of work and an idle protocol around them, as in a pool.
struct Pool {
    idle: EventCount,
    work: [AtomicUsize; 3],
    stop: AtomicBool,
}

impl Pool {
    fn take(&self) -> bool {
        self.work.iter().any(|lane| {
            lane.load(Ordering::Relaxed) > 0
                && lane
                    .fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| n.checked_sub(1))
                    .is_ok()
        })
    }

    fn run(&self, w: usize) {
        let mut searching = false;
        loop {
            if self.take() {
                if std::mem::take(&mut searching) && self.idle.found() {
                    self.idle.notify_one();
                }
                continue;
            }
            if !searching && self.idle.try_search() {
                searching = true;
                continue;
            }
            self.idle.prepare(w, searching);
            let stop = self.stop.load(Ordering::Relaxed);
            if stop || self.work.iter().any(|lane| lane.load(Ordering::Relaxed) > 0) {
                self.idle.cancel(w);
            } else {
                self.idle.park(w);
            }
            searching = true;
            if stop {
                if self.idle.found() {
                    self.idle.notify_one();
                }
                return;
            }
        }
    }
}

/// Waits for `condition`. A lost wake-up ends here, with the counts; nothing inside the protocol has a
/// time-out.
fn wait_for(pool: &Pool, otherwise: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        let snapshot = pool.idle.snapshot();
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{otherwise}: (searching, sleeping) = {snapshot:?}"
        );
        thread::yield_now();
    }
}

/// Returns how often the threads whose names start with `prefix` gave up the CPU voluntarily.
fn voluntary_switches(prefix: &str) -> Option<(usize, u64)> {
    let field = |status: &str, name: &str| {
        status
            .lines()
            .find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches(':').trim().to_owned()))
    };
    let mut sum = (0, 0);
    for task in fs::read_dir("/proc/self/task").ok()? {
        // A thread of another test may end while we read.
        let Ok(status) = fs::read_to_string(task.ok()?.path().join("status")) else {
            continue;
        };
        if field(&status, "Name").is_some_and(|name| name.starts_with(prefix)) {
            sum.0 += 1;
            sum.1 += field(&status, "voluntary_ctxt_switches")?.parse::<u64>().ok()?;
        }
    }
    Some(sum)
}

/// Returns true if the threads with this name spend 300 ms without a single context switch.
///
/// On a busy machine the last of them may still be on its way to its parker, so there are several tries. A
/// thread that polls now and then fails all of them.
fn falls_silent(prefix: &str, threads: usize) -> bool {
    (0..20).any(|_| {
        // Systems without /proc do not report it.
        let Some(before) = voluntary_switches(prefix) else {
            return true;
        };
        assert_eq!(before.0, threads);
        thread::sleep(Duration::from_millis(300));
        voluntary_switches(prefix) == Some(before)
    })
}

/// Short bursts of pushes against workers that go to sleep after each; then nothing moves any more.
///
/// Each pusher waits until its burst is gone before the next, so no later push hides a lost wake-up.
fn stress(name: &str, workers: usize) {
    let pool = Arc::new(Pool {
        idle: EventCount::new(workers, (workers / 2).max(1), Asymmetric::new()),
        work: Default::default(),
        stop: AtomicBool::new(false),
    });
    let sleepers: Vec<_> = (0..workers)
        .map(|w| {
            let pool = pool.clone();
            thread::Builder::new()
                .name(format!("{name}-{w}"))
                .spawn(move || pool.run(w))
                .unwrap()
        })
        .collect();
    let bursts: usize = thread::scope(|scope| {
        let pushers: Vec<_> = pool
            .work
            .iter()
            .map(|lane| scope.spawn(|| push_bursts(&pool, lane, workers)))
            .collect();
        pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum()
    });
    assert!(bursts >= 100, "only {bursts} bursts: this was no stress");
    wait_for(&pool, "somebody does not go to sleep", || {
        pool.idle.snapshot() == (0, workers)
    });

    assert!(
        falls_silent(&format!("{name}-"), workers),
        "an idle pool is idle: no worker wakes up to look around"
    );

    pool.stop.store(true, Ordering::Release);
    pool.idle.notify_all();
    for sleeper in sleepers {
        sleeper.join().unwrap();
    }
    assert_eq!(pool.idle.snapshot(), (0, 0));
}

/// Returns the number of bursts.
fn push_bursts(pool: &Pool, lane: &AtomicUsize, workers: usize) -> usize {
    let start = Instant::now();
    let mut bursts = 0;
    while start.elapsed() < Duration::from_millis(350) {
        for i in 0..=bursts % 3 {
            lane.fetch_add(1, Ordering::Release);
            if i == 1 {
                pool.idle.notify(bursts % workers)
            } else {
                pool.idle.notify_one()
            };
        }
        wait_for(pool, "work lies there and everybody sleeps", || {
            lane.load(Ordering::Relaxed) == 0
        });
        bursts += 1;
        if bursts % 16 == 0 {
            // Now and then each thread gets the time to fall asleep.
            thread::sleep(Duration::from_micros(100));
        }
    }
    bursts
}

/// One test, because the last two parts change the barrier of the whole process.
#[test]
fn no_wake_up_is_lost() {
    stress("one", 1);
    stress("wide", 4);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(150));
            barrier::refuse(true);
        });
        stress("refused", 4);
    });
    assert!(
        !Asymmetric::new().is_process_wide(),
        "a worker has gone to sleep since"
    );
    stress("fence", 4);
}
