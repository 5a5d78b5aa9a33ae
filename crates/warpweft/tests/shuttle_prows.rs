//! Whole pools under proactive work stealing: one model for each bug that the author of ProWS-R met (N.
//! Weidinger, 2022, section 4.4).
//!
//! When a pool has ended in which every task did, no deque may be left: such a deque would wait for no task.
//!
//! `WARPWEFT_SHUTTLE_ITERATIONS` says how many schedules of each kind are tried (default 200).
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use support::{check, check_with};
use warpweft::policy::{Count, Cx, Policy, PolicyError, PoolEnv, ProWs, TaskRef, Waiting, Wake, Why, prows};
use warpweft::{JoinError, Runtime, spawn_detached, spawn_job, yield_now};
use warpweft_queue::{DequeState, DequeView};

/// What was left when the pool had ended.
type Left = Arc<Mutex<Option<Vec<DequeView>>>>;

/// The policy, watched: after each hook it checks that its deques are in valid states. At the end it reports
/// which are left.
struct Watched(Left);

struct Shared {
    deques: prows::Shared,
    left: Left,
}

impl Drop for Shared {
    fn drop(&mut self) {
        *self.left.lock().expect("unpoisoned") = Some(self.deques.states());
    }
}

impl Shared {
    fn watch(&self) {
        for deque in self.deques.states() {
            let empty = deque.tasks == 0;
            assert_eq!(empty, deque.set.is_none(), "{deque:?}");
            assert!(!empty || deque.state == DequeState::Suspended, "{deque:?}");
        }
    }
}

impl Policy for Watched {
    type Shared = Shared;
    type Local = prows::Local;
    const WATCHES_COMPLETIONS: bool = ProWs::WATCHES_COMPLETIONS;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<prows::Local>), PolicyError> {
        let (deques, locals) = ProWs::new().capacity(2).build(env)?;
        let left = Arc::clone(&self.0);
        Ok((Shared { deques, left }, locals))
    }
    fn push(s: &Shared, w: Option<&mut prows::Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let wake = ProWs::push(&s.deques, w, task, why, cx);
        s.watch();
        wake
    }
    fn suspended(s: &Shared, w: &mut prows::Local, task: Waiting<'_>, cx: &Cx<'_>) {
        ProWs::suspended(&s.deques, w, task, cx);
        s.watch();
    }
    fn next(s: &Shared, w: &mut prows::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        ProWs::next(&s.deques, w, cx)
    }
    fn poll_global(s: &Shared, w: &mut prows::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        ProWs::poll_global(&s.deques, w, cx)
    }
    fn search(s: &Shared, w: &mut prows::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        let found = ProWs::search(&s.deques, w, cx);
        s.watch();
        found
    }
    fn scan(s: &Shared, w: &mut prows::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        ProWs::scan(&s.deques, w, cx)
    }
    fn is_only_ready(s: &Shared, w: &prows::Local) -> bool {
        ProWs::is_only_ready(&s.deques, w)
    }
    fn completed(s: &Shared, w: &mut prows::Local, policy_word: u64) {
        ProWs::completed(&s.deques, w, policy_word);
        s.watch();
    }
}

/// Runs `program` in a watched pool. Every task of it must end by itself.
fn pool(workers: usize, program: impl FnOnce(&Runtime)) {
    let left = Left::default();
    let runtime = Runtime::builder()
        .workers(workers)
        .policy(Watched(Arc::clone(&left)))
        .build()
        .expect("a small pool");
    program(&runtime);
    runtime.shutdown();
    drop(runtime);
    let left = left.lock().expect("unpoisoned").take();
    assert_eq!(left, Some(Vec::new()), "a deque is left over");
}

/// An event that happens once. Until then tasks wait for it, and each wakes up twice.
#[derive(Clone, Default)]
struct Notified(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Notified {
    fn notify(&self) {
        let wakers = {
            let mut wakeup = self.0.lock().expect("unpoisoned");
            wakeup.0 = true;
            std::mem::take(&mut wakeup.1)
        };
        wakers.iter().for_each(Waker::wake_by_ref);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn wakers(&self) -> Vec<Waker> {
        self.0.lock().expect("unpoisoned").1.clone()
    }
}

impl Future for Notified {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut wakeup = self.0.lock().expect("unpoisoned");
        if wakeup.0 {
            return Poll::Ready(());
        }
        wakeup.1.push(cx.waker().clone());
        Poll::Pending
    }
}

fn count(ran: &AtomicUsize) {
    ran.fetch_add(1, Ordering::SeqCst);
}

/// Leaves a deque with `jobs` jobs behind, then one more job for the task that comes back.
async fn leaves(jobs: usize, wakeup: Notified, ran: Arc<AtomicUsize>) {
    for _ in 0..jobs {
        let ran = Arc::clone(&ran);
        spawn_detached(move || count(&ran));
    }
    wakeup.await;
    spawn_job(move || ran.fetch_add(1, Ordering::SeqCst))
        .await
        .expect("no panic");
}

/// The main program of most models: tasks whose deques have the given numbers of jobs wait for one event.
fn all_come_back(workers: usize, jobs: &'static [usize]) {
    let ran = Arc::new(AtomicUsize::new(0));
    pool(workers, |runtime| {
        let wakeup = Notified::default();
        let tasks: Vec<_> = jobs
            .iter()
            .map(|&jobs| runtime.spawn(leaves(jobs, wakeup.clone(), Arc::clone(&ran))))
            .collect();
        let notifier = thread::spawn(move || wakeup.notify());
        for task in tasks {
            task.wait().expect("no panic");
        }
        notifier.join().expect("no panic");
        let all = jobs.iter().map(|jobs| jobs + 1).sum::<usize>();
        while ran.load(Ordering::SeqCst) < all {
            thread::yield_now();
        }
    });
    assert_eq!(
        ran.load(Ordering::SeqCst),
        jobs.iter().map(|jobs| jobs + 1).sum::<usize>()
    );
}

/// Deques with and without tasks are woken, twice each, while thieves steal from them: before, while and
/// after they are suspended.
#[test]
fn repeated_wakes() {
    check(|| all_come_back(2, &[0, 2]));
}

/// One worker: it meets its own deques again.
#[test]
fn one_worker() {
    check(|| all_come_back(1, &[1, 0, 3]));
}

/// Three workers over few deques: two of them want the same one.
#[test]
fn mugging_races() {
    check(|| all_come_back(3, &[3, 2]));
}

/// A task that is woken while it is polled, by itself and by another thread, runs again, and nothing waits
/// for it.
#[test]
fn woken_during_its_poll() {
    struct Eager(usize);
    impl Future for Eager {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.0 += 1;
            if self.0 == 3 {
                return Poll::Ready(());
            }
            let waker = cx.waker().clone();
            thread::spawn(move || waker.wake());
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    check(|| {
        pool(2, |runtime| {
            let task = runtime.spawn(async {
                let job = spawn_job(|| 7);
                Eager(0).await;
                yield_now().await;
                job.await.expect("no panic")
            });
            assert_eq!(task.wait().expect("no panic"), 7);
        });
    });
}

/// Left-over wakers wake neither a task that has ended, nor a later one, nor a pool that is gone.
#[test]
fn woken_after_its_end() {
    check(|| {
        let mut late = Vec::new();
        pool(2, |runtime| {
            let wakeup = Notified::default();
            let first = runtime.spawn(wakeup.clone());
            while wakeup.wakers().is_empty() {
                thread::yield_now();
            }
            late = wakeup.wakers();
            wakeup.notify();
            first.wait().expect("no panic");
            let again = late.clone();
            let waker = thread::spawn(move || again.into_iter().for_each(Waker::wake));
            let other = Notified::default();
            let second = runtime.spawn(other.clone());
            other.notify();
            second.wait().expect("no panic");
            waker.join().expect("no panic");
        });
        late.into_iter().for_each(Waker::wake);
    });
}

/// All workers are asleep when the deque becomes resumable: one of them wakes up.
#[test]
fn all_workers_asleep_while_a_deque_is_resumable() {
    let asleep = |jobs: usize| {
        check_with(Arc::new(move || {
            pool(2, |runtime| {
                let (wakeup, ran) = (Notified::default(), Arc::new(AtomicUsize::new(0)));
                let task = runtime.spawn(leaves(jobs, wakeup.clone(), Arc::clone(&ran)));
                while wakeup.wakers().is_empty() || runtime.idle_workers() != (0, 2) {
                    thread::yield_now();
                }
                assert_eq!(ran.load(Ordering::SeqCst), jobs, "what was left was done");
                wakeup.notify();
                task.wait().expect("no panic");
            });
        }));
    };
    asleep(0);
    asleep(2);
}

/// A task is cancelled while its deque waits for it, or just then. The others in the deque run, and no worker
/// leaves the deque.
#[test]
fn cancelled_while_its_deque_waits() {
    check(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        pool(2, |runtime| {
            let wakeup = Notified::default();
            let task = runtime.spawn(leaves(2, wakeup.clone(), Arc::clone(&ran)));
            let notifier = thread::spawn(move || wakeup.notify());
            task.cancel();
            match task.wait() {
                Ok(()) | Err(JoinError::Cancelled) => {}
                other => panic!("unexpected: {other:?}"),
            }
            notifier.join().expect("no panic");
            while runtime.idle_workers() != (0, 2) {
                thread::yield_now();
            }
        });
        assert!([0, 2, 3].contains(&ran.load(Ordering::SeqCst)));
    });
}

/// No waker of the task is left when it begins to wait: the task ends, and so does the waiting of its deque.
#[test]
fn no_waker_is_left() {
    struct Forgets;
    impl Future for Forgets {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }
    check(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        pool(2, |runtime| {
            let inner = Arc::clone(&ran);
            drop(runtime.spawn(async move {
                spawn_detached(move || count(&inner));
                Forgets.await;
            }));
            while ran.load(Ordering::SeqCst) == 0 || runtime.idle_workers() != (0, 2) {
                thread::yield_now();
            }
        });
    });
}

/// A pool that ends with waiting deques gives an answer for each task.
#[test]
fn the_end_of_a_pool_with_deques_that_wait() {
    check(|| {
        let left = Left::default();
        let runtime = Runtime::builder()
            .workers(2)
            .policy(Watched(Arc::clone(&left)))
            .build()
            .expect("a small pool");
        let (wakeup, ran) = (Notified::default(), Arc::new(AtomicUsize::new(0)));
        let tasks = [0, 2].map(|jobs| runtime.spawn(leaves(jobs, wakeup.clone(), Arc::clone(&ran))));
        let notifier = thread::spawn(move || wakeup.notify());
        drop(runtime);
        for task in tasks {
            match task.wait() {
                Ok(()) | Err(JoinError::Shutdown | JoinError::Panicked(_)) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
        notifier.join().expect("no panic");
        assert!(
            left.lock().expect("unpoisoned").is_some(),
            "the policy is dropped"
        );
    });
}

/// The counters show that a deque was left, and taken over by the worker that stole from it.
#[test]
fn a_deque_is_left_and_taken_over() {
    check(|| {
        pool(1, |runtime| {
            let (wakeup, ran) = (Notified::default(), Arc::new(AtomicUsize::new(0)));
            let notifier = wakeup.clone();
            // Behind the waker, at the top of the deque, so that it is stolen first and wakes the tasks while
            // two others are left.
            let task = runtime.spawn(async move {
                spawn_detached(move || notifier.notify());
                leaves(2, wakeup, ran).await;
            });
            task.wait().expect("no panic");
            let total = runtime.counters().total();
            assert!(total.get(Count::DequesLeft) >= 1);
            assert_eq!(total.get(Count::Muggings), 1);
        });
    });
}
