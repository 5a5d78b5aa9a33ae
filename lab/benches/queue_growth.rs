//! The pushes that grow a ring, while thieves run, more of them than there are CPUs.
//!
//! An owner that had to wait for a preempted thief would sometimes wait for a slice of the scheduler, some
//! milliseconds. Here it waits for no thread: a stalled thief keeps the old ring alive, and the owner
//! continues in the new one. The table shows the cost of that, beside threads that only take CPU time from
//! the owner. Each round fills a queue of 4 slots with 4096 elements, so it grows ten times.
//!
//! It also shows for how long a growth of a large ring stops a thief that steals one by one: from its first
//! steal that loses to the next that does not. The owner never pops, so the thief loses only to the growth.
//!
//! `cargo bench -p warpweft-lab --bench queue_growth`

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use warpweft_queue::{Amount, Fifo, Full, Lifo, Owner, Steal, Thief};

const ROUNDS: usize = 1000;
const ELEMENTS: usize = 4096;

/// Nanoseconds of each push that grew the ring, sorted.
fn growing_pushes<Q: Owner<NonZeroUsize, Thief: 'static> + 'static>(
    thieves: usize,
    steal: bool,
) -> Vec<u128> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let mut queue = Q::with_capacity(4).expect("a small ring");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..thieves {
                let (victim, stop) = (queue.thief(), &stop);
                scope.spawn(move || {
                    let mut own = Q::with_capacity(256).expect("a small ring");
                    while !stop.load(Ordering::Relaxed) {
                        if steal {
                            let _ = victim.steal_into(&mut own, Amount::Half);
                        }
                        while own.pop().is_some() {}
                    }
                });
            }
            for element in (1..=ELEMENTS).filter_map(NonZeroUsize::new) {
                let start = Instant::now();
                if let Err(Full(element)) = queue.push(element) {
                    queue.grow().expect("there is memory");
                    assert!(queue.push(element).is_ok(), "a grown ring has room");
                    times.push(start.elapsed().as_nanos());
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
    times.sort_unstable();
    times
}

fn row<Q: Owner<NonZeroUsize, Thief: 'static> + 'static>(name: &str) {
    for (thieves, steal) in [(0, true), (1, true), (8, true), (8, false)] {
        let times = growing_pushes::<Q>(thieves, steal);
        if times.is_empty() {
            println!("{name:5} {thieves:8} never grew: the thieves kept it empty");
            continue;
        }
        let at = |share: f64| {
            // A position in the list: below its length, so exact.
            let place = (share * (times.len() - 1) as f64) as usize;
            times[place] as f64 / 1000.0
        };
        println!(
            "{name:5} {thieves:8} {:8} {:8.2} {:8.2} {:8.2} {:10.2}{}",
            times.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            if steal {
                ""
            } else {
                "  (they spin, and steal nothing)"
            }
        );
    }
}

/// Elements of the large ring.
const MANY: usize = 1 << 22;
/// How often it is filled.
const FILLINGS: usize = 5;

/// Nanoseconds of each stretch in which the one thief of a queue that grows to [`MANY`] elements got nothing,
/// sorted.
fn stops<Q: Owner<NonZeroUsize, Thief: 'static> + 'static>() -> Vec<u128> {
    let mut stops = Vec::new();
    for _ in 0..FILLINGS {
        let mut queue = Q::with_capacity(1024).expect("a small ring");
        let (victim, full) = (queue.thief(), AtomicBool::new(false));
        thread::scope(|scope| {
            let thief = scope.spawn(|| {
                let (mut stops, mut since) = (Vec::new(), None);
                while !full.load(Ordering::Relaxed) {
                    match (victim.steal_one(), since) {
                        (Steal::Lost, None) => since = Some(Instant::now()),
                        (Steal::Lost, Some(_)) | (_, None) => {}
                        (_, Some(first)) => {
                            stops.push(first.elapsed().as_nanos());
                            since = None;
                        }
                    }
                }
                stops
            });
            for element in (1..=MANY).filter_map(NonZeroUsize::new) {
                if let Err(Full(element)) = queue.push(element) {
                    queue.grow().expect("there is memory");
                    assert!(queue.push(element).is_ok(), "a grown ring has room");
                }
            }
            full.store(true, Ordering::Relaxed);
            stops.extend(thief.join().expect("the thief"));
        });
    }
    stops.sort_unstable();
    stops
}

fn stops_row<Q: Owner<NonZeroUsize, Thief: 'static> + 'static>(name: &str) {
    let stops = stops::<Q>();
    let micros = |nanos: Option<&u128>| nanos.map_or(0.0, |&nanos| nanos as f64 / 1000.0);
    println!(
        "{name:5} {:8} {:8.2} {:10.2}",
        stops.len(),
        micros(stops.get(stops.len() / 2)),
        micros(stops.last())
    );
}

fn main() {
    println!("order  thieves  growths   p50 µs   p99 µs p99.9 µs longest µs");
    row::<Fifo<NonZeroUsize>>("fifo");
    row::<Lifo<NonZeroUsize>>("lifo");
    println!("order    stops   p50 µs longest µs   (of one thief, up to {MANY} elements)");
    stops_row::<Fifo<NonZeroUsize>>("fifo");
    stops_row::<Lifo<NonZeroUsize>>("lifo");
}
