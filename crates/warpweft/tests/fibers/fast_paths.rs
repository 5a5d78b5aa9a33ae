//! The short ways of a push and of a wait: when they are taken, and what they must not let through.

use crate::eventually::eventually;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why};
use warpweft::{Fifo, Policy, Runtime, spawn_detached, spawn_job};
use warpweft_queue::Locked;

thread_local! {
    /// A hook of `Watched` is on this thread's stack.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

#[derive(Default)]
struct HookCalls {
    /// Kept by the short way, for each reason.
    own: [AtomicUsize; Why::ALL.len()],
    /// Pushed by a worker the long way.
    long: AtomicUsize,
    outside: AtomicUsize,
    suspended: AtomicUsize,
    /// To be woken inside of a hook.
    sleeper: Mutex<Option<Waker>>,
    /// To be spawned inside of hooks.
    spawns: AtomicUsize,
}

impl HookCalls {
    fn own(&self, why: Why) -> usize {
        self.own[why as usize].load(Ordering::SeqCst)
    }
}

/// A queue for each worker, and one for what comes from outside.
struct Watched {
    seen: Arc<HookCalls>,
    watches: bool,
}

type Shared = (Locked<TaskRef>, Arc<HookCalls>, bool);
type Local = (Vec<TaskRef>, Arc<HookCalls>);

impl Policy for Watched {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let local = || (Vec::new(), Arc::clone(&self.seen));
        let locals = (0..env.workers).map(|_| local()).collect();
        Ok(((Locked::new(), Arc::clone(&self.seen), self.watches), locals))
    }
    fn push((queue, seen, _): &Shared, local: Option<&mut Local>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        let count = if local.is_some() {
            &seen.long
        } else {
            &seen.outside
        };
        count.fetch_add(1, Ordering::SeqCst);
        queue.push(task);
        Wake::Any
    }
    fn is_fast_path(_: &Shared, why: Why) -> bool {
        why != Why::Yielded
    }
    fn push_local((own, seen): &mut Local, task: TaskRef) -> Result<(), TaskRef> {
        assert!(!INSIDE.get(), "a hook reached its worker's half once more");
        let why = if task.policy_word() == 1 {
            Why::Woken
        } else {
            Why::Spawned
        };
        seen.own[why as usize].fetch_add(1, Ordering::SeqCst);
        own.push(task);
        Ok(())
    }
    fn watches_waits((_, _, watches): &Shared) -> bool {
        *watches
    }
    fn suspended((_, seen, _): &Shared, _: &mut Local, mut task: Waiting<'_>, _: &Cx<'_>) {
        seen.suspended.fetch_add(1, Ordering::SeqCst);
        task.set_policy_word(1);
    }
    fn next((queue, seen, _): &Shared, (own, _): &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        INSIDE.set(true);
        if seen.spawns.load(Ordering::SeqCst) > 0 {
            seen.spawns.fetch_sub(1, Ordering::SeqCst);
            spawn_detached(|| ());
        }
        let sleeper = seen.sleeper.lock().expect("unpoisoned").take();
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        INSIDE.set(false);
        own.pop().or_else(|| queue.pop())
    }
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let _ = cx;
        local.0.pop().or_else(|| shared.0.pop())
    }
}

fn pool(watches: bool) -> (Runtime, Arc<HookCalls>) {
    let seen = Arc::new(HookCalls::default());
    let policy = Watched {
        seen: Arc::clone(&seen),
        watches,
    };
    let builder = Runtime::builder().workers(1).stuck_after(None).policy(policy);
    (builder.build().expect("one worker"), seen)
}

/// Within a minute.
/// Waits until the flag is set, leaving its waker each time.
async fn open(gate: &(AtomicBool, Mutex<Option<Waker>>)) {
    poll_fn(|cx| {
        *gate.1.lock().expect("unpoisoned") = Some(cx.waker().clone());
        if gate.0.load(Ordering::SeqCst) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

#[test]
fn what_a_worker_spawns_and_wakes_takes_the_short_way() {
    let (runtime, seen) = pool(true);
    let sum = runtime.spawn(async {
        let mut sum = 0;
        for n in 0..10 {
            sum += spawn_job(move || n).await.expect("no panic");
        }
        warpweft::yield_now().await;
        sum
    });
    assert_eq!(sum.wait().expect("no panic"), 45);
    assert_eq!((seen.own(Why::Spawned), seen.own(Why::Woken)), (10, 10));
    assert_eq!(seen.suspended.load(Ordering::SeqCst), 10);
    // It gave way, for which this policy has no short way; and it came from outside.
    assert_eq!(seen.long.load(Ordering::SeqCst), 1);
    assert_eq!(seen.outside.load(Ordering::SeqCst), 1);
    let counted = runtime.counters().total();
    assert_eq!(
        [
            Count::Spawned,
            Count::Resumptions,
            Count::Suspensions,
            Count::Yields
        ]
        .map(|count| counted.get(count)),
        [10, 10, 10, 1]
    );
}

#[test]
fn who_does_not_watch_waits_is_not_told_of_them() {
    let (runtime, seen) = pool(false);
    let sum = runtime
        .spawn(async { spawn_job(|| 1).await.expect("no panic") + spawn_job(|| 2).await.expect("no panic") });
    assert_eq!(sum.wait().expect("no panic"), 3);
    assert_eq!(runtime.counters().total().get(Count::Suspensions), 2);
    assert_eq!(seen.suspended.load(Ordering::SeqCst), 0);
}

#[test]
fn a_hook_that_spawns_or_wakes_does_not_reach_its_own_half_again() {
    let (runtime, seen) = pool(true);
    let gate = Arc::new((AtomicBool::new(false), Mutex::new(None)));
    let sleeper = {
        let gate = Arc::clone(&gate);
        runtime.spawn(async move { open(&gate).await })
    };
    eventually("it sleeps", || seen.suspended.load(Ordering::SeqCst) == 1);
    let outside = seen.outside.load(Ordering::SeqCst);
    gate.0.store(true, Ordering::SeqCst);
    seen.spawns.store(3, Ordering::SeqCst);
    *seen.sleeper.lock().expect("unpoisoned") = gate.1.lock().expect("unpoisoned").take();
    for _ in 0..4 {
        assert!(runtime.spawn_job(|| ()).wait().is_ok());
    }
    assert!(sleeper.wait().is_ok());
    // Four jobs, the hooks' three, and the sleeper.
    eventually("all came from outside", || {
        seen.outside.load(Ordering::SeqCst) == outside + 8
    });
    eventually("all ran", || runtime.counters().total().get(Count::Ran) == 9);
    assert_eq!(seen.own(Why::Woken) + seen.own(Why::Spawned), 0);
}

#[test]
fn a_worker_takes_no_tasks_of_other_pools() {
    let build = || {
        Runtime::builder()
            .workers(1)
            .stuck_after(None)
            .policy(Fifo::new())
            .build()
    };
    let (here, there) = (
        Arc::new(build().expect("one worker")),
        Arc::new(build().expect("one worker")),
    );
    let gate = Arc::new((AtomicBool::new(false), Mutex::new(None)));
    let sleeper = {
        let gate = Arc::clone(&gate);
        there.spawn(async move { open(&gate).await })
    };
    eventually("it sleeps", || {
        there.counters().total().get(Count::Suspensions) == 1
    });
    let opener = {
        let there = Arc::clone(&there);
        here.spawn_job(move || {
            gate.0.store(true, Ordering::SeqCst);
            let waker = gate.1.lock().expect("unpoisoned").take();
            waker.expect("it left one").wake();
            warpweft::TaskBuilder::new().on(&there).spawn_detached(|| ());
        })
    };
    assert!(opener.wait().is_ok() && sleeper.wait().is_ok());
    eventually("each ran its own", || {
        [&here, &there].map(|runtime| runtime.counters().total().get(Count::Ran)) == [1, 3]
    });
    // From the one's worker it is from outside of the other.
    assert_eq!(there.counters().total().get(Count::Injected), 2);
}

#[test]
fn a_push_of_a_worker_that_computes_on_wakes_a_sleeper() {
    let runtime = Runtime::builder()
        .workers(2)
        .stuck_after(None)
        .policy(Fifo::new())
        .build();
    let runtime = Arc::new(runtime.expect("two workers"));
    for _ in 0..20 {
        let observed = Arc::clone(&runtime);
        let ran = runtime.spawn_job(move || {
            // A worker that still searches, or looks once more before it sleeps, would find the task without
            // being woken.
            eventually("the other worker sleeps", || observed.idle_workers() == (0, 1));
            thread::sleep(Duration::from_millis(1));
            let ran = Arc::new(AtomicBool::new(false));
            let set = Arc::clone(&ran);
            spawn_detached(move || set.store(true, Ordering::SeqCst));
            let start = Instant::now();
            while !ran.load(Ordering::SeqCst) && start.elapsed() < Duration::from_secs(20) {
                std::hint::spin_loop();
            }
            ran.load(Ordering::SeqCst)
        });
        assert!(ran.wait().expect("no panic"), "nobody woke to take it");
    }
}
