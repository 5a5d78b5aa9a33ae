//! Every interleaving, and every weak-memory outcome, of few users of a linked queue whose nodes are used
//! again.
#![cfg(warpweft_loom)]

mod support;

use loom::sync::Arc;
use loom::thread;
use std::num::NonZeroUsize;
use support::drops::{Counted, Drops};
use support::loom::model;
use warpweft_platform::atomic::{AtomicBool, Ordering, fence};
use warpweft_queue::{Carried, Linked, Nodes, Processor};

type Queue = Arc<Linked<NonZeroUsize>>;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// A queue that holds `elements`, and two processors.
fn queue_of(elements: &[usize]) -> (Nodes, Queue, [Processor; 2]) {
    let (nodes, processors) = Nodes::new(2, 1);
    let processors: [Processor; 2] = processors.try_into().unwrap();
    let queue = Linked::new(&nodes);
    for &n in elements {
        queue.push(&processors[0], word(n), Carried::NONE);
    }
    (nodes, Arc::new(queue), processors)
}

fn start<R: 'static>(
    queue: &Queue,
    processor: Processor,
    body: impl FnOnce(&Queue, &Processor) -> R + 'static,
) -> thread::JoinHandle<R> {
    let queue = Arc::clone(queue);
    thread::spawn(move || body(&queue, &processor))
}

fn pop(queue: &Queue, processor: &Processor) -> Option<usize> {
    queue.pop(processor).map(|(element, _)| element.get())
}

fn drain(queue: &Queue, processor: &Processor) -> Vec<usize> {
    std::iter::from_fn(|| pop(queue, processor)).collect()
}

/// One thread takes the only element, puts it back in the node that was the head, and takes it again: the
/// head is where it was. The other thread, which read it all the time, must not take the element once more.
#[test]
fn a_head_that_comes_back_is_not_mistaken() {
    model(3, || {
        let (nodes, queue, [mine, others]) = queue_of(&[1]);
        let other = start(&queue, others, pop);
        let mut taken = Vec::new();
        if let Some((element, carried)) = queue.pop(&mine) {
            queue.push(&mine, element, carried);
            taken.extend(pop(&queue, &mine));
        }
        taken.extend(other.join().unwrap());
        taken.extend(drain(&queue, &mine));
        assert_eq!(taken, [1]);
        assert!(nodes.made() <= 1 + 1 + 2, "{nodes:?}");
    });
}

/// The last node leaves the queue and becomes the last one of another queue. A thread that was about to link
/// behind it must not do so.
#[test]
fn a_tail_in_another_queue_is_not_linked_to() {
    model(3, || {
        let (nodes, queue, [mine, others]) = queue_of(&[]);
        let elsewhere = Arc::new(Linked::new(&nodes));
        let other = start(&queue, others, |queue, processor| {
            queue.push(processor, word(1), Carried::NONE);
        });
        queue.push(&mine, word(2), Carried::NONE);
        // The first of the two, with the node that was both head and tail.
        let (first, carried) = queue.pop(&mine).unwrap();
        elsewhere.push(&mine, first, carried);
        other.join().unwrap();
        let rest = drain(&queue, &mine);
        assert_eq!(rest.len(), 1);
        assert_eq!(drain(&elsewhere, &mine), [first.get()]);
        assert_eq!(rest[0] + first.get(), 3);
        assert!(nodes.made() <= 2 + 2 + 2, "{nodes:?}");
    });
}

/// Both take, both put back: each exchanges its node for another if the other thread reads it, and no node is
/// in two places.
#[test]
fn two_who_take_and_put_back() {
    model(2, || {
        let (nodes, queue, [mine, others]) = queue_of(&[1, 2]);
        let again = |queue: &Queue, processor: &Processor| {
            if let Some((element, carried)) = queue.pop(processor) {
                queue.push(processor, element, carried);
            }
        };
        let other = start(&queue, others, again);
        again(&queue, &mine);
        other.join().unwrap();
        let mut rest = drain(&queue, &mine);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2]);
        assert!(nodes.made() <= 2 + 1 + 3, "{nodes:?}");
    });
}

#[test]
fn order_holds_between_a_pusher_and_a_taker() {
    model(3, || {
        let (_, queue, [mine, others]) = queue_of(&[]);
        let pusher = start(&queue, others, |queue, processor| {
            for n in 1..=2 {
                queue.push(processor, word(n), Carried::NONE);
            }
        });
        let mut taken: Vec<_> = (0..2).filter_map(|_| pop(&queue, &mine)).collect();
        pusher.join().unwrap();
        taken.extend(drain(&queue, &mine));
        assert_eq!(taken, [1, 2]);
    });
}

/// A fresh node is the released one, which another thread reads.
#[test]
fn a_released_node_is_used_again() {
    model(3, || {
        let (nodes, queue, [mine, others]) = queue_of(&[1]);
        let other = start(&queue, others, pop);
        let mut taken = Vec::new();
        if let Some((element, carried)) = queue.pop(&mine) {
            taken.push(element.get());
            nodes.release(carried);
            queue.push(&mine, word(2), Carried::NONE);
        }
        taken.extend(other.join().unwrap());
        taken.extend(drain(&queue, &mine));
        taken.sort_unstable();
        assert!(taken == [1] || taken == [1, 2], "{taken:?}");
        assert!(nodes.made() <= 1 + 1 + 2, "{nodes:?}");
    });
}

/// Two threads from outside, and one shared hazard slot.
#[test]
fn external_threads_are_not_in_one_place() {
    model(3, || {
        let (nodes, queue, [mine, _]) = queue_of(&[]);
        let elsewhere = Arc::new(Linked::new(&nodes));
        let external = [(1, &queue), (2, &elsewhere)].map(|(n, queue)| {
            let queue = Arc::clone(queue);
            thread::spawn(move || {
                let _ = queue.push_from_outside(word(n), Carried::NONE);
            })
        });
        // The node that is head and tail of the queue becomes the last one elsewhere, while an external
        // thread is about to link behind it and the other one comes.
        queue.push(&mine, word(3), Carried::NONE);
        let (first, carried) = queue.pop(&mine).unwrap();
        elsewhere.push(&mine, first, carried);
        external.into_iter().for_each(|external| external.join().unwrap());
        let (here, there) = (drain(&queue, &mine), drain(&elsewhere, &mine));
        assert_eq!((here.len(), there.len()), (1, 2), "{here:?} {there:?}");
        assert_eq!(here[0] + first.get(), 4);
    });
}

/// One takes the top of the free list, another one takes both and gives the top back.
#[test]
fn the_free_list_tells_a_top_that_came_back() {
    model(3, || {
        let (nodes, queue, [mine, others]) = queue_of(&[1, 2]);
        for carried in [(); 2]
            .map(|()| queue.pop(&mine).map(|(_, carried)| carried))
            .into_iter()
            .flatten()
        {
            nodes.release(carried);
        }
        let other = start(&queue, others, |queue, processor| {
            queue.push(processor, word(1), Carried::NONE);
        });
        let elsewhere: Linked<NonZeroUsize> = Linked::new(&nodes);
        queue.push(&mine, word(2), Carried::NONE);
        // Gives its node back.
        drop(elsewhere);
        let third = Linked::new(&nodes);
        third.push(&mine, word(3), Carried::NONE);
        other.join().unwrap();
        let mut rest = drain(&queue, &mine);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2]);
        assert_eq!(drain(&Arc::new(third), &mine), [3]);
    });
}

/// Safe code may copy the bits: one of the two gets the node, the other a fresh one.
#[test]
fn bits_that_two_have_are_one_node() {
    model(3, || {
        let (_, queue, [mine, others]) = queue_of(&[1]);
        let (_, carried) = queue.pop(&mine).unwrap();
        let other = start(&queue, others, move |queue, processor| {
            queue.push(processor, word(1), carried);
        });
        queue.push(&mine, word(2), carried);
        other.join().unwrap();
        let mut rest = drain(&queue, &mine);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2]);
    });
}

fn pusher_and_sleeper(finds: fn(&Queue, &Processor) -> bool) {
    let (_, queue, [mine, others]) = queue_of(&[]);
    let sleeping = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&sleeping);
    let pusher = start(&queue, others, move |queue, processor| {
        queue.push(processor, word(1), Carried::NONE);
        fence(Ordering::SeqCst);
        seen.load(Ordering::Relaxed)
    });
    sleeping.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let found = finds(&queue, &mine);
    let woken = pusher.join().unwrap();
    assert!(found || woken, "the sleeper sleeps, the element waits");
}

#[test]
fn pusher_and_sleeper_who_pops_do_not_miss_each_other() {
    model(3, || {
        pusher_and_sleeper(|queue, processor| queue.pop(processor).is_some());
    });
}

#[test]
fn pusher_and_sleeper_who_looks_do_not_miss_each_other() {
    model(3, || {
        pusher_and_sleeper(|queue, processor| !queue.is_empty(processor));
    });
}

#[test]
fn each_is_dropped_once() {
    model(2, || {
        let drops = Drops::new(3);
        let (nodes, mut processors) = Nodes::new(2, 1);
        let queue: Arc<Linked<Box<Counted>>> = Arc::new(Linked::new(&nodes));
        let (shared, of_pusher, processor) = (Arc::clone(&queue), drops.clone(), processors.pop().unwrap());
        let pusher = thread::spawn(move || {
            for id in 0..2 {
                shared.push(&processor, of_pusher.make(id), Carried::NONE);
            }
        });
        queue.push(&processors[0], drops.make(2), Carried::NONE);
        drop(queue.pop(&processors[0]).map(|(element, carried)| {
            nodes.release(carried);
            element
        }));
        pusher.join().unwrap();
        drop(queue);
        drops.assert_each_once();
    });
}
