//! The transfer of leadership (C∀'s benchmark) comes to its end under every policy that promises fairness: a
//! leader waits, yielding or spinning, until every other task has seen that it leads, and those yield until
//! they see the next one. A scheduler that keeps running some of the yielding tasks and forgets others never
//! ends here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::policy::{Cforall, Go, Helping, Libfibre, LifoOrder, Negele, NegeleLocal, Policy, Tokio};
use warpweft::{Fifo, Lifo, Runtime, yield_now};
use warpweft_platform::atomic::spin_loop;

const TASKS: usize = 40;

/// What the leader does until all others have seen it.
#[derive(Clone, Copy)]
enum Leader {
    Yields,
    /// It stays in the middle of its step, and who has not seen it may lie behind it.
    Spins,
}

struct State {
    leader: Leader,
    /// When it begins; it does not take a minute, unless for ever.
    begins: Instant,
    /// How often it changes.
    transfers: usize,
    /// How many leaders there were before; the leader is seven times that number modulo the tasks.
    term: AtomicUsize,
    /// How many tasks have seen the present leader.
    seen: AtomicUsize,
}

impl State {
    fn check(&self) {
        assert!(
            self.begins.elapsed() < Duration::from_secs(60),
            "somebody does not see the leader"
        );
    }
}

async fn member(me: usize, state: Arc<State>) -> usize {
    let mut led = 0;
    let mut seen = None;
    loop {
        state.check();
        let term = state.term.load(Ordering::Acquire);
        if term == state.transfers {
            return led;
        }
        if term * 7 % TASKS == me {
            while state.seen.load(Ordering::Acquire) < TASKS - 1 {
                state.check();
                match state.leader {
                    Leader::Yields => yield_now().await,
                    Leader::Spins => spin_loop(),
                }
            }
            led += 1;
            state.seen.store(0, Ordering::Relaxed);
            state.term.store(term + 1, Ordering::Release);
        } else if seen != Some(term) {
            seen = Some(term);
            state.seen.fetch_add(1, Ordering::AcqRel);
        }
        yield_now().await;
    }
}

fn transfers<P: Policy + std::fmt::Display>(policy: impl Fn() -> P, leader: Leader, transfers: usize) {
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder()
            .workers(workers)
            .policy(policy())
            .build()
            .unwrap();
        let state = Arc::new(State {
            leader,
            begins: Instant::now(),
            transfers,
            term: AtomicUsize::new(0),
            seen: AtomicUsize::new(0),
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|me| runtime.spawn(member(me, Arc::clone(&state))))
            .collect();
        let led: usize = tasks.into_iter().map(|task| task.wait().unwrap()).sum();
        assert_eq!(led, transfers);
    }
}

fn leadership_goes_round<P: Policy + std::fmt::Display>(policy: impl Fn() -> P) {
    transfers(policy, Leader::Yields, 25);
}

fn a_leader_that_spins_is_seen<P: Policy + std::fmt::Display>(policy: impl Fn() -> P) {
    transfers(policy, Leader::Spins, 5);
}

/// Those whose workers look at each other's tasks only when they have none: what lies behind the leader is
/// taken by a compensating worker, or by a worker that hears of it.
#[test]
fn leaders_that_spin_are_seen_by_who_lies_behind_them() {
    a_leader_that_spins_is_seen(Fifo::new);
    a_leader_that_spins_is_seen(Lifo::new);
    a_leader_that_spins_is_seen(|| Go);
    a_leader_that_spins_is_seen(|| Tokio);
    a_leader_that_spins_is_seen(|| Libfibre);
    a_leader_that_spins_is_seen(Negele::new);
    a_leader_that_spins_is_seen(NegeleLocal::new);
    a_leader_that_spins_is_seen(Cforall::new);
}

#[test]
fn under_the_orders_of_the_house() {
    leadership_goes_round(Fifo::new);
    leadership_goes_round(Lifo::new);
}

#[test]
fn under_negele() {
    leadership_goes_round(Negele::new);
    leadership_goes_round(NegeleLocal::new);
}

#[test]
fn under_cforall() {
    leadership_goes_round(Cforall::new);
    leadership_goes_round(Helping::<LifoOrder>::new);
}

#[test]
fn under_go() {
    leadership_goes_round(|| Go);
}

#[test]
fn under_tokio() {
    leadership_goes_round(|| Tokio);
}

#[test]
fn under_libfibre() {
    leadership_goes_round(|| Libfibre);
}
