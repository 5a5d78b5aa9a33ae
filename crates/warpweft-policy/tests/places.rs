//! Tests which task is next, in each order, and where a task is, on each axis: event by event, with one
//! thread.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

use std::cell::RefCell;
use std::num::NonZeroUsize;
use warpweft_platform::random::Rng;
use warpweft_policy::order::{FifoOrder, Mix, MixedOrder, Order, PriorityOrder, SlotOrder};
use warpweft_policy::{
    Chained, Clock, Count, Counters, Cx, Fifo, Help, Helping, Lifo, Overflow, Policy, PoolEnv, Stealing,
    Victims, Wake, Why, Woken, WorkerId, YieldTo, priority,
};
use warpweft_queue::Amount;
use warpweft_task::test_tasks::{self, TestTasks, number};

const fn n(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

/// A pool without threads.
struct Bench<P: Policy> {
    shared: P::Shared,
    locals: Vec<P::Local>,
    counters: Counters,
    random: RefCell<Rng>,
    probe: TestTasks,
    tasks: usize,
}

impl<O: Order> Bench<Stealing<O>> {
    fn new(policy: &Stealing<O>, workers: usize) -> Self {
        let (shared, locals) = policy.build(&PoolEnv::new(workers)).expect("a policy");
        Self {
            shared,
            locals,
            counters: Counters::default(),
            random: RefCell::new(Rng::seeded(3)),
            probe: TestTasks::new(10_000),
            tasks: 0,
        }
    }

    /// Calls a hook of a worker.
    fn with<R>(
        &mut self,
        worker: usize,
        hook: impl FnOnce(&<Stealing<O> as Policy>::Shared, &mut <Stealing<O> as Policy>::Local, &Cx<'_>) -> R,
    ) -> R {
        let workers = self.locals.len();
        let cx = Cx::for_worker(
            WorkerId(worker),
            workers,
            &self.counters,
            &self.random,
            Clock::Machine,
        );
        hook(&self.shared, &mut self.locals[worker], &cx)
    }

    fn push_word(&mut self, worker: usize, why: Why, word: u64) -> Wake {
        let mut task = self.probe.task(self.tasks);
        self.tasks += 1;
        task.set_policy_word(word);
        self.with(worker, |shared, local, cx| {
            Stealing::<O>::push(shared, Some(local), task, why, cx)
        })
    }

    fn push(&mut self, worker: usize, why: Why) {
        let _ = self.push_word(worker, why, 0);
    }

    fn spawn(&mut self, tasks: usize) {
        (0..tasks).for_each(|_| self.push(0, Why::Spawned));
    }

    /// Runs the task that a hook hands out.
    fn take(
        &mut self,
        worker: usize,
        hook: impl FnOnce(
            &<Stealing<O> as Policy>::Shared,
            &mut <Stealing<O> as Policy>::Local,
            &Cx<'_>,
        ) -> Option<warpweft_policy::TaskRef>,
    ) -> Option<usize> {
        let task = self.with(worker, hook)?;
        let number = number(&task);
        test_tasks::run(task);
        number
    }

    fn next(&mut self, worker: usize) -> Option<usize> {
        self.take(worker, Stealing::<O>::next)
    }

    fn all(&mut self, worker: usize) -> Vec<usize> {
        std::iter::from_fn(|| self.next(worker)).collect()
    }
}

fn order_of<O: Order>(policy: &Stealing<O>, tasks: usize) -> Vec<usize> {
    let mut bench = Bench::new(policy, 1);
    bench.spawn(tasks);
    bench.all(0)
}

fn mixed(mix: Mix) -> Stealing<MixedOrder> {
    Stealing::with_order(MixedOrder::new(mix).expect("possible"))
}

#[test]
fn the_plain_orders() {
    assert_eq!(order_of(&Fifo::new(), 4), [0, 1, 2, 3]);
    assert_eq!(order_of(&Lifo::new(), 4), [3, 2, 1, 0]);
    let in_rings = Chained::new().capacity(1);
    assert_eq!(order_of(&in_rings, 100), (0..100).collect::<Vec<_>>());
    let mut bench = Bench::new(&in_rings, 2);
    bench.spawn(100);
    assert_eq!(bench.counters.get(Count::Grown), 6, "rings of 1, 2, 4 and so on");
    assert_eq!(bench.take(1, Stealing::search), Some(0));
    assert_eq!(bench.all(0).len() + bench.all(1).len(), 99);
}

#[test]
fn alternating_takes_from_both_ends() {
    assert_eq!(order_of(&mixed(Mix::Alternate(n(1))), 5), [4, 0, 3, 1, 2]);
    assert_eq!(order_of(&mixed(Mix::Alternate(n(2))), 6), [5, 4, 0, 1, 3, 2]);
}

#[test]
fn by_chance_the_newest_comes_as_often_as_was_said() {
    for percent in [20_u8, 80] {
        let mut bench = Bench::new(&mixed(Mix::Stochastic(percent)), 1);
        bench.spawn(2);
        let mut newest = 0;
        for _ in 0..2000 {
            bench.spawn(1);
            newest += usize::from(bench.next(0) == Some(bench.tasks - 1));
        }
        let expected = 20 * usize::from(percent);
        assert!(
            newest.abs_diff(expected) < 120,
            "{newest} of 2000, expected {expected}"
        );
    }
    assert!(MixedOrder::new(Mix::Stochastic(0)).is_err() && MixedOrder::new(Mix::Stochastic(100)).is_err());
}

/// After three of the newest, as many of the oldest as there are. So nothing is stuck in between, whatever
/// comes meanwhile.
#[test]
fn reversing_takes_as_many_of_the_oldest_as_there_were() {
    assert_eq!(order_of(&mixed(Mix::Reverse(n(3))), 6), [5, 4, 3, 0, 1, 2]);
    let mut bench = Bench::new(&mixed(Mix::Reverse(n(3))), 1);
    bench.spawn(6);
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(bench.next(0));
        bench.spawn(1);
    }
    // Each step spawned one: 6 … 11. When the turn of the oldest came there were six, of which 0 to 4 were
    // the oldest then.
    assert_eq!(order, [5, 6, 7, 0, 1, 2]);
    assert_eq!(
        (bench.next(0), bench.next(0), bench.next(0)),
        (Some(3), Some(4), Some(8))
    );
    assert_eq!(bench.next(0), Some(11));
}

#[test]
fn the_slot_goes_first_but_not_for_ever() {
    let policy = Stealing::with_order(SlotOrder::new(FifoOrder, n(2)));
    assert_eq!(order_of(&policy, 4), [3, 0, 1, 2]);
    let mut bench = Bench::new(&policy, 1);
    bench.spawn(3);
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(bench.next(0));
        bench.spawn(1);
    }
    assert_eq!(order, [2, 3, 0, 5, 6, 1]);
}

#[test]
fn the_slot_is_stolen_once_it_is_old() {
    let policy = Stealing::with_order(SlotOrder::new(FifoOrder, n(2)));
    let mut bench = Bench::new(&policy, 2);
    bench.spawn(1);
    assert_eq!(bench.take(1, Stealing::search), None);
    assert_eq!(bench.take(1, Stealing::search), Some(0));
}

#[test]
fn urgent_tasks_go_first_and_others_have_global_looks() {
    let policy = Stealing::with_order(PriorityOrder::new(FifoOrder, n(3)));
    let mut bench = Bench::new(&policy, 1);
    for level in [2, 0, 1, 0, 9] {
        let _ = bench.push_word(0, Why::Spawned, priority::word(level));
    }
    // The lowest levels have a turn when the worker polls what was passed over, which is once in six times.
    let poll_global: Vec<_> = (0..12)
        .filter_map(|_| bench.take(0, Stealing::poll_global))
        .collect();
    assert!(
        poll_global.contains(&0) || poll_global.contains(&2),
        "{poll_global:?}"
    );
    let rest = bench.all(0);
    let urgent: Vec<_> = rest.iter().filter(|task| [1, 3].contains(*task)).collect();
    assert!(
        rest.iter().zip(&urgent).all(|(task, urgent)| task == *urgent),
        "{rest:?}"
    );
    assert_eq!(order_of(&policy, 3), [0, 1, 2]);
    // Also if something more urgent comes each time: once in six times it is the turn of one of the three.
    let mut bench = Bench::new(&policy, 1);
    let _ = bench.push_word(0, Why::Spawned, priority::word(2));
    let came = (0..3 * 6).find(|_| {
        let _ = bench.push_word(0, Why::Spawned, priority::word(0));
        bench.take(0, Stealing::poll_global) == Some(0)
    });
    assert!(came.is_some(), "the lowest level starves");
    // Without a priority a task is in the middle.
    let mut bench = Bench::new(&policy, 1);
    for word in [priority::word(2), 0, priority::word(0)] {
        let _ = bench.push_word(0, Why::Spawned, word);
    }
    assert_eq!(bench.all(0), [2, 1, 0]);
    let too_many = Stealing::with_order(PriorityOrder::new(FifoOrder, n(65)));
    assert!(too_many.build(&PoolEnv::new(1)).is_err());
    assert_eq!((policy.priorities(), too_many.priorities()), (3, 0));
}

/// Whatever is around the levels, or in them, reports how many there are; the others have none.
#[test]
fn priorities_are_known_however_orders_are_nested() {
    let levels = PriorityOrder::new(SlotOrder::new(FifoOrder, n(3)), n(5));
    assert_eq!(Stealing::with_order(levels).priorities(), 5);
    assert_eq!(Stealing::with_order(SlotOrder::new(levels, n(3))).priorities(), 5);
    assert_eq!(Helping::around(levels).priorities(), 5);
    assert_eq!(
        (Fifo::new().priorities(), Helping::around(FifoOrder).priorities()),
        (0, 0)
    );
}

/// The preferred worker and the time stamp are in the same word.
#[test]
fn a_task_keeps_its_priority_whatever_else_is_noted_of_it() {
    let levels = PriorityOrder::new(FifoOrder, n(3));
    let mut bench = Bench::new(&Stealing::with_order(levels).woken(Woken::Last), 2);
    let mut task = bench.probe.task(0);
    task.set_policy_word(priority::word(2));
    bench.with(1, |shared, local, cx| {
        Stealing::suspended(shared, local, task.waiting(), cx);
    });
    assert_eq!(priority::of(task.policy_word()), Some(2));
    let wake = bench.with(0, |shared, local, cx| {
        Stealing::push(shared, Some(local), task, Why::Woken, cx)
    });
    assert_eq!(wake, Wake::Worker(WorkerId(1)));
    bench.tasks = 1;
    let _ = bench.push_word(1, Why::Spawned, priority::word(0));
    assert_eq!(bench.take(1, Stealing::search), Some(1));
    assert_eq!(bench.next(1), Some(0));

    let helping = Helping::around(levels).lanes(1);
    let (shared, mut locals) = helping.build(&PoolEnv::new(1)).expect("a policy");
    let (counters, random) = (Counters::default(), RefCell::new(Rng::seeded(3)));
    let cx = Cx::for_worker(WorkerId(0), 1, &counters, &random, Clock::Machine);
    // It notes the time of its last look at the clock.
    assert!(Helping::next(&shared, &mut locals[0], &cx).is_none());
    for (number, level) in [2, 0, 1].into_iter().enumerate() {
        let mut task = bench.probe.task(number + 2);
        task.set_policy_word(priority::word(level));
        let _ = Helping::push(&shared, Some(&mut locals[0]), task, Why::Spawned, &cx);
    }
    let order: Vec<_> = std::iter::from_fn(|| Helping::next(&shared, &mut locals[0], &cx))
        .map(|task| {
            let found = number(&task);
            test_tasks::run(task);
            found
        })
        .collect();
    assert_eq!(order, [Some(3), Some(4), Some(2)]);
}

/// Everything comes out again, wherever it went.
#[test]
fn what_finds_no_room_is_not_lost() {
    for (overflow, workers, grown, overflowed, retries) in [
        (Overflow::Grow, 2, 1, 0, 0),
        (Overflow::Retry(n(7)), 2, 0, 3, 21),
        (Overflow::Retry(n(7)), 1, 0, 3, 0),
        (Overflow::Locked, 2, 0, 3, 0),
        (Overflow::LockFree, 2, 0, 3, 0),
        (Overflow::Multi(n(2)), 2, 0, 3, 0),
    ] {
        let mut bench = Bench::new(&Fifo::new().capacity(4).overflow(overflow), workers);
        bench.spawn(7);
        let counted =
            [Count::Grown, Count::Overflowed, Count::Retries].map(|count| bench.counters.get(count));
        assert_eq!(counted, [grown, overflowed, retries], "{overflow:?}");
        let mut all: Vec<_> = std::iter::from_fn(|| bench.take(0, Stealing::scan)).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6], "{overflow:?}");
    }
}

/// The lock-free queues are bounded. What is beyond their bound is not lost either, nor does it wait forever.
#[test]
fn what_the_lock_free_queues_have_no_room_for_is_served_in_between() {
    let mut bench = Bench::new(&Fifo::new().capacity(1).overflow(Overflow::Multi(n(1))), 1);
    bench.probe = TestTasks::new(20_000);
    bench.spawn(20_000);
    let first: Vec<_> = (0..64).filter_map(|_| bench.take(0, Stealing::scan)).collect();
    assert!(
        first.iter().any(|&task| task > 16_385) && first.iter().any(|&task| task < 100),
        "{first:?}"
    );
    let rest = std::iter::from_fn(|| bench.take(0, Stealing::scan)).count();
    assert_eq!(first.len() + rest, 20_000);
}

#[test]
fn a_task_that_yields_goes_where_the_policy_or_it_wants() {
    let place = |yield_to, asked: Option<YieldTo>| {
        let mut bench = Bench::new(&Fifo::new().yield_to(yield_to), 2);
        match asked {
            None => bench.push(0, Why::Yielded),
            Some(to) => {
                let task = bench.probe.task(0);
                let _ = bench.with(0, |shared, local, cx| {
                    Stealing::yielded(shared, local, task, to, cx)
                });
            }
        }
        bench.next(0).is_some()
    };
    assert!(place(YieldTo::Local, None) && !place(YieldTo::Global, None));
    assert!(place(YieldTo::Global, Some(YieldTo::Local)) && !place(YieldTo::Local, Some(YieldTo::Global)));
}

#[test]
fn a_soft_yield_on_a_stack_gives_way_to_the_newest() {
    let mut bench = Bench::new(&Lifo::new().yield_to(YieldTo::Local), 1);
    bench.spawn(2);
    bench.push(0, Why::Yielded);
    assert_eq!(bench.all(0), [1, 2, 0]);
}

#[test]
fn a_woken_task_goes_to_its_preferred_worker() {
    let mut bench = Bench::new(&Fifo::new().woken(Woken::Last), 3);
    let mut task = bench.probe.task(0);
    bench.with(2, |shared, local, cx| {
        Stealing::suspended(shared, local, task.waiting(), cx);
    });
    let word = task.policy_word();
    let wake = bench.with(0, |shared, local, cx| {
        Stealing::push(shared, Some(local), task, Why::Woken, cx)
    });
    assert_eq!(wake, Wake::Worker(WorkerId(2)));
    assert_eq!(
        (bench.next(0), bench.take(2, Stealing::poll_global)),
        (None, Some(0))
    );
    // A task that never slept is woken where its waker is; and without `last` all are.
    bench.tasks = 1;
    assert_eq!(bench.push_word(0, Why::Woken, 0), Wake::Any);
    assert_eq!(bench.next(0), Some(1));
    let mut bench = Bench::new(&Fifo::new(), 3);
    assert_eq!(bench.push_word(0, Why::Woken, word), Wake::Any);
    assert_eq!(bench.next(0), Some(0));
}

#[test]
fn a_busy_worker_is_helped() {
    for (help, thief) in [(Help::Shed, None), (Help::Tickets, Some(1)), (Help::None, None)] {
        let mut bench = Bench::new(&Fifo::new().help(help).victims(Victims::Nearest(n(1))), 4);
        bench.spawn(40);
        // It polls, and asks.
        assert_eq!(bench.take(0, Stealing::poll_global), None);
        let asked = bench.counters.get(Count::HelpRequests);
        assert_eq!(asked, u64::from(help != Help::None), "{help:?}");
        // Worker 2 has worker 1 or 3 beside it, and would not look at worker 0.
        let helped = |bench: &mut Bench<Fifo>, worker| bench.take(worker, Stealing::search).is_some();
        match thief {
            Some(_) => assert!(helped(&mut bench, 2), "{help:?}"),
            None if help == Help::None => assert!(!helped(&mut bench, 2)),
            // One of the three was asked, and steals while it has work itself.
            None => assert_eq!(
                (1..4)
                    .filter(|&other| (0..6).any(|_| bench.take(other, Stealing::poll_global).is_some()))
                    .count(),
                1
            ),
        }
    }
}

#[test]
fn a_sticky_request_stays_until_the_next() {
    for (help, times) in [(Help::Shed, 1), (Help::ShedSticky, 3)] {
        let mut bench = Bench::new(
            &Fifo::new()
                .help(help)
                .steal(Amount::One)
                .victims(Victims::Nearest(n(1))),
            4,
        );
        bench.spawn(40);
        let _ = bench.take(0, Stealing::poll_global);
        let taken = |bench: &mut Bench<Fifo>, worker| {
            (0..3)
                .filter_map(|_| bench.take(worker, Stealing::search))
                .count()
        };
        let asked = taken(&mut bench, 2);
        assert_eq!(asked, times, "{help:?}");
    }
}
