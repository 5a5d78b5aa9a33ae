//! Tasks that wait without awaiting: the thread waits, the worker goes on.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use warpweft::policy::Count;
use warpweft::{JoinError, Runtime, block_on, spawn, spawn_job, yield_now};

#[test]
fn a_job_waits_for_a_job() {
    everywhere(|runtime| {
        let sum = runtime.spawn_job(|| {
            let halves = [spawn_job(|| 1), spawn_job(|| 2)];
            halves
                .map(|half| half.wait().expect("no panic"))
                .iter()
                .sum::<i32>()
        });
        assert_eq!(sum.wait().expect("no panic"), 3);
    });
}

#[test]
fn a_chain_of_waiting_jobs_needs_a_thread_for_each() {
    fn chain(n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        1 + spawn_job(move || chain(n - 1)).wait().expect("no panic")
    }
    everywhere(|runtime| {
        let length = runtime.spawn_job(|| chain(50)).wait().expect("no panic");
        assert_eq!(length, 50);
        assert!(runtime.threads().most >= 51, "{:?}", runtime.threads());
        eventually("the spares retire", || {
            let threads = runtime.threads();
            threads.blocked == 0 && threads.all <= runtime.workers() + 2
        });
    });
}

#[test]
fn a_future_blocks_on_a_future() {
    everywhere(|runtime| {
        let handle = runtime.spawn(async {
            yield_now().await;
            let inner = block_on(async {
                yield_now().await;
                spawn(async { 20 }).await.expect("no panic")
            });
            yield_now().await;
            inner + spawn(async { 1 }).await.expect("no panic")
        });
        assert_eq!(handle.wait().expect("no panic"), 21);
    });
}

#[test]
fn a_task_blocks_on_another_runtime() {
    everywhere(|runtime| {
        let other = Arc::new(Runtime::builder().workers(1).name("other").build().expect("one"));
        let inside = Arc::clone(&other);
        let here = runtime.spawn_job(move || {
            let name = || thread::current().name().map(str::to_owned).expect("named");
            let there = inside.block_on(async { spawn_job(name).await.expect("no panic") });
            // After the visit, and on whichever worker, free functions find this pool again.
            let here = spawn_job(name).wait().expect("no panic");
            (there, here)
        });
        let (there, here) = here.wait().expect("no panic");
        assert!(there.starts_with("other-"), "{there}");
        assert!(here.starts_with("warpweft-"), "{here}");
    });
}

#[test]
fn a_lock_may_be_held_across_a_wait() {
    everywhere(|runtime| {
        let lock = Arc::new(Mutex::new(0));
        let jobs: Vec<_> = (0..20)
            .map(|_| {
                let lock = Arc::clone(&lock);
                runtime.spawn_job(move || {
                    let one = spawn_job(|| 1);
                    let Ok(mut sum) = lock.try_lock() else {
                        // To block in a lock of the system is invisible to the pool: not this test's matter.
                        return one.wait().map(|_| ()).expect("no panic");
                    };
                    // Whatever runs meanwhile, it does not run on top of this frame, and does not see the
                    // lock held by its own thread.
                    *sum += one.wait().expect("no panic");
                })
            })
            .collect();
        for job in jobs {
            job.wait().expect("no panic");
        }
        assert!(*lock.lock().expect("not poisoned") >= 1);
    });
}

#[test]
fn a_storm_of_waits_leaves_no_threads_behind() {
    let runtime = Runtime::builder().workers(2).build().expect("two workers");
    let (open, gate) = async_gate();
    let waiting = Arc::new(AtomicUsize::new(0));
    let jobs: Vec<_> = (0..1000)
        .map(|_| {
            let (gate, waiting) = (gate.clone(), Arc::clone(&waiting));
            runtime.spawn_job(move || {
                waiting.fetch_add(1, Ordering::Relaxed);
                block_on(gate);
            })
        })
        .collect();
    eventually("all wait", || waiting.load(Ordering::Relaxed) == 1000);
    open.open();
    for job in jobs {
        job.wait().expect("no panic");
    }
    assert!(runtime.threads().most > 100, "{:?}", runtime.threads());
    eventually("the threads retire", || runtime.threads().all <= 4);
    assert_eq!(runtime.threads().blocked, 0);
}

#[test]
fn without_spare_threads_the_wait_works_on_top() {
    for workers in [1, 2] {
        let runtime = Runtime::builder()
            .workers(workers)
            .max_threads(workers)
            .build()
            .expect("workers");
        fn chain(n: usize) -> usize {
            if n == 0 {
                return 0;
            }
            1 + spawn_job(move || chain(n - 1)).wait().expect("no panic")
        }
        let jobs: Vec<_> = (0..10).map(|_| runtime.spawn_job(|| chain(20))).collect();
        for job in jobs {
            assert_eq!(job.wait().expect("no panic"), 20);
        }
        assert!(runtime.counters().total().get(Count::Stacked) > 0);
        assert_eq!(runtime.threads().most, workers);
    }
}

#[test]
fn threads_that_wait_come_back_when_the_pool_closes() {
    everywhere(|runtime| {
        let (started, wait) = mpsc::channel();
        let sleeper = runtime.spawn(std::future::pending::<()>());
        let job = runtime.spawn_job(move || {
            started.send(()).expect("the test waits");
            // Ends with the pool, and this job goes on to its end, without a worker.
            let slept = sleeper.wait();
            (matches!(slept, Err(JoinError::Shutdown)), spawn_job(|| ()).wait())
        });
        wait.recv().expect("the job runs");
        eventually("it waits", || runtime.threads().blocked == 1);
        runtime.shutdown();
        let (slept, refused) = job.wait().expect("no panic");
        assert!(slept);
        assert!(matches!(refused, Err(JoinError::Shutdown)), "{refused:?}");
    });
}

#[test]
fn a_future_that_waits_for_the_end_of_its_pool_ends_with_it() {
    everywhere(|runtime| {
        let (started, wait) = mpsc::channel();
        let sleeper = runtime.spawn(std::future::pending::<()>());
        let task = runtime.spawn(async move {
            yield_now().await;
            started.send(()).expect("the test waits");
            let slept = sleeper.wait();
            // It cannot be suspended any more: it ends here.
            yield_now().await;
            slept
        });
        wait.recv().expect("the task runs");
        eventually("it waits", || runtime.threads().blocked == 1);
        runtime.shutdown();
        assert!(matches!(task.wait(), Err(JoinError::Shutdown)));
    });
}

/// A gate that futures wait at.
fn async_gate() -> (Opener, Gate) {
    let inner = Arc::new(Mutex::new((false, Vec::new())));
    (Opener(Arc::clone(&inner)), Gate(inner))
}

type Waiting = Arc<Mutex<(bool, Vec<std::task::Waker>)>>;

struct Opener(Waiting);

impl Opener {
    fn open(self) {
        let wakers = {
            let mut gate = self.0.lock().expect("not poisoned");
            gate.0 = true;
            std::mem::take(&mut gate.1)
        };
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}

#[derive(Clone)]
struct Gate(Waiting);

impl Future for Gate {
    type Output = ();

    fn poll(self: std::pin::Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        let mut gate = self.0.lock().expect("not poisoned");
        if gate.0 {
            return std::task::Poll::Ready(());
        }
        gate.1.push(cx.waker().clone());
        std::task::Poll::Pending
    }
}
