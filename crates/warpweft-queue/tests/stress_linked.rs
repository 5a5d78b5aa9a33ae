//! Linked queues under many threads on few cores: nothing is lost or duplicated, and the number of nodes
//! keeps its bound.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod support;

use std::num::NonZeroUsize;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use support::drops::Drops;
use warpweft_queue::{Carried, Linked, Nodes, Processor};

const WORKERS: usize = 4;
const QUEUES: usize = 3;

fn word(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn queues<T: warpweft_queue::Word>(nodes: &Nodes) -> Vec<Linked<T>> {
    (0..QUEUES).map(|_| Linked::new(nodes)).collect()
}

/// Elements move from queue to queue. However often they do, there is a node for each, one for each queue,
/// and those that were once left in the hazard slots.
#[test]
fn nodes_of_elements_that_wander() {
    const ELEMENTS: usize = 50;
    const MOVES: usize = 100_000;
    let (nodes, processors) = Nodes::new(WORKERS, 2);
    let queues = queues(&nodes);
    for n in 1..=ELEMENTS {
        queues[n % QUEUES].push_from_outside(word(n), Carried::NONE);
    }
    assert_eq!(nodes.made(), ELEMENTS + QUEUES);
    let moves = |number: usize, processor: Processor| {
        let mut at = number;
        for _ in 0..MOVES {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if let Some((element, carried)) = queues[(at >> 33) % QUEUES].pop(&processor) {
                let to = &queues[(at >> 40) % QUEUES];
                if number == 0 {
                    to.push_from_outside(element, carried);
                } else {
                    to.push(&processor, element, carried);
                }
            }
        }
        processor
    };
    let moves = &moves;
    let processors: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = processors
            .into_iter()
            .enumerate()
            .map(|(number, processor)| scope.spawn(move || moves(number, processor)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made = nodes.made();
    assert!(made >= ELEMENTS, "{made} nodes");
    assert!(
        made <= ELEMENTS + QUEUES + nodes.places(),
        "{made} nodes for {ELEMENTS} elements, {QUEUES} queues and {} places",
        nodes.places()
    );
    let mut all: Vec<_> = queues
        .iter()
        .flat_map(|queue| std::iter::from_fn(|| queue.pop(&processors[0])))
        .map(|(element, _)| element.get())
        .collect();
    all.sort_unstable();
    assert_eq!(all, (1..=ELEMENTS).collect::<Vec<_>>());
}

/// Elements come and end; at most `AT_ONCE` for each thread at a time.
#[test]
fn nodes_of_elements_that_end() {
    const AT_ONCE: usize = 8;
    const ROUNDS: usize = 5_000;
    let drops = Drops::new(WORKERS * AT_ONCE * ROUNDS);
    let (nodes, processors) = Nodes::new(WORKERS, 1);
    let queues = queues(&nodes);
    let (most, together) = (AtomicUsize::new(0), Barrier::new(WORKERS));
    thread::scope(|scope| {
        for (number, processor) in processors.into_iter().enumerate() {
            let (nodes, queues, drops, most, together) = (&nodes, &queues, &drops, &most, &together);
            scope.spawn(move || {
                together.wait();
                for round in 0..ROUNDS {
                    let first = (number * ROUNDS + round) * AT_ONCE;
                    let queue = &queues[round % QUEUES];
                    for id in first..first + AT_ONCE {
                        queue.push(&processor, drops.make(id), Carried::NONE);
                    }
                    // As many as it added, though not the same: the sum stays in bounds.
                    let mut taken = 0;
                    while taken < AT_ONCE {
                        if let Some((element, carried)) = queue.pop(&processor) {
                            nodes.release(carried);
                            drop(element);
                            taken += 1;
                        }
                    }
                    most.fetch_max(nodes.made(), Ordering::Relaxed);
                }
            });
        }
    });
    let most = most.load(Ordering::Relaxed);
    assert!(
        most <= WORKERS * AT_ONCE + QUEUES + nodes.places(),
        "{most} nodes"
    );
    drops.assert_each_once();
}

/// Safe code may carry anything: invented numbers are no nodes.
#[test]
fn invented_nodes_are_no_nodes() {
    let (nodes, processors) = Nodes::new(1, 1);
    let queue = Linked::new(&nodes);
    for bits in [1, 2, 3, 63, 64, 65, 1 << 20, 1 << 31, u32::MAX] {
        // A node in use cannot be obtained twice, neither the queue's nor another element's.
        nodes.release(Carried::from_bits(bits));
        queue.push(&processors[0], word(7), Carried::from_bits(bits));
        queue.push(&processors[0], word(8), Carried::from_bits(bits));
        assert_eq!(
            queue.pop(&processors[0]).map(|(element, _)| element.get()),
            Some(7)
        );
        assert_eq!(
            queue.pop(&processors[0]).map(|(element, _)| element.get()),
            Some(8)
        );
        assert!(queue.is_empty(&processors[0]));
    }
}

#[test]
#[should_panic(expected = "another table")]
fn processors_of_another_table_are_turned_away() {
    let ((nodes, _), (_, others)) = (Nodes::new(1, 1), Nodes::new(1, 1));
    let _ = Linked::<NonZeroUsize>::new(&nodes).pop(&others[0]);
}
