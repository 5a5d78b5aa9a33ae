//! Work that ranks share by stealing.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};
use warpweft::spawn;
use warpweft_mpi::{Bag, Comm, MpiErrorKind, Reduce};

pub(crate) fn a_map_and_reduce_over_all_ranks(comm: &Comm) {
    for (n, grain) in [(1_u64, 1), (1000, 7), (100_000, 100)] {
        let sum = comm.map_reduce(0..n, grain, 2, Iterator::sum::<u64>, |a, b| a + b);
        let sum = warpweft::block_on(sum).expect("all come");
        assert_eq!(sum, Some(n * (n - 1) / 2));
    }
    // All the work is in the first numbers, which are those of rank 0.
    let slow = |range: std::ops::Range<u64>| {
        range
            .map(|n| if n < 200 { collatz(n * 977 + 1) } else { 0 })
            .sum::<u64>()
    };
    let expected = slow(0..2000);
    let sum = comm.map_reduce(0..2000, 1, 2, slow, |a, b| a + b);
    assert_eq!(warpweft::block_on(sum).expect("all come"), Some(expected));
}

fn collatz(from: u64) -> u64 {
    (0..200)
        .map(|more| {
            let (mut n, mut steps) = (from + more, 0);
            while n != 1 {
                n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
                steps += 1;
            }
            steps
        })
        .sum()
}

/// MPI has some thousand communicators.
pub(crate) fn shared_work_takes_one_communicator(comm: &Comm) {
    for n in 0..3000 {
        let sum = comm.map_reduce(0..n % 3, 1, 1, Iterator::sum::<u64>, |a, b| a + b);
        let sum = warpweft::block_on(sum).expect("all come");
        assert_eq!(sum, [None, Some(0), Some(1)][n as usize % 3]);
    }
}

pub(crate) fn nothing_to_map(comm: &Comm) {
    let sum = comm.map_reduce(5..5, 10, 2, Iterator::sum::<u64>, |a, b| a + b);
    assert_eq!(warpweft::block_on(sum).expect("all come"), None);
}

/// Numbers to count, and how many were.
struct Numbers(u64, u64);

impl Bag for Numbers {
    type Work = u64;

    fn step(&mut self) -> bool {
        let some = self.0.min(10);
        self.0 -= some;
        self.1 += some;
        self.0 > 0
    }

    fn split(&mut self) -> Option<u64> {
        let half = self.0 / 2;
        self.0 -= half;
        (half > 0).then_some(half)
    }

    fn take(&mut self, work: u64) {
        self.0 += work;
    }
}

pub(crate) fn a_rank_without_a_bag_takes_no_work(comm: &Comm) {
    let bags = if comm.rank() == 0 {
        vec![Numbers(100_000, 0)]
    } else {
        Vec::new()
    };
    let shared = warpweft::block_on(comm.share(bags)).expect("all come");
    let counts: Vec<u64> = shared.bags.iter().map(|bag| bag.1).collect();
    let expected: &[u64] = if comm.rank() == 0 { &[100_000] } else { &[] };
    assert_eq!((counts.as_slice(), shared.stolen), (expected, 0));
}

/// Panics at once, or has nothing to do.
struct Panics(bool);

impl Bag for Panics {
    type Work = u64;

    fn step(&mut self) -> bool {
        assert!(!self.0, "a bag panics on purpose");
        false
    }

    fn split(&mut self) -> Option<u64> {
        None
    }

    fn take(&mut self, _work: u64) {}
}

/// Its other bag, and those of the other ranks, come to their end.
pub(crate) fn a_bag_that_panics_does_so_on_its_rank_alone(comm: &Comm) {
    for rank in [0, comm.size() - 1] {
        for other in [None, Some(Panics(false))] {
            let bags = [Panics(rank == comm.rank())].into_iter().chain(other);
            let bags: Vec<_> = bags.collect();
            let (count, own) = (bags.len(), comm.clone());
            match spawn(async move { own.share(bags).await }).wait() {
                Ok(shared) => {
                    assert_ne!(comm.rank(), rank);
                    assert_eq!(shared.expect("all come").bags.len(), count);
                }
                Err(error) => {
                    let panic = error.into_panic().expect("it panicked");
                    assert_eq!(panic.downcast_ref(), Some(&"a bag panics on purpose"));
                    assert_eq!(comm.rank(), rank);
                }
            }
        }
    }
}

pub(crate) fn a_map_that_panics_is_an_error_of_the_others(comm: &Comm) {
    let many = comm.size() as u64 * 100;
    let in_map = |range: std::ops::Range<u64>| assert!(!range.contains(&7), "a map panics on purpose");
    // Each rank has one result, so rank 0 alone combines them.
    let in_combine = |(), ()| panic!("what combines panics on purpose");
    for (map_panics, expected) in [(true, 1), (false, i64::from(comm.size() > 1))] {
        let own = comm.clone();
        let done = spawn(async move {
            match map_panics {
                true => own.map_reduce(0..many, 1, 2, in_map, |(), ()| ()).await,
                false => own.map_reduce(0..many, many, 1, |_| (), in_combine).await,
            }
        });
        let panics = match done.wait() {
            Ok(Err(error)) => {
                assert_eq!(error.kind(), MpiErrorKind::Remote, "{error}");
                0
            }
            Ok(Ok(_)) => {
                assert_eq!(expected, 0);
                0
            }
            Err(_) => 1,
        };
        let panics = comm.all_reduce(vec![panics], Reduce::Sum).wait();
        assert_eq!(panics.expect("all come"), [expected]);
    }
    // The communicator is free.
    let sum = comm.map_reduce(0..many, 7, 2, Iterator::sum::<u64>, |a, b| a + b);
    let sum = warpweft::block_on(sum).expect("all come");
    assert_eq!(sum, Some(many * (many - 1) / 2));
}

/// Works until it is told to stop, and tells of its end.
#[derive(Debug)]
struct Stops {
    stop: Arc<AtomicBool>,
    _alive: Arc<()>,
}

impl Bag for Stops {
    type Work = u64;

    fn step(&mut self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn split(&mut self) -> Option<u64> {
        None
    }

    fn take(&mut self, _work: u64) {}
}

pub(crate) fn runners_end_with_the_future_that_is_dropped(comm: &Comm) {
    let (stop, alive) = (Arc::new(AtomicBool::new(false)), Arc::new(()));
    let bag = Stops {
        stop: Arc::clone(&stop),
        _alive: Arc::clone(&alive),
    };
    {
        let share = pin!(comm.share(vec![bag]));
        // The ranks work, so that none of them sends a word.
        assert!(share.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    stop.store(true, Ordering::Relaxed);
    let begin = Instant::now();
    while Arc::strong_count(&alive) > 1 {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "a runner waits for work"
        );
        warpweft::block_on(warpweft::yield_now());
    }
    let error = warpweft::block_on(comm.share(Vec::<Stops>::new())).expect_err("words may come");
    assert_eq!(error.kind(), MpiErrorKind::Argument, "{error}");
}
