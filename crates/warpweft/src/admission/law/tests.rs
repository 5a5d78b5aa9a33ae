//! The law in virtual time: by hand, and before a queue with workers whose arrivals and tasks are random.

use super::*;
use std::collections::VecDeque;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const TARGET: u64 = 5 * MS;
const INTERVAL: u64 = 100 * MS;
/// For how long a simulated queue is measured.
const TIME: u64 = 400 * MS;

fn law() -> Law {
    Law::new(TARGET, INTERVAL)
}

/// A law whose class is overloaded: in a whole interval the mean delay was above the target. None waits, and
/// one starts each millisecond.
fn overloaded() -> (Law, u64) {
    let mut law = law();
    let mut now = MS;
    for _ in 0..40 {
        assert_eq!(law.ask(now), Ok(()));
    }
    let asked = now;
    // One starts each millisecond, and another one comes. So the mean delay is above the target from the
    // eleventh on: it is that of some before.
    for n in 0..120 {
        now += MS;
        assert_eq!(law.is_overloaded(), n > 10 + 100, "{n}");
        law.start(asked, now, false);
        if n < 80 {
            assert_eq!(law.ask(now), Ok(()), "{n}");
        }
    }
    assert!(law.is_overloaded());
    assert_eq!(law.waiting(), 0);
    (law, now)
}

#[test]
fn a_burst_that_is_worked_off_is_let_in() {
    let mut law = law();
    for n in 0..10 {
        let asked = n * 1000 * MS + MS;
        for _ in 0..90 {
            assert_eq!(law.ask(asked), Ok(()));
        }
        for at in 1..=90 {
            assert_eq!(law.start(asked, asked + at * MS, true), Start::Run);
        }
        assert!(
            !law.is_overloaded(),
            "an interval has not passed above the target"
        );
    }
}

/// Twenty come at once, and start after that time.
fn delayed(law: &mut Law, at: u64, delay: u64) {
    (0..20).for_each(|_| assert_eq!(law.ask(at), Ok(())));
    (0..20).for_each(|_| assert_eq!(law.start(at, at + delay, false), Start::Run));
}

/// Each comes while the one before it runs, and nobody waits at that time.
#[test]
fn the_time_between_starts_is_known_where_only_one_waits() {
    let (mut law, mut now) = overloaded();
    let task = 24 * MS / 10;
    law.ask(now).expect("none waits");
    law.start(now, now, false);
    for _ in 0..30 {
        let asked = now + task / 2;
        now += task;
        law.ask(asked).expect("none waits");
        law.start(asked, now, false);
    }
    assert!(law.is_overloaded());
    let admitted = (0..10).take_while(|_| law.ask(now + MS).is_ok()).count();
    assert_eq!(admitted, 3, "three of them take longer than the target");
}

#[test]
fn delays_within_the_target_begin_the_interval_anew() {
    let mut law = law();
    delayed(&mut law, MS, 10 * MS);
    delayed(&mut law, 50 * MS, 10 * MS);
    delayed(&mut law, 90 * MS, TARGET / 2);
    delayed(&mut law, 110 * MS, 10 * MS);
    assert!(!law.is_overloaded());
    delayed(&mut law, 209 * MS, 10 * MS);
    assert!(!law.is_overloaded());
    delayed(&mut law, 210 * MS, 10 * MS);
    assert!(law.is_overloaded());
}

#[test]
fn some_that_start_at_once_do_not_hide_the_others() {
    let mut law = law();
    for at in 1..150 {
        assert_eq!(law.ask(at * MS), Ok(()));
        law.start((at * MS).saturating_sub(40 * MS), at * MS, false);
        // One of three workers has nothing to do.
        if at % 2 == 0 {
            assert_eq!(law.ask(at * MS), Ok(()));
            law.start(at * MS, at * MS, false);
        }
    }
    assert!(law.is_overloaded());
}

#[test]
fn as_many_may_wait_as_start_within_the_target() {
    let (mut law, now) = overloaded();
    let answers: Vec<_> = (0..8).map(|_| law.ask(now + MS / 2)).collect();
    let (admitted, refused) = answers.split_at(6);
    assert!(admitted.iter().all(Result::is_ok), "{answers:?}");
    // Six wait, and one starts each millisecond.
    for wait in refused {
        let wait = wait.expect_err("the target is five milliseconds");
        assert!((5 * MS..7 * MS).contains(&wait), "{wait}");
    }
    assert_eq!(law.waiting(), 6);
}

#[test]
fn who_comes_while_nobody_waits_is_let_in() {
    let (mut law, mut now) = overloaded();
    for _ in 0..50 {
        // Each waits for long, so even a single one is above the target.
        assert_eq!(law.ask(now), Ok(()));
        assert!(law.ask(now + 50 * MS).is_err());
        now += 60 * MS;
        assert_eq!(law.start(now - 60 * MS, now, true), Start::Run);
        assert!(law.is_overloaded());
    }
}

#[test]
fn a_late_one_is_shed_unless_it_is_the_last() {
    let (mut law, now) = overloaded();
    for _ in 0..4 {
        assert_eq!(law.ask(now), Ok(()));
    }
    assert_eq!(
        law.start(now, now + 2 * TARGET, true),
        Start::Run,
        "twice the target"
    );
    let late = now + 2 * TARGET + 1;
    assert_eq!(law.start(now, late, true), Start::Late(2 * TARGET + 1));
    assert_eq!(law.start(now, late, false), Start::Run, "it may not be shed");
    assert_eq!(law.start(now, late, true), Start::Run, "the last one");
    assert_eq!(law.waiting(), 0);
}

#[test]
fn a_stall_does_not_shorten_the_line_for_long() {
    let (mut law, now) = overloaded();
    assert_eq!(law.ask(now), Ok(()));
    let now = now + 90 * MS;
    assert_eq!(law.start(now - 90 * MS, now, true), Start::Run);
    // It was six before.
    let admitted = (0..8).filter(|_| law.ask(now).is_ok()).count();
    assert!(admitted >= 4, "{admitted}");
}

#[test]
fn nobody_is_late_without_an_overload() {
    let mut law = law();
    for _ in 0..3 {
        assert_eq!(law.ask(0), Ok(()));
    }
    assert_eq!(law.start(0, 90 * MS, true), Start::Run);
    assert!(!law.is_overloaded());
}

#[test]
fn workers_that_start_nothing_are_an_overload() {
    let mut law = law();
    assert_eq!(law.ask(MS), Ok(()));
    assert_eq!(law.ask(MS + TARGET + INTERVAL / 2), Ok(()));
    let just = MS + TARGET + INTERVAL;
    assert_eq!(law.clone().ask(just - 1), Ok(()));
    assert_eq!(law.ask(just), Err(TARGET + INTERVAL));
    assert!(law.is_overloaded());
    // They continue: the one behind is in time, and the state ends with the refusals.
    let last = just + MS;
    assert_eq!(law.start(MS, last, true), Start::Late(last - MS));
    assert_eq!(law.start(just, last, true), Start::Run);
    assert_eq!(law.ask(last + INTERVAL - 1), Ok(()));
    assert!(law.is_overloaded());
    assert_eq!(law.ask(last + INTERVAL), Ok(()));
    assert!(!law.is_overloaded());
}

#[test]
fn an_idle_time_is_not_above_the_target() {
    let mut law = law();
    // Each second twenty come that wait for 10 ms: nothing says that it was so meanwhile.
    for second in 0..5 {
        delayed(&mut law, second * 1000 * MS, 10 * MS);
        assert!(!law.is_overloaded(), "{second}");
    }
}

#[test]
fn who_was_forgotten_does_not_wait() {
    let (mut law, now) = overloaded();
    let mut admitted = 0;
    while law.ask(now).is_ok() {
        admitted += 1;
    }
    law.forget();
    assert_eq!(law.waiting(), admitted - 1);
    assert_eq!(law.ask(now), Ok(()));
    (0..2 * admitted).for_each(|_| law.forget());
    assert_eq!(law.waiting(), 0);
}

#[test]
fn times_at_the_ends_of_their_range_do_no_harm() {
    for (target, interval) in [(1, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
        let mut law = Law::new(target, interval);
        for now in [u64::MAX, 0, 1, u64::MAX, u64::MAX - 1, 0] {
            for asked in [0, u64::MAX] {
                let _ = law.ask(now);
                let _ = law.ask(asked);
                law.start(asked, now, true);
                law.start(now, asked, true);
            }
        }
    }
}

/// What a simulated time has come to.
#[derive(Debug, Default)]
struct Outcome {
    ran: u64,
    refused: u64,
    shed: u64,
    /// The delays of those that ran.
    delays: Vec<u64>,
    /// For how long workers were busy with those that ran.
    busy: u64,
    most_waiting: u64,
}

impl Outcome {
    fn delay_of(&mut self, share: f64) -> u64 {
        self.delays.sort_unstable();
        let at = (self.delays.len() as f64 * share) as usize;
        self.delays[at.min(self.delays.len() - 1)]
    }
}

/// A first-in-first-out queue with workers, behind a law.
struct Queue {
    law: Law,
    sheds: bool,
    now: u64,
    waiting: VecDeque<u64>,
    /// When each worker is free.
    free: Vec<u64>,
    random: fastrand::Rng,
}

impl Queue {
    fn new(law: Law, workers: usize, seed: u64) -> Self {
        Self {
            law,
            sheds: true,
            now: MS,
            waiting: VecDeque::new(),
            free: vec![0; workers],
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// A time around that mean: equally distributed, or exponentially.
    fn around(&mut self, mean: f64, is_exponential: bool) -> u64 {
        let random = self.random.f64();
        let factor = if is_exponential {
            -(1.0 - random).ln()
        } else {
            0.5 + random
        };
        (mean * factor) as u64
    }

    /// Lets tasks come for a time: one each `gap`, each takes `task`, both on average.
    fn run(&mut self, time: u64, gap: f64, task: f64, is_exponential: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let end = self.now + time;
        let mut next = self.now + self.around(gap, is_exponential);
        while self.now < end {
            let worker = (0..self.free.len()).min_by_key(|&worker| self.free[worker]);
            let worker = worker.expect("there is one");
            if let Some(&asked) = self.waiting.front()
                && self.free[worker].max(asked) <= next
            {
                self.waiting.pop_front();
                self.now = self.now.max(self.free[worker]);
                match self.law.start(asked, self.now, self.sheds) {
                    Start::Run => {
                        let takes = self.around(task, is_exponential);
                        self.free[worker] = self.now + takes;
                        outcome.ran += 1;
                        outcome.busy += takes;
                        outcome.delays.push(self.now - asked);
                    }
                    Start::Late(delay) => {
                        assert_eq!(delay, self.now - asked);
                        outcome.shed += 1;
                    }
                }
            } else {
                self.now = next;
                next += self.around(gap, is_exponential);
                match self.law.ask(self.now) {
                    Ok(()) => self.waiting.push_back(self.now),
                    Err(_) => outcome.refused += 1,
                }
            }
            assert_eq!(self.law.waiting(), self.waiting.len() as u64);
            outcome.most_waiting = outcome.most_waiting.max(self.law.waiting());
        }
        outcome
    }
}

/// Calls `check` with workers, the mean time of a task, whether times are exponential, and a seed.
fn for_many(check: impl Fn(usize, f64, bool, u64)) {
    for seed in 0..2 {
        for workers in [1, 2, 8] {
            for task in [100 * US, MS, 2 * MS] {
                for is_exponential in [false, true] {
                    check(workers, task as f64, is_exponential, seed);
                }
            }
        }
    }
}

#[test]
fn under_any_overload_workers_stay_busy_and_delays_near_the_target() {
    for_many(|workers, task, is_exponential, seed| {
        let text =
            format!("{workers} workers, tasks of {task} ns, exponential {is_exponential}, seed {seed}");
        let mut queue = Queue::new(law(), workers, seed);
        for factor in [1.5, 3.0, 10.0] {
            let gap = task / workers as f64 / factor;
            // The first interval, and what was let in meanwhile.
            queue.run(2 * INTERVAL, gap, task, is_exponential);
            let mut outcome = queue.run(TIME, gap, task, is_exponential);
            let used = outcome.busy as f64 / TIME as f64 / workers as f64;
            let delay = outcome.delay_of(0.99);
            // Of tasks that take two fifths of the target, few may wait, and sometimes none does.
            let least = if task > MS as f64 { 0.8 } else { 0.9 };
            assert!(used > least, "{text}, {factor} times: {used} used");
            assert!(
                delay <= 2 * TARGET + 2 * task as u64,
                "{text}, {factor} times: {delay}"
            );
            let median = outcome.delay_of(0.5);
            assert!(median <= TARGET * 3 / 2, "{text}, {factor} times: {median}");
            let limit = 3 * TARGET * workers as u64 / task as u64 + 2;
            assert!(outcome.most_waiting <= limit, "{text}: {}", outcome.most_waiting);
            assert!(outcome.refused > 4 * outcome.shed, "{text}: {outcome:?}");
        }
    });
}

#[test]
fn what_the_workers_can_do_is_not_refused() {
    for_many(|workers, task, is_exponential, seed| {
        let mut queue = Queue::new(law(), workers, seed);
        let gap = task / workers as f64 / 0.5;
        let outcome = queue.run(TIME, gap, task, is_exponential);
        assert_eq!((outcome.refused, outcome.shed), (0, 0), "{workers} {task} {seed}");
    });
}

#[test]
fn an_overload_ends_soon_after_its_cause() {
    for_many(|workers, task, is_exponential, seed| {
        let mut queue = Queue::new(law(), workers, seed);
        let gap = task / workers as f64;
        queue.run(500 * MS, gap / 5.0, task, is_exponential);
        assert!(queue.law.is_overloaded());
        queue.run(4 * INTERVAL, gap / 0.5, task, is_exponential);
        let outcome = queue.run(TIME, gap / 0.5, task, is_exponential);
        assert_eq!((outcome.refused, outcome.shed), (0, 0), "{workers} {task} {seed}");
    });
}

#[test]
fn without_shedding_the_first_backlog_is_worked_off_and_the_rest_is_in_time() {
    for_many(|workers, task, is_exponential, seed| {
        let mut queue = Queue::new(law(), workers, seed);
        queue.sheds = false;
        let gap = task / workers as f64 / 3.0;
        queue.run(10 * INTERVAL, gap, task, is_exponential);
        let mut outcome = queue.run(TIME, gap, task, is_exponential);
        assert_eq!(outcome.shed, 0);
        let delay = outcome.delay_of(0.99);
        assert!(
            delay <= 4 * TARGET + 2 * task as u64,
            "{workers} {task} {seed}: {delay}"
        );
        let used = outcome.busy as f64 / TIME as f64 / workers as f64;
        let least = if task > MS as f64 { 0.8 } else { 0.9 };
        assert!(used > least, "{workers} {task} {seed}: {used}");
    });
}
