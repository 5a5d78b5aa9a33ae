//! What a task may do in the child that it forked, and what the parent's runtime answers there.
#![cfg(feature = "net")]

use crate::busy_parent;
use crate::children::{End, FAILED, RETURNED, Shared, end_of, fork, leave};
use crate::runtime;
use std::any::Any;
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use warpweft::effect::{Coroutine, Effect, Handler, Next, perform};
use warpweft::net::UdpSocket;
use warpweft::sync::{Mutex, Notify, channel};
use warpweft::{
    BlockingError, EnterError, JoinError, JoinHandle, Runtime, SpawnError, block_on, fiber, join, scope,
    spawn, spawn_blocking, spawn_job, time, try_spawn_blocking, yield_now,
};

const ROUNDS: usize = 10;

/// How a child ends that is forked in a job, a fiber, a future and a closure that blocks, and does `body`
/// there.
fn in_each_kind(expected: End, body: impl Fn(&Runtime) + Clone + Send + 'static) {
    for round in 0..ROUNDS {
        let workers = [1, 2, 4][round % 3];
        let runtime = Arc::new(runtime(workers));
        let forks = || {
            let (body, runtime) = (body.clone(), Arc::clone(&runtime));
            move || {
                let child = fork();
                if child == 0 {
                    body(&runtime);
                }
                child
            }
        };
        let (future, closure) = (forks(), forks());
        let kinds: [(&str, JoinHandle<libc::pid_t>); 4] = [
            ("job", runtime.spawn_job(forks())),
            ("fiber", runtime.spawn_fiber(forks())),
            ("future", runtime.spawn(async move { future() })),
            ("blocking", runtime.try_spawn_blocking(closure).expect("room")),
        ];
        for (kind, task) in kinds {
            let child = task.wait().expect("no panic");
            assert_eq!(end_of(child), expected, "{kind}, {workers} workers");
        }
        // The tasks held it, but for the handles' sake not longer than they ran.
        while Arc::strong_count(&runtime) > 1 {
            std::thread::yield_now();
        }
    }
}

fn is_forked(end: &Result<(), JoinError>) {
    assert!(matches!(end, Err(JoinError::Forked)), "{end:?}");
}

/// What `f` panics with, as text; empty if it does not.
fn panic_of<T>(f: impl FnOnce() -> T) -> String {
    let text = |payload: Box<dyn Any + Send>| match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast::<&str>()
            .map_or(String::new(), |text| (*text).to_owned()),
    };
    catch_unwind(AssertUnwindSafe(f))
        .err()
        .map_or(String::new(), text)
}

fn a_runtime_of_its_own_works_in_the_child() {
    in_each_kind(RETURNED, |_| {
        let own = runtime(2);
        assert_eq!(own.spawn_job(|| 2).wait().expect("no panic"), 2);
        let sum = own.block_on(async {
            time::sleep(Duration::from_millis(1)).await;
            spawn(async { 1 }).await.expect("no panic") + spawn_blocking(|| 2).await.expect("no panic")
        });
        assert_eq!(sum, 3);
        assert_eq!(own.install(|cx| cx.join(|_| 3, |_| 4)).expect("open"), (3, 4));
        let (send, receive) = channel::bounded(1);
        let fiber = own.spawn_fiber(move || (0..100).all(|n| send.send(n).wait().is_ok()));
        assert!((0..100).all(|n| receive.recv().wait() == Ok(n)));
        assert!(fiber.wait().expect("no panic"));
        own.shutdown();
    });
}

fn a_future_that_forked_awaits_a_runtime_of_its_own() {
    for round in 0..ROUNDS {
        let runtime = runtime(1 + round % 2);
        let body = async {
            let child = fork();
            if child == 0 {
                let own = self::runtime(1);
                for n in 0..10 {
                    assert_eq!(own.spawn(async move { n }).await.expect("no panic"), n);
                }
            }
            child
        };
        // As a task; and in the middle of a wait of a fiber, which began in the parent.
        let task = if round % 3 == 0 {
            runtime.spawn_fiber(|| fiber::wait(body))
        } else {
            runtime.spawn(body)
        };
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
    }
}

fn what_is_asked_of_the_parents_runtime_is_an_error() {
    in_each_kind(RETURNED, |runtime| {
        is_forked(&runtime.spawn_job(|| ()).wait());
        is_forked(&runtime.spawn(async {}).wait());
        is_forked(&runtime.spawn_fiber(|| ()).wait());
        is_forked(&runtime.spawn_blocking(|| ()).wait());
        is_forked(&spawn_job(|| ()).wait());
        is_forked(&fiber::spawn(|| ()).wait());
        is_forked(&fiber::spawn_here(|| ()).wait());
        assert_eq!(runtime.try_spawn_job(|| ()).err(), Some(SpawnError::Forked));
        assert_eq!(runtime.install(|_| ()), Err(SpawnError::Forked));
        assert_eq!(runtime.broadcast(|_| ()), Err(SpawnError::Forked));
        assert_eq!(runtime.first().run(|| ()), Err(EnterError::Forked));
        let refused = try_spawn_blocking(|| ()).expect_err("no threads");
        assert!(matches!(refused.error(), BlockingError::Forked), "{refused}");
        let error = panic_of(|| block_on(time::sleep(Duration::from_secs(1000))));
        assert!(error.contains("forked process"), "{error}");
        let error = UdpSocket::bind(([127, 0, 0, 1], 0)).expect_err("no poller");
        assert!(error.to_string().contains("forked process"), "{error}");
        // Its threads are given the stacks of the parent's threads, in which the frames were that waited.
        let own = self::runtime(1);
        let all = warpweft::dump_all();
        let number = |forked| all.pools.iter().filter(|pool| pool.forked == forked).count();
        assert!(number(true) >= 1 && number(false) == 1, "{all}");
        drop(own);
        assert!(warpweft::dump_all().pools.iter().all(|pool| pool.forked));
        let dump = runtime.dump();
        assert!(
            dump.pools[0].forked && dump.to_string().contains("in the parent of this forked"),
            "{dump}"
        );
        runtime.shutdown();
    });
}

fn a_handle_of_a_task_that_stayed_in_the_parent_gives_an_error_wherever_it_is_awaited() {
    for round in 0..3 * ROUNDS {
        let runtime = runtime(2);
        let over = Arc::new(Notify::new());
        let (first, second) = (Arc::clone(&over), Arc::clone(&over));
        let old = [
            runtime.spawn(async move { first.notified().await }),
            runtime.spawn_fiber(move || second.notified().wait()),
        ];
        let child = move || {
            let child = fork();
            if child == 0 {
                let [future, fiber] = old;
                assert!(!future.is_finished());
                match round % 3 {
                    0 => is_forked(&future.wait()),
                    1 => is_forked(&self::runtime(1).block_on(future)),
                    _ => {
                        // Tasks of a runtime of this process.
                        let own = self::runtime(1);
                        is_forked(&own.spawn(future).wait().expect("no panic"));
                        return own
                            .spawn_fiber(|| is_forked(&fiber.wait()))
                            .wait()
                            .map_or(1, |()| 0);
                    }
                }
                fiber.cancel();
                is_forked(&fiber.wait());
            }
            child
        };
        let child = runtime.spawn_job(child).wait().expect("no panic");
        assert_eq!(end_of(child), RETURNED);
        over.notify_all();
    }
}

fn a_wait_that_nothing_can_end_is_a_panic() {
    let stuck = "nothing can end";
    for round in 0..ROUNDS {
        let runtime = runtime(2);
        let lock = Arc::new(Mutex::new(()));
        let (locked, theirs) = (Arc::new(AtomicBool::new(false)), Arc::clone(&lock));
        let (over, has) = (Arc::new(AtomicBool::new(false)), Arc::clone(&locked));
        let (goes_on, sleeping) = (Arc::clone(&over), Arc::new(Notify::new()));
        let holder = runtime.spawn(async move {
            let _guard = theirs.lock().await;
            has.store(true, Ordering::SeqCst);
            while !goes_on.load(Ordering::SeqCst) {
                time::sleep(Duration::from_micros(100)).await;
            }
        });
        while !locked.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let body = move || {
            let mut sleep = Box::pin(time::sleep(Duration::from_secs(1000)));
            block_on(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())));
            let child = fork();
            if child == 0 {
                for what in [
                    panic_of(|| drop(lock.lock().wait())),
                    panic_of(|| sleeping.notified().wait()),
                    panic_of(|| block_on(pending::<()>())),
                    panic_of(|| fiber::wait(pending::<()>())),
                ] {
                    assert!(what.contains(stuck), "{what}");
                }
                // A timer that was set in the parent.
                let what = panic_of(|| block_on(sleep));
                assert!(what.contains("forked process"), "{what}");
            }
            child
        };
        let task = if round % 2 == 0 {
            runtime.spawn_job(body)
        } else {
            runtime.spawn_fiber(body)
        };
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
        over.store(true, Ordering::SeqCst);
        holder.wait().expect("no panic");
    }
    // A future and the wait of a fiber that began in the parent: nothing wakes them.
    for round in 0..ROUNDS {
        let runtime = runtime(2);
        let (tell, child) = channel::bounded(1);
        let body = async move {
            let child = fork();
            if child == 0 {
                pending::<()>().await;
            }
            tell.send(child).await.ok();
        };
        let task = if round % 2 == 0 {
            runtime.spawn(body)
        } else {
            runtime.spawn_fiber(|| fiber::wait(body))
        };
        task.wait().expect("no panic");
        assert_eq!(end_of(child.recv().wait().expect("told")), FAILED);
    }
}

fn a_join_in_which_a_half_was_taken_says_so() {
    for _ in 0..ROUNDS {
        let runtime = runtime(2);
        let ran = Shared::new(1);
        let taken = AtomicBool::new(false);
        let forked = AtomicBool::new(false);
        let wait = |flag: &AtomicBool| {
            while !flag.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        };
        let child = runtime.install(|_| {
            let mut child = -1;
            let says = panic_of(|| {
                scope(|scope| {
                    scope.spawn(|_| {
                        taken.store(true, Ordering::SeqCst);
                        wait(&forked);
                        ran.count(0);
                    });
                    wait(&taken);
                    child = fork();
                    forked.store(true, Ordering::SeqCst);
                });
            });
            assert_eq!(says.contains("a job of this scope"), child == 0, "{says}");
            child
        });
        assert_eq!(end_of(child.expect("open")), RETURNED);
        assert_eq!(ran.all(), [1]);
    }
}

struct Ask;

impl Effect for Ask {
    type Answer = u32;
}

fn a_handled_body_forks_and_goes_on_under_its_handler() {
    for round in 0..ROUNDS {
        let runtime = runtime(1 + round % 2);
        let ran = Shared::new(4);
        let others: Vec<_> = (0..3)
            .map(|n| {
                runtime.spawn_fiber(move || {
                    fiber::yield_now();
                    ran.count(n);
                })
            })
            .collect();
        let body = move || {
            let body = Coroutine::new(move || {
                fiber::yield_now();
                let before = perform(Ask);
                let child = fork();
                let after = perform(Ask) + join(|| (), || 1).1;
                fiber::yield_now();
                assert_eq!((before, after), (7, 8));
                child
            });
            let child = Handler::returning(|child| child)
                .on(|Ask, rest| Next::Run(rest.resume(7)))
                .run(body);
            ran.count(3);
            child
        };
        let task = if round % 3 == 0 {
            runtime.spawn_job(body)
        } else {
            runtime.spawn_fiber(body)
        };
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
        others
            .into_iter()
            .for_each(|other| other.wait().expect("no panic"));
        assert_eq!(ran.all(), [1, 1, 1, 2]);
    }
}

fn a_child_of_a_child_ends_with_the_task_too() {
    for round in 0..ROUNDS {
        let runtime = runtime(2);
        let ran = Shared::new(3);
        let task = runtime.spawn_job(move || {
            let child = fork();
            ran.count(0);
            if child == 0 {
                if round % 2 == 0 {
                    // On a worker of the child's own runtime, too.
                    let own = self::runtime(2);
                    let jobs = (0..20).map(|_| own.spawn_job(move || ran.count(2)));
                    let jobs: Vec<_> = jobs.collect();
                    let grandchild = own.spawn_job(fork).wait().expect("no panic");
                    assert_eq!(end_of(grandchild), RETURNED);
                    jobs.into_iter().for_each(|job| job.wait().expect("no panic"));
                    assert_eq!(ran.get(2), 20);
                }
                let grandchild = fork();
                ran.count(1);
                if grandchild > 0 {
                    assert_eq!(end_of(grandchild), RETURNED);
                }
            }
            child
        });
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
        assert_eq!((ran.get(0), ran.get(1)), (2, 2));
    }
}

fn the_main_thread_forks_and_is_told_in_the_child() {
    for _ in 0..ROUNDS {
        let runtime = runtime(2);
        let over = Arc::new(Notify::new());
        let theirs = Arc::clone(&over);
        let old = runtime.spawn(async move { theirs.notified().await });
        let (send, receive) = channel::bounded::<u32>(1);
        let sender = runtime.spawn(async move {
            yield_now().await;
            pending::<()>().await;
            send.send(1).await
        });
        let child = runtime.block_on(async {
            let child = fork();
            if child == 0 {
                let told = matches!(old.await, Err(JoinError::Forked))
                    && matches!(spawn(async {}).await, Err(JoinError::Forked));
                let stuck = panic_of(|| receive.recv().wait()).contains("nothing can end");
                leave(told && stuck);
            }
            child
        });
        assert_eq!(end_of(child), RETURNED);
        over.notify_all();
        sender.detach();
    }
}

fn a_fiber_that_forked_waits_for_a_thread() {
    for _ in 0..ROUNDS {
        let runtime = runtime(2);
        let task = runtime.spawn_fiber(|| {
            let child = fork();
            if child == 0 {
                let notify = Arc::new(Notify::new());
                let theirs = Arc::clone(&notify);
                let thread = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(2));
                    theirs.notify_one();
                });
                notify.notified().wait();
                thread.join().expect("no panic");
            }
            child
        });
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
    }
}

fn a_child_that_executes_a_program_is_not_disturbed() {
    let runtime = runtime(2);
    for _ in 0..ROUNDS {
        let task = runtime.spawn_fiber(|| {
            let child = fork();
            if child == 0 {
                let program = c"/bin/true".as_ptr();
                // SAFETY: the strings are there, and the list ends with null.
                unsafe { libc::execl(program, program, std::ptr::null::<libc::c_char>()) };
                leave(false);
            }
            child
        });
        assert_eq!(end_of(task.wait().expect("no panic")), RETURNED);
    }
}

/// One test: the children start threads, which take a lock of the standard library. Were it held at the fork,
/// by a thread of another test that starts or ends just then, they would wait for ever. The runtime's own
/// threads wait for a fork, and it for them.
#[test]
fn what_a_task_may_do_in_the_child() {
    a_runtime_of_its_own_works_in_the_child();
    a_future_that_forked_awaits_a_runtime_of_its_own();
    what_is_asked_of_the_parents_runtime_is_an_error();
    a_handle_of_a_task_that_stayed_in_the_parent_gives_an_error_wherever_it_is_awaited();
    a_wait_that_nothing_can_end_is_a_panic();
    a_join_in_which_a_half_was_taken_says_so();
    a_handled_body_forks_and_goes_on_under_its_handler();
    a_child_of_a_child_ends_with_the_task_too();
    the_main_thread_forks_and_is_told_in_the_child();
    a_fiber_that_forked_waits_for_a_thread();
    busy_parent::a_graceful_shutdown_in_the_child_ends_at_once();
    busy_parent::what_the_parent_was_at_does_not_hold_up_the_child();
    busy_parent::metrics_in_the_child_are_those_that_are_known();
    a_child_that_executes_a_program_is_not_disturbed();
}
