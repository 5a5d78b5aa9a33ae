//! Every interleaving of few threads that leave, wake, steal and take over deques.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::loom::model;
use warpweft_queue::{Active, Deques, StealOutcome};

type Task = NonZeroUsize;

fn task(n: usize) -> Task {
    NonZeroUsize::new(n).unwrap()
}

/// Two workers with deques of two tasks.
fn two() -> (Arc<Deques<Task>>, Active<Task>, Active<Task>) {
    let (deques, mut workers) = Deques::new(2, 2).unwrap();
    let (second, first) = (workers.pop().unwrap(), workers.pop().unwrap());
    (Arc::new(deques), first, second)
}

/// Worker `who` leaves a deque with these tasks in set `to`.
fn left(deques: &Deques<Task>, who: &mut Active<Task>, tasks: &[usize], to: usize) -> u64 {
    tasks.iter().for_each(|&n| deques.push(who, task(n)).unwrap());
    deques.suspend(who, to)
}

fn task_of(steal_from: StealOutcome<Task>) -> Option<usize> {
    match steal_from {
        StealOutcome::Nothing | StealOutcome::Lost => None,
        StealOutcome::Stolen { task, .. } | StealOutcome::TakenOver { task } => Some(task.get()),
    }
}

/// Checks that nothing is left, and nothing waits.
fn rest(deques: &Deques<Task>, who: &mut Active<Task>) -> Vec<usize> {
    let mut all = Vec::new();
    loop {
        all.extend(std::iter::from_fn(|| who.pop()).map(Task::get));
        match deques.find(who) {
            Some((_, steal_from)) => all.extend(task_of(steal_from)),
            None => break,
        }
    }
    assert_eq!(deques.stats(), [], "a deque is left over");
    all
}

fn assert_all(mut all: Vec<usize>, tasks: usize) {
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter(1..=tasks));
}

/// The last task is stolen while the one that the deque waits for is woken: is the deque still in a set?
#[test]
fn a_wake_while_a_thief_empties_the_deque() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1], 1);
        let shared = Arc::clone(&deques);
        let waker = thread::spawn(move || shared.resume(word, task(2), 0).unwrap());
        let mut all = Vec::from_iter(task_of(deques.steal_from(&mut second, 1, |_| 0)));
        waker.join().unwrap();
        all.extend(rest(&deques, &mut second));
        assert_all(all, 2);
    });
}

/// The deque changes its set while the task that it waits for is woken.
#[test]
fn a_wake_while_the_deque_moves() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1], 1);
        let shared = Arc::clone(&deques);
        let waker = thread::spawn(move || shared.resume(word, task(2), 0).unwrap());
        assert!(deques.rebalance(0, 1, |_| 0));
        waker.join().unwrap();
        assert_eq!(deques.stats().len(), 1, "the same deque, wherever it is");
        assert_eq!(
            rest(&deques, &mut second),
            [1, 2],
            "the woken task is at the bottom"
        );
    });
}

/// A second wake of a task does not reach the deque.
#[test]
fn a_second_wake_finds_no_deque() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1], 1);
        let shared = Arc::clone(&deques);
        let waker = thread::spawn(move || shared.resume(word, task(2), 0).is_ok());
        let mine = deques.resume(word, task(2), 1).is_ok();
        let other = waker.join().unwrap();
        assert!(mine != other, "both were first, or neither");
        assert_all(rest(&deques, &mut second), 2);
    });
}

/// The same with a deque that is in no set, and a new one that is suspended in its place.
#[test]
fn a_second_wake_does_not_reach_a_later_deque() {
    model(2, || {
        let (deques, mut first, mut second) = two();
        let word = deques.suspend(&mut first, 0);
        let shared = Arc::clone(&deques);
        let waker = thread::spawn(move || shared.resume(word, task(1), 0).is_ok());
        let mine = deques.resume(word, task(1), 1).is_ok();
        let later = deques.suspend(&mut first, 0);
        let other = waker.join().unwrap();
        assert!(mine != other, "both were first, or neither");
        assert!(deques.resume(later, task(2), 0).is_ok(), "the later one waits");
        assert_all(rest(&deques, &mut second), 2);
    });
}

/// One of two thieves takes over the deque, the other takes a task of it, before or after.
#[test]
fn two_muggers() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1, 2], 1);
        deques.resume(word, task(3), 0).unwrap();
        let mut all = Vec::from_iter(task_of(deques.steal_from(&mut first, 1, |_| 0)));
        let shared = Arc::clone(&deques);
        let other = thread::spawn(move || {
            let steal_from = shared.steal_from(&mut second, 1, |_| 0);
            let all = Vec::from_iter(second.pop().map(Task::get));
            (steal_from, all, second)
        });
        let mine = deques.steal_from(&mut first, 1, |_| 0);
        all.extend(first.pop().map(Task::get));
        let (other, others, mut second) = other.join().unwrap();
        let muggings = [mine, other]
            .into_iter()
            .filter(|steal_from| matches!(steal_from, StealOutcome::TakenOver { .. }));
        assert_eq!(muggings.count(), 1);
        all.extend(task_of(mine).into_iter().chain(task_of(other)).chain(others));
        all.extend(rest(&deques, &mut first));
        all.extend(rest(&deques, &mut second));
        assert_all(all, 3);
    });
}

/// A worker leaves its deque while a thief steals from it, and a task is pushed for the next one.
#[test]
fn a_thief_while_the_owner_leaves() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        deques.push(&mut first, task(1)).unwrap();
        deques.push(&mut first, task(2)).unwrap();
        let shared = Arc::clone(&deques);
        let thief = thread::spawn(move || {
            let steal_from = shared.steal_from(&mut second, 0, |_| 0);
            (task_of(steal_from), second)
        });
        let mut all = Vec::from_iter(first.pop().map(Task::get));
        let word = deques.suspend(&mut first, 1);
        assert_eq!(first.pop(), None, "it has left its deque");
        deques.push(&mut first, task(3)).unwrap();
        let (stolen, mut second) = thief.join().unwrap();
        all.extend(stolen);
        deques.resume(word, task(4), 0).unwrap();
        all.extend(rest(&deques, &mut first));
        all.extend(rest(&deques, &mut second));
        assert_all(all, 4);
    });
}

/// A deque that moves from a set not yet seen to one seen already is not overlooked.
#[test]
fn the_last_look_while_a_deque_moves() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1], 1);
        let shared = Arc::clone(&deques);
        let mover = thread::spawn(move || shared.rebalance(0, 1, |_| 0));
        let found = deques
            .find(&mut second)
            .map(|(_, steal_from)| task_of(steal_from));
        assert_eq!(found, Some(Some(1)), "it lay there all the time");
        mover.join().unwrap();
        deques.abandon(word);
        assert_eq!(rest(&deques, &mut second), []);
    });
}

/// The same where its worker leaves it behind.
#[test]
fn the_last_look_while_a_deque_is_left() {
    model(3, || {
        let (deques, mut first, mut second) = two();
        deques.push(&mut second, task(1)).unwrap();
        let shared = Arc::clone(&deques);
        let leaver = thread::spawn(move || {
            let word = shared.suspend(&mut second, 0);
            shared.abandon(word);
        });
        let found = deques.find(&mut first).map(|(_, steal_from)| task_of(steal_from));
        assert_eq!(found, Some(Some(1)), "it lay there all the time");
        leaver.join().unwrap();
        assert_eq!(rest(&deques, &mut first), []);
    });
}

/// The same where a thief takes it over.
#[test]
fn the_last_look_while_a_deque_is_taken_over() {
    model(2, || {
        let (deques, mut first, mut second) = two();
        let word = left(&deques, &mut first, &[1, 2, 3], 1);
        deques.resume(word, task(4), 0).unwrap();
        assert_eq!(task_of(deques.steal_from(&mut first, 1, |_| 0)), Some(1));
        let shared = Arc::clone(&deques);
        let mugger = thread::spawn(move || (task_of(shared.steal_from(&mut first, 1, |_| 0)), first));
        let found = deques
            .find(&mut second)
            .and_then(|(_, steal_from)| task_of(steal_from));
        assert!(found.is_some(), "two of them lay there all the time");
        let (taken_over, mut first) = mugger.join().unwrap();
        let mut all = vec![1];
        all.extend(found.into_iter().chain(taken_over));
        all.extend(std::iter::from_fn(|| second.pop()).map(Task::get));
        all.extend(rest(&deques, &mut first));
        assert_all(all, 4);
    });
}
