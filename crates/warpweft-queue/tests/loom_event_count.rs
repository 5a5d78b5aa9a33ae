//! Loom models of the idle protocol: every interleaving and every weak-memory outcome of small pools.
//!
//! A lost wake-up is a deadlock, which loom reports. A worker of these models takes its work and is then busy
//! forever. So only the protocol can bring another thread to work that is left behind.
//!
//! Run: `RUSTFLAGS="--cfg warpweft_loom" cargo test -p warpweft-queue --release --test loom_event_count`.
#![cfg(warpweft_loom)]

use loom::thread;
use std::sync::atomic::AtomicUsize as Count;
use warpweft_platform::atomic::{AtomicBool, AtomicU32, Ordering};
use warpweft_platform::barrier::Asymmetric;
use warpweft_platform::park::Parker;
use warpweft_platform::sync::Arc;
use warpweft_queue::EventCount;

/// No bound: these models are small enough to be explored to the end.
const ALL: Option<usize> = None;

/// Explores `model` with at most `preemptions` preemptions per execution; `LOOM_MAX_PREEMPTIONS` overrides
/// the bound.
fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
}

/// The idle protocol with a few queues of work.
struct Pool<const N: usize> {
    idle: EventCount,
    work: [AtomicBool; N],
}

impl<const N: usize> Pool<N> {
    fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: EventCount::new(workers, 1, Asymmetric::new()),
            work: std::array::from_fn(|_| AtomicBool::new(false)),
        })
    }

    fn push(&self, item: usize) {
        self.work[item].store(true, Ordering::Release);
    }

    /// Takes an item. A load comes first, as in every real queue: it may be stale, where an RMW never is.
    fn take(&self) -> Option<usize> {
        (0..N).find(|&i| self.work[i].load(Ordering::Relaxed) && self.work[i].swap(false, Ordering::Acquire))
    }

    /// One task, by the protocol. `searching` is what the worker is on entry; on return it is not.
    fn next(&self, w: usize, mut searching: bool) -> usize {
        loop {
            let mut item = if searching { self.take() } else { None };
            if item.is_none() {
                self.idle.prepare(w, searching);
                item = self.take();
                if item.is_some() {
                    self.idle.cancel(w);
                } else {
                    self.idle.park(w);
                }
                searching = true;
            }
            if let Some(item) = item {
                if searching && self.idle.found() {
                    self.idle.notify_one();
                }
                return item;
            }
        }
    }

    fn assert_idle(&self) {
        assert_eq!(self.idle.snapshot(), (0, 0), "a count did not return to zero");
        assert!(self.take().is_none(), "work was left behind");
    }
}

/// The central case: a push against the announcement and the last look of one worker.
#[test]
fn push_against_sleep() {
    check(ALL, || {
        let pool = Pool::<1>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(0, false), 0)
        });
        pool.push(0);
        pool.idle.notify_one();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// The same for a worker that is registered as a searcher: the push may rely on it, and must not rely in
/// vain.
#[test]
fn push_against_searcher_that_gives_up() {
    check(ALL, || {
        let pool = Pool::<1>::new(1);
        assert!(pool.idle.try_search());
        let worker = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(0, true), 0)
        });
        pool.push(0);
        pool.idle.notify_one();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// Two workers take one item each and are then busy forever: both must be reached.
#[test]
fn two_sleepers_one_pusher() {
    check(Some(3), || {
        let pool = Pool::<2>::new(2);
        let workers = [0, 1].map(|w| {
            let pool = pool.clone();
            thread::spawn(move || pool.next(w, false))
        });
        for item in 0..2 {
            pool.push(item);
            pool.idle.notify_one();
        }
        let sum: usize = workers.map(|worker| worker.join().unwrap()).iter().sum();
        assert_eq!(sum, 1);
        pool.assert_idle();
    });
}

/// Two pushers wake the same sleeper; it takes both items, asleep or awake in between.
#[test]
fn two_pushers_one_sleeper() {
    check(Some(3), || {
        let pool = Pool::<2>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(0, false) + pool.next(0, false), 1)
        });
        let pusher = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.push(0);
                pool.idle.notify_one();
            }
        });
        pool.push(1);
        pool.idle.notify_one();
        pusher.join().unwrap();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// A worker cancels while another thread notifies. Its next sleep must end by its own wake-up, not by
/// the permit of the first.
#[test]
fn cancel_against_notify() {
    check(Some(6), || {
        let pool = Pool::<1>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.idle.prepare(0, false);
                pool.idle.cancel(0);
                assert_ne!(pool.idle.snapshot().0, 0, "searching after `cancel`");
                if pool.idle.found() {
                    pool.idle.notify_one();
                }
                assert_eq!(pool.next(0, false), 0);
            }
        });
        pool.idle.notify_one();
        pool.push(0);
        pool.idle.notify_one();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// `notify` of a worker that cancels: the claim finds no slot and is given back; the other sleeper is not
/// forgotten.
#[test]
fn notify_worker_against_cancel() {
    check(Some(3), || {
        let pool = Pool::<1>::new(2);
        let sleeper = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(1, false), 0)
        });
        let canceller = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.idle.prepare(0, false);
                pool.idle.cancel(0);
                if pool.idle.found() {
                    pool.idle.notify_one();
                }
            }
        });
        pool.push(0);
        pool.idle.notify(0);
        canceller.join().unwrap();
        sleeper.join().unwrap();
        pool.assert_idle();
    });
}

/// Work that only one worker can do, while another searches: `notify_only` reaches it all the same.
#[test]
fn notify_only_reaches_its_worker() {
    check(ALL, || {
        let pool = Pool::<1>::new(2);
        assert!(pool.idle.try_search());
        let worker = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(1, false), 0)
        });
        pool.push(0);
        pool.idle.notify_only(1);
        worker.join().unwrap();
        assert!(pool.idle.found());
        pool.assert_idle();
    });
}

/// `notify_only` and `notify_one` both for one sleeper: two claims, one slot.
#[test]
fn two_claims_for_one_sleeper() {
    check(Some(3), || {
        let pool = Pool::<2>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(0, false) + pool.next(0, false), 1)
        });
        let pusher = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.push(0);
                pool.idle.notify_only(0);
            }
        });
        pool.push(1);
        pool.idle.notify_one();
        pusher.join().unwrap();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// A claim that is given back must not lose a push that relied on it. Worker 0 announces and cancels while
/// one thread makes the claim by `wake` and another pushes for any worker. Worker 1 goes to sleep.
fn push_against_claim(wake: fn(&EventCount)) {
    check(Some(3), move || {
        let pool = Pool::<1>::new(2);
        pool.idle.prepare(0, false);
        let sleeper = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.next(1, false), 0)
        });
        let waker = thread::spawn({
            let pool = pool.clone();
            move || wake(&pool.idle)
        });
        pool.idle.cancel(0);
        if pool.idle.found() {
            pool.idle.notify_one();
        }
        pool.push(0);
        pool.idle.notify_one();
        waker.join().unwrap();
        sleeper.join().unwrap();
        pool.assert_idle();
    });
}

#[test]
fn push_against_claim_that_is_given_back() {
    push_against_claim(|idle| {
        idle.notify_only(0);
    });
}

#[test]
fn push_against_claim_that_finds_no_place() {
    push_against_claim(|idle| {
        idle.notify_one();
    });
}

/// Shutdown against the announcement: a flag takes the place of work, and all see it.
#[test]
fn notify_all_against_prepare() {
    check(Some(3), || {
        let idle = Arc::new(EventCount::new(2, 1, Asymmetric::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let workers = [0, 1].map(|w| {
            let (idle, stop) = (idle.clone(), stop.clone());
            thread::spawn(move || {
                idle.prepare(w, false);
                if stop.load(Ordering::Relaxed) {
                    idle.cancel(w);
                } else {
                    idle.park(w);
                }
                if idle.found() {
                    idle.notify_one();
                }
            })
        });
        stop.store(true, Ordering::Release);
        idle.notify_all();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(idle.snapshot(), (0, 0));
    });
}

/// The last searcher finds work while another push comes in and relies on it: the second worker is woken by
/// one of the two, because the first never looks again.
#[test]
fn last_searcher_hands_over() {
    check(Some(3), || {
        let pool = Pool::<2>::new(2);
        pool.push(0);
        assert!(pool.idle.try_search());
        let finder = thread::spawn({
            let pool = pool.clone();
            move || pool.next(0, true)
        });
        let sleeper = thread::spawn({
            let pool = pool.clone();
            move || pool.next(1, false)
        });
        pool.push(1);
        pool.idle.notify_one();
        assert_eq!(finder.join().unwrap() + sleeper.join().unwrap(), 1);
        pool.assert_idle();
    });
}

/// Two workers at the limit: one gets in, or both at the same time, since the limit is looked at before.
/// Each registration counts, and of several last ones exactly one is the last.
#[test]
fn limit_of_searchers() {
    static BOTH: Count = Count::new(0);
    check(ALL, || {
        let idle = Arc::new(EventCount::new(2, 1, Asymmetric::new()));
        let contend = |idle: &EventCount| idle.try_search().then(|| idle.found());
        let other = thread::spawn({
            let idle = idle.clone();
            move || contend(&idle)
        });
        let mine = contend(&idle);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "somebody gets in");
        assert!(
            mine == Some(true) || theirs == Some(true),
            "somebody is the last: {mine:?} {theirs:?}"
        );
        BOTH.fetch_add(
            usize::from([mine, theirs].contains(&Some(false))),
            Ordering::Relaxed,
        );
        assert_eq!(idle.snapshot(), (0, 0));
    });
    assert!(BOTH.load(Ordering::Relaxed) > 0, "the model met both at once");
}

/// Two workers may register at once, beyond the limit, and find an item each, while a third item is pushed
/// and relies on them. The sleeper is woken by whichever of the two is the last.
#[test]
fn searchers_beyond_the_limit_hand_over() {
    check(Some(1), || {
        let pool = Pool::<3>::new(3);
        pool.push(0);
        pool.push(1);
        let workers = [0, 1, 2].map(|w| {
            let pool = pool.clone();
            thread::spawn(move || {
                let searching = w < 2 && pool.idle.try_search();
                pool.next(w, searching)
            })
        });
        pool.push(2);
        pool.idle.notify_one();
        let sum: usize = workers.map(|worker| worker.join().unwrap()).iter().sum();
        assert_eq!(sum, 3);
        pool.assert_idle();
    });
}

/// `unpark` before, during or after `park` lets it return, and publishes what came before.
#[test]
fn parker_permit_is_not_lost() {
    static FOUND: [Count; 2] = [Count::new(0), Count::new(0)];
    check(ALL, || {
        let shared = Arc::new((Parker::new(), AtomicU32::new(0)));
        let sleeper = thread::spawn({
            let shared = shared.clone();
            move || {
                FOUND[shared.1.load(Ordering::Relaxed) as usize].fetch_add(1, Ordering::Relaxed);
                shared.0.park();
                assert_eq!(shared.1.load(Ordering::Relaxed), 1, "`unpark` publishes");
            }
        });
        shared.1.store(1, Ordering::Relaxed);
        shared.0.unpark();
        sleeper.join().unwrap();
    });
    assert!(
        FOUND.iter().all(|n| n.load(Ordering::Relaxed) > 0),
        "the model met `unpark` before and after `park`"
    );
}

/// Two permits at once are one or two, never none; what both published is seen after the last.
#[test]
fn parker_two_unparks() {
    check(Some(3), || {
        let shared = Arc::new((Parker::new(), AtomicU32::new(0)));
        let others = [1, 2].map(|bit| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.fetch_or(bit, Ordering::Relaxed);
                shared.0.unpark();
            })
        });
        shared.0.park();
        assert_ne!(shared.1.load(Ordering::Relaxed), 0);
        for other in others {
            other.join().unwrap();
        }
    });
}

/// A slot is used again and again, in turns: each `park` takes exactly the permit of its round.
#[test]
fn parker_reuse() {
    check(ALL, || {
        let shared = Arc::new((Parker::new(), Parker::new(), AtomicU32::new(0)));
        let other = thread::spawn({
            let shared = shared.clone();
            move || {
                for round in 1..=2 {
                    shared.0.park();
                    assert_eq!(shared.2.load(Ordering::Relaxed), round);
                    shared.1.unpark();
                }
            }
        });
        for round in 1..=2 {
            shared.2.store(round, Ordering::Relaxed);
            shared.0.unpark();
            shared.1.park();
        }
        other.join().unwrap();
    });
}

/// A worker that takes a timed park before it sleeps, and is woken before, during or after it.
#[test]
fn a_timed_park_against_a_push() {
    check(Some(3), || {
        let pool = Pool::<1>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.idle.prepare(0, false);
                if pool.take().is_some() {
                    pool.idle.cancel(0);
                } else {
                    pool.idle.park_timeout(0, 1);
                    // Woken or not, it is awake and registered.
                    pool.next(0, true);
                    return;
                }
                if pool.idle.found() {
                    pool.idle.notify_one();
                }
            }
        });
        pool.push(0);
        pool.idle.notify_one();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// A worker that announces a brief park without the barrier: a push that overlooks it is found when the park
/// is over, because the announcement after that has the barrier.
#[test]
fn a_brief_park_against_a_push() {
    check(ALL, || {
        let pool = Pool::<1>::new(1);
        let worker = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.idle.prepare_brief(0, false);
                if pool.take().is_some() {
                    pool.idle.cancel(0);
                    if pool.idle.found() {
                        pool.idle.notify_one();
                    }
                } else {
                    pool.idle.park_timeout(0, 1);
                    pool.next(0, true);
                }
            }
        });
        pool.push(0);
        pool.idle.notify_one();
        worker.join().unwrap();
        pool.assert_idle();
    });
}

/// A searcher that leaves, and is not the last one, calls nobody. The last one sees what it did before, such
/// as to leave the poller, in its look before sleep.
#[test]
fn the_last_searcher_sees_what_those_before_it_did() {
    check(ALL, || {
        let idle = Arc::new(EventCount::new(2, 2, Asymmetric::new()));
        let done = Arc::new(AtomicBool::new(false));
        assert!(idle.try_search() && idle.try_search());
        let leaver = {
            let (idle, done) = (Arc::clone(&idle), Arc::clone(&done));
            thread::spawn(move || {
                done.store(true, Ordering::Release);
                idle.found()
            })
        };
        idle.prepare(1, true);
        let seen = done.load(Ordering::Relaxed);
        let was_last = leaver.join().unwrap();
        assert!(seen || was_last, "nobody acts on what was done");
        idle.cancel(1);
        let _ = idle.found();
    });
}
