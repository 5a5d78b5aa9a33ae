//! The transfer of leadership (C∀'s benchmark) comes to its end under every policy that promises fairness: a leader waits,
//! yielding, until every other task has seen that it leads, and those yield until they see the next one. A scheduler that keeps
//! running some of the yielding tasks and forgets others never ends here.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use warpweft::policy::{Cforall, Go, Helping, Libfibre, LifoOrder, Negele, NegeleLocal, Policy, Tokio};
use warpweft::{Fifo, Lifo, Runtime, yield_now};

const TASKS: usize = 40;
const TRANSFERS: usize = 25;

#[derive(Default)]
struct State {
    /// How many leaders there were before; the leader is that number modulo the tasks.
    term: AtomicUsize,
    /// How many tasks have seen the present leader.
    seen: AtomicUsize,
}

async fn member(me: usize, state: Arc<State>) -> usize {
    let mut led = 0;
    let mut seen = None;
    loop {
        let term = state.term.load(Ordering::Acquire);
        if term == TRANSFERS {
            return led;
        }
        if term % TASKS == me {
            while state.seen.load(Ordering::Acquire) < TASKS - 1 {
                yield_now().await;
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

fn leadership_goes_round<P: Policy + std::fmt::Display>(policy: impl Fn() -> P) {
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder()
            .workers(workers)
            .policy(policy())
            .build()
            .unwrap();
        let state = Arc::new(State::default());
        let tasks: Vec<_> = (0..TASKS)
            .map(|me| runtime.spawn(member(me, Arc::clone(&state))))
            .collect();
        let led: usize = tasks.into_iter().map(|task| task.wait().unwrap()).sum();
        assert_eq!(led, TRANSFERS);
    }
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
