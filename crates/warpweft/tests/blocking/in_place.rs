//! Closures that block in the system: the worker goes on without them.

use crate::everywhere::everywhere;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use warpweft::policy::Count;
use warpweft::{
    JoinError, JoinHandle, Runtime, block_on, blocking, join, par_for, scope, spawn, spawn_job, yield_now,
};

#[test]
fn others_go_on_while_a_closure_blocks() {
    everywhere(|runtime| {
        let job = runtime.spawn_job(|| {
            let (send, receive) = mpsc::channel();
            // More of them than there are workers, all of which block before one goes on.
            let blocked: Vec<_> = (0..8)
                .map(|_| {
                    let (open, gate) = mpsc::channel::<()>();
                    let ready = send.clone();
                    spawn_job(move || {
                        blocking(|| {
                            ready.send(open).expect("the test waits");
                            gate.recv().is_ok()
                        })
                    })
                })
                .collect();
            let gates: Vec<_> = blocking(|| receive.iter().take(8).collect());
            gates
                .iter()
                .for_each(|gate: &mpsc::Sender<()>| gate.send(()).expect("it waits"));
            blocked.into_iter().all(|job| job.wait().expect("no panic"))
        });
        assert!(job.wait().expect("no panic"));
        let threads = runtime.threads();
        assert!((8..=9).contains(&threads.handed_over), "{threads:?}");
        assert_eq!((threads.kept, threads.blocked), (0, 0), "{threads:?}");
    });
}

#[test]
fn it_borrows_and_what_is_not_send_stays_on_its_thread() {
    everywhere(|runtime| {
        let job = runtime.spawn_job(|| {
            let mut words = vec![String::from("warp")];
            let local = std::rc::Rc::new(thread::current().id());
            let length = blocking(|| {
                assert_eq!(*local, thread::current().id());
                words.push(String::from("weft"));
                words.len()
            });
            (length, words.concat())
        });
        assert_eq!(job.wait().expect("no panic"), (2, String::from("warpweft")));
    });
}

#[test]
fn a_panic_goes_on_where_it_was_called() {
    everywhere(|runtime| {
        let task = runtime.spawn(async {
            let caught = catch_unwind(AssertUnwindSafe(|| blocking(|| panic!("inside"))));
            let text = *caught
                .expect_err("it panicked")
                .downcast::<&str>()
                .expect("a text");
            yield_now().await;
            (text, spawn(async { 1 }).await.expect("no panic"))
        });
        assert_eq!(task.wait().expect("no panic"), ("inside", 1));
        let task = runtime.spawn(async { blocking(|| panic!("and out")) });
        assert!(matches!(task.wait(), Err(JoinError::Panicked(_))));
        assert_eq!(runtime.threads().blocked, 0);
    });
}

#[test]
fn inside_the_thread_is_an_external_thread_of_its_pool() {
    everywhere(|runtime| {
        let injected = runtime.counters().total().get(Count::Injected);
        let names = runtime.spawn_job(|| {
            blocking(|| {
                let name = || thread::current().name().map(str::to_owned).expect("named");
                let spawned = spawn_job(name).wait().expect("no panic");
                let (awaited, own) = block_on(async { (spawn_job(name).await.expect("no panic"), name()) });
                [spawned, awaited, own]
            })
        });
        let names = names.wait().expect("no panic");
        assert!(
            names.iter().all(|name| name.starts_with("warpweft-")),
            "{names:?}"
        );
        assert_ne!(names[0], names[2]);
        assert_ne!(names[1], names[2]);
        // The job itself, and the two that were spawned without a worker.
        assert_eq!(runtime.counters().total().get(Count::Injected), injected + 3);
    });
}

#[test]
fn forks_inside_and_outside() {
    fn sum(numbers: &[u64]) -> u64 {
        if numbers.len() < 10 {
            return blocking(|| numbers.iter().sum());
        }
        let (left, right) = numbers.split_at(numbers.len() / 2);
        let (left, right) = join(|| sum(left), || sum(right));
        left + right
    }
    everywhere(|runtime| {
        let numbers: Vec<u64> = (0..1000).collect();
        assert_eq!(runtime.install(|_| sum(&numbers)).expect("open"), 499_500);
        assert_eq!(
            runtime.install(|_| blocking(|| sum(&numbers))).expect("open"),
            499_500
        );
        let seen = Mutex::new(Vec::new());
        let on_a_worker = runtime.install(|_| {
            scope(|scope| {
                for n in 0..10 {
                    let seen = &seen;
                    scope.spawn(move |_| blocking(|| seen.lock().expect("unpoisoned").push(n)));
                }
            });
            // From the thread that blocks nobody could take a fork: a worker does it.
            let here = thread::current().id();
            blocking(|| runtime.install(|_| par_for(0..10, 1, |_| assert_ne!(thread::current().id(), here))))
        });
        on_a_worker.expect("open").expect("open");
        assert_eq!(seen.lock().expect("unpoisoned").len(), 10);
    });
}

#[test]
fn a_lock_may_be_held_across_it() {
    everywhere(|runtime| {
        let lock = Arc::new(Mutex::new(0));
        let jobs: Vec<_> = (0..20)
            .map(|_| {
                let lock = Arc::clone(&lock);
                runtime.spawn_job(move || {
                    let mut count = blocking(|| lock.lock().expect("unpoisoned"));
                    *count += blocking(|| 1);
                    drop(count);
                })
            })
            .collect();
        for job in jobs {
            job.wait().expect("no panic");
        }
        assert_eq!(*lock.lock().expect("unpoisoned"), 20);
    });
}

#[test]
fn inside_a_visit_to_another_runtime() {
    everywhere(|runtime| {
        let other = Arc::new(Runtime::builder().workers(1).name("other").build().expect("one"));
        let inside = Arc::clone(&other);
        let job = runtime.spawn_job(move || {
            let name = || thread::current().name().map(str::to_owned).expect("named");
            let there = inside.block_on(async { blocking(|| spawn_job(name).wait().expect("no panic")) });
            let here = spawn_job(name).wait().expect("no panic");
            (there, here)
        });
        let (there, here) = job.wait().expect("no panic");
        assert!(there.starts_with("other-"), "{there}");
        assert!(here.starts_with("warpweft-"), "{here}");
        assert_eq!(
            (runtime.threads().handed_over, other.threads().handed_over),
            (1, 0)
        );
    });
}

#[test]
fn without_spare_threads_the_worker_is_kept() {
    for workers in [1, 2, 4] {
        let runtime = Runtime::builder()
            .workers(workers)
            .max_threads(workers)
            .build()
            .expect("workers");
        let jobs: Vec<_> = (0..10)
            .map(|n| runtime.spawn_job(move || blocking(|| blocking(|| n))))
            .collect();
        let got: Vec<_> = jobs
            .into_iter()
            .map(|job| job.wait().expect("no panic"))
            .collect();
        assert_eq!(got, (0..10).collect::<Vec<_>>());
        // The inner ones ask again: they know no better.
        let threads = runtime.threads();
        assert_eq!((threads.kept, threads.handed_over), (20, 0), "{threads:?}");
    }
}

#[test]
fn outside_of_any_pool_it_calls_the_closure() {
    let here = thread::current().id();
    assert_eq!(blocking(|| thread::current().id()), here);
    let runtime = Runtime::builder().workers(1).build().expect("one worker");
    assert_eq!(
        runtime.block_on(async { blocking(|| thread::current().id()) }),
        here
    );
    assert_eq!(runtime.threads().handed_over, 0);
}

#[test]
fn a_pool_that_closes_waits_for_the_closure_and_the_frame_goes_on() {
    everywhere(|runtime| {
        let (started, wait) = mpsc::channel();
        let (open, gate) = mpsc::channel::<()>();
        let job = runtime.spawn_job(move || {
            blocking(|| {
                started.send(()).expect("the test waits");
                gate.recv().expect("it is opened");
            });
            spawn_job(|| ()).wait()
        });
        wait.recv().expect("the job runs");
        thread::scope(|threads| {
            let end = threads.spawn(|| runtime.shutdown());
            while runtime.try_spawn_job(|| ()).is_ok() {
                thread::yield_now();
            }
            assert!(!end.is_finished() && !job.is_finished());
            open.send(()).expect("it waits");
        });
        let refused = job.wait().expect("it went on to its end");
        // If the spare thread had not even come, the frame has kept its worker, and others may have run what
        // it spawned.
        let kept = runtime.threads().taken_back == 1;
        assert!(kept || matches!(refused, Err(JoinError::Shutdown)), "{refused:?}");
    });
}

/// Spawns a task that sends its waker, waits to be woken, and answers. Returns the two receivers and its
/// handle.
pub(crate) fn sleeper(runtime: &Runtime) -> (Receiver<Waker>, Receiver<()>, JoinHandle<()>) {
    let (notify, notified) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let sleeper = runtime.spawn(async move {
        let mut asked = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(());
            }
            notify.send(cx.waker().clone()).expect("the other task waits");
            Poll::Pending
        })
        .await;
        answer.send(()).expect("the other task waits");
    });
    (notified, answered, sleeper)
}

/// The program of tokio#4730: a task wakes another one and then blocks. There the woken task lies in a place
/// where nobody else can take it from; here the worker that has it goes on.
#[test]
fn a_task_that_wakes_another_and_then_blocks_does_not_hold_it_up() {
    everywhere(|runtime| {
        for _ in 0..50 {
            let (notified, answered, sleeper) = sleeper(runtime);
            let hog = runtime.spawn(async move {
                let waker = blocking(|| notified.recv().expect("it is sent"));
                waker.wake();
                // Blocks until the task that it has just woken on this worker has run.
                blocking(|| answered.recv().expect("it is sent"));
            });
            hog.wait().expect("no panic");
            sleeper.wait().expect("no panic");
        }
    });
}

#[test]
fn a_fiber_waits_in_blocking_and_comes_back_with_another_worker() {
    everywhere(|runtime| {
        for _ in 0..10 {
            let fiber = runtime.spawn_fiber(|| blocking(|| spawn_job(|| 1).wait().expect("no panic")));
            assert_eq!(fiber.wait().expect("no panic"), 1);
        }
        assert_eq!(runtime.threads().blocked, 0);
    });
}
