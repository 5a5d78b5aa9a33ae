//! Waits, forks, shutdown and stacks of bodies.

use super::{Ask, Say, answering, everywhere, panics, runtime};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;
use warpweft::effect::{Continuation, Coroutine, Handler, Next, handle, perform};
use warpweft::policy::Count;
use warpweft::sync::oneshot;
use warpweft::time::sleep;
use warpweft::{JoinError, Runtime, block_on, blocking, fiber, join, spawn_job, yield_now};

#[test]
fn a_body_waits_everywhere() {
    everywhere(|| {
        let sum = handle(
            || {
                let mut sum = 0;
                for _ in 0..3 {
                    sum += spawn_job(|| 1).wait().expect("no panic");
                    sum += perform(Ask);
                    block_on(yield_now());
                    let (a, b) = join(
                        || block_on(async { 1 }),
                        || spawn_job(|| 1).wait().expect("no panic"),
                    );
                    sum += a + b + perform(Ask);
                }
                sum
            },
            answering(100),
        );
        assert_eq!(sum, 609);
    });
}

/// Forks of the handler's stack must not wait for the body, because the body may wait for them.
#[test]
fn the_hosts_forks_are_others_to_run_when_a_body_waits() {
    for workers in [1, 2] {
        let runtime = runtime(workers);
        let (open, opens) = oneshot::channel::<u32>();
        let joined = runtime.install(move |_| {
            join(
                || handle(move || block_on(opens).expect("it is sent"), Handler::new()),
                || open.send(5).expect("somebody waits"),
            )
        });
        assert_eq!(joined.expect("a pool").0, 5);
    }
}

/// Bodies are suspended in the middle of joins, and their handler runs in the middle of another join.
#[test]
fn an_effect_in_the_middle_of_joins() {
    let schedule = || {
        let queue = RefCell::new(VecDeque::new());
        let sum = Rc::new(Cell::new(0));
        for n in 0..10 {
            let sum = Rc::clone(&sum);
            queue.borrow_mut().push_back(Coroutine::new(move || {
                let first = || {
                    perform(Say("in the half that is never elsewhere"));
                    join(|| n, || 1)
                };
                let (a, b) = join(first, || join(|| 2, || 3));
                perform(Say("between"));
                sum.set(sum.get() + a.0 + a.1 + b.0 + b.1);
            }));
        }
        let mut handler = Handler::new().on(|Say(_), k| queue.borrow_mut().push_back(k.resume(())));
        let mut turns = 0;
        loop {
            let next = queue.borrow_mut().pop_front();
            let Some(next) = next else { break };
            handler.run(next);
            turns += 1;
        }
        (turns, sum.get())
    };
    for workers in [1, 2, 4] {
        let runtime = runtime(workers);
        let told = runtime
            .install(|_| join(schedule, || join(schedule, || 1)))
            .expect("a pool");
        assert_eq!(told, ((30, 10 * 6 + 45), ((30, 10 * 6 + 45), 1)));
    }
}

/// In `blocking` the thread has released its worker: the handler's task could not end.
#[test]
fn in_blocking_only_with_a_handler_of_its_own() {
    everywhere(|| assert_eq!(blocking(|| handle(|| perform(Ask), answering(3))), 3));
    let runtime = runtime(1);
    let body = || {
        handle(
            || (panics(|| blocking(|| perform(Ask))), perform(Ask)),
            answering(4),
        )
    };
    for told in [runtime.spawn_job(body), runtime.spawn_fiber(body)] {
        let (refused, answer) = told.wait().expect("no panic");
        assert!(refused.contains("inside `blocking`"), "{refused}");
        assert_eq!(answer, 4);
    }
}

/// A fiber passes a body to another one: it continues on top of that fiber, waits there, and switches with
/// it.
#[test]
fn a_body_moves_between_fibers_of_its_thread() {
    thread_local!(static KEPT: RefCell<Option<Coroutine<u32>>> = const { RefCell::new(None) });
    let runtime = runtime(1);
    let first = runtime.spawn_fiber(|| {
        let keeper = |Ask, k: Continuation<Ask, u32>| {
            KEPT.with(|kept| *kept.borrow_mut() = Some(k.resume(1)));
            Next::Leave(0)
        };
        let body = || {
            block_on(yield_now());
            let one = perform(Ask);
            fiber::yield_now();
            block_on(yield_now());
            one + spawn_job(|| 10).wait().expect("no panic") + perform(Ask)
        };
        assert_eq!(Handler::new().on(keeper).run(Coroutine::new(body)), 0);
    });
    first.wait().expect("no panic");
    let second = runtime.spawn_fiber(|| {
        let body = KEPT
            .with(RefCell::take)
            .expect("the other fiber kept it, on this thread");
        answering(100).run(body)
    });
    assert_eq!(second.wait().expect("no panic"), 111);
}

/// The effect is performed inside of a poll that then waits: on top of another fiber, on a job's stack, and
/// on top of a fiber again.
#[test]
fn a_body_moves_in_the_middle_of_a_poll() {
    thread_local!(static KEPT: RefCell<Option<Coroutine<u32>>> = const { RefCell::new(None) });
    fn keep(_: Ask, k: Continuation<Ask, u32>) -> Next<u32, u32> {
        KEPT.with(|kept| *kept.borrow_mut() = Some(k.resume(1)));
        Next::Leave(0)
    }
    fn go_on() -> u32 {
        Handler::new().on(keep).run(KEPT.take().expect("it was kept"))
    }
    fn wait() -> impl Future<Output = ()> {
        sleep(Duration::from_millis(1))
    }
    fn body() -> u32 {
        block_on(async {
            wait().await;
            let mut sum = perform(Ask);
            wait().await;
            sum += perform(Ask);
            wait().await;
            sum += perform(Ask);
            wait().await;
            sum
        })
    }
    let runtime = runtime(1);
    let begin = || Handler::new().on(keep).run(Coroutine::new(body));
    // Both fibers are new, and nobody has woken them yet.
    let first = || {
        let body = || {
            block_on(async {
                perform(Ask);
                wait().await;
                7
            })
        };
        Handler::new().on(keep).run(Coroutine::new(body)) + fiber::spawn(go_on).wait().expect("on a fiber")
    };
    assert_eq!(runtime.spawn_fiber(first).wait().expect("no panic"), 7);
    for ends in [true, false, true] {
        let first = move || {
            if ends {
                return begin();
            }
            // The first fiber is there as long as the second.
            begin() + fiber::spawn(go_on).wait().expect("on a fiber")
        };
        assert_eq!(runtime.spawn_fiber(first).wait().expect("begun"), 0);
        if ends {
            assert_eq!(runtime.spawn_fiber(go_on).wait().expect("on a fiber"), 0);
        }
        assert_eq!(runtime.spawn_job(go_on).wait().expect("on a job"), 0);
        assert_eq!(runtime.spawn_fiber(go_on).wait().expect("on a fiber"), 3);
    }
}

/// No spare thread is to be had, so it runs on the body's stack while the body waits.
#[test]
fn a_task_on_top_of_a_body_does_not_find_its_handlers() {
    let builder = Runtime::builder().workers(1).max_threads(1).stuck_after(None);
    let runtime = builder.build().expect("a runtime");
    let job = runtime.spawn_job(|| {
        let body = || {
            let said = spawn_job(|| panics(|| perform(Ask))).wait().expect("no panic");
            assert!(said.contains("no handler"), "{said}");
            // Its own handlers are found, and then those of the body again.
            let own = || handle(|| perform(Ask) + perform(Ask), answering(10));
            spawn_job(own).wait().expect("no panic") + perform(Ask)
        };
        handle(body, answering(1))
    });
    assert_eq!(job.wait().expect("no panic"), 21);
    assert!(runtime.counters().total().get(Count::Stacked) >= 2);
}

/// If the body enters a pool, that pool belongs to the body; one that its runner has entered is found as long
/// as that lasts.
#[test]
fn what_is_visited_is_of_the_stack() {
    let named = |name: &str| {
        Runtime::builder()
            .workers(1)
            .name(name)
            .build()
            .expect("a runtime")
    };
    let here = || {
        spawn_job(|| thread::current().name().map(String::from))
            .wait()
            .expect("no panic")
            .expect("a name")
    };
    let (first, second) = (named("first"), named("second"));
    let third = Arc::new(named("third"));
    let kept = RefCell::new(None);
    let accesses = Arc::clone(&third);
    let body = move || {
        let mut found = vec![here()];
        accesses.block_on(async {
            found.push(here());
            perform(Ask);
            found.push(here());
        });
        found.push(here());
        perform(Ask);
        found.push(here());
        found
    };
    let keep = || {
        Handler::returning(Some).on(|Ask, k| {
            *kept.borrow_mut() = Some(k.resume(0));
            Next::Leave(None)
        })
    };
    let body = first.block_on(async {
        assert!(keep().run(Coroutine::new(body)).is_none());
        assert!(here().starts_with("first"), "the handler's own");
        let body = kept.take().expect("kept");
        second.block_on(async {
            assert!(keep().run(body).is_none());
            assert!(here().starts_with("second"), "the handler's own");
        });
        kept.take().expect("kept")
    });
    drop(first);
    let found = second.block_on(async { keep().run(body).expect("it has ended") });
    let found: Vec<_> = found
        .iter()
        .map(|name| name.split('-').next().unwrap_or(""))
        .collect();
    assert_eq!(found, ["first", "third", "third", "second", "second"]);
}

#[test]
fn shutdown_unwinds_the_innermost_body_first() {
    struct Tells(&'static str, mpsc::Sender<&'static str>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.1.send(self.0).expect("somebody listens");
        }
    }
    let (tell, told) = mpsc::channel();
    let runtime = runtime(1);
    let (ready, is_ready) = mpsc::channel();
    let fiber = runtime.spawn_fiber(move || {
        let _fiber = Tells("fiber", tell.clone());
        let kept = RefCell::new(None);
        let other = tell.clone();
        let mut handler = Handler::new().on(|Ask, k: Continuation<Ask, ()>| *kept.borrow_mut() = Some(k));
        handler.run(Coroutine::new(move || {
            let _kept = Tells("kept", other);
            perform(Ask);
        }));
        handle(
            move || {
                let _outer = Tells("outer", tell.clone());
                handle(
                    move || {
                        let _inner = Tells("inner", tell);
                        ready.send(()).expect("somebody listens");
                        block_on(std::future::pending::<()>());
                    },
                    Handler::new(),
                );
            },
            Handler::new(),
        );
    });
    is_ready.recv().expect("it waits soon");
    while runtime.fibers().live == 0 {
        thread::yield_now();
    }
    drop(runtime);
    assert!(matches!(fiber.wait(), Err(JoinError::Shutdown)));
    assert_eq!(
        told.iter().collect::<Vec<_>>(),
        ["inner", "outer", "kept", "fiber"]
    );
}

#[test]
fn as_many_bodies_as_there_are_stacks() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_fiber_stacks(3)
        .build()
        .expect("a runtime");
    let told = runtime.spawn_job(|| {
        let bodies: Vec<_> = (0..3)
            .map(|n| Coroutine::try_new(move || n).expect("a stack"))
            .collect();
        let refused = Coroutine::try_new(|| 4).expect_err("no stack").to_string();
        let panicked = panics(|| handle(|| 4, Handler::new()));
        let values: Vec<_> = bodies.into_iter().map(|body| Handler::new().run(body)).collect();
        assert_eq!(values, [0, 1, 2]);
        assert_eq!(handle(|| 5, Handler::new()), 5);
        (refused, panicked)
    });
    let (refused, panicked) = told.wait().expect("no panic");
    assert!(
        refused.contains("stack") && panicked.contains(&refused),
        "{refused}; {panicked}"
    );
}

/// Values that a pool thread's thread-locals keep are leaked, and do not run on a thread without its pool.
#[test]
fn a_thread_local_keeps_a_continuation() {
    thread_local!(static KEPT: RefCell<Option<Continuation<Ask, ()>>> = const { RefCell::new(None) });
    let keep = || {
        handle(
            || {
                perform(Ask);
            },
            Handler::new().on(|Ask, k| KEPT.with(|kept| *kept.borrow_mut() = Some(k))),
        );
    };
    let pool = runtime(1);
    pool.spawn_job(keep).wait().expect("no panic");
    drop(pool);
    // Outside of a pool it is unwound.
    thread::spawn(keep).join().expect("no panic");
}

#[test]
fn many_effects_in_a_row_take_no_stack() {
    everywhere(|| {
        let count = handle(
            || (0..100_000).map(|_| u64::from(perform(Ask))).sum::<u64>(),
            answering(1),
        );
        assert_eq!(count, 100_000);
    });
}

#[test]
fn a_hundred_thousand_bodies_are_suspended() {
    const COUNT: usize = 100_000;
    let suspend = || {
        let kept = RefCell::new(Vec::new());
        let ended = Rc::new(Cell::new(0));
        let mut handler = Handler::new().on(|Ask, k: Continuation<Ask, ()>| kept.borrow_mut().push(k));
        for _ in 0..COUNT {
            let ended = Rc::clone(&ended);
            handler.run(Coroutine::new(move || {
                let answer = perform(Ask) as usize;
                ended.set(ended.get() + answer);
            }));
        }
        drop(handler);
        let kept = kept.into_inner();
        assert_eq!((kept.len(), ended.get()), (COUNT, 0));
        let mut half = true;
        for k in kept {
            half = !half;
            if half {
                Handler::new().run(k.resume(1));
            }
        }
        assert_eq!(ended.get(), COUNT / 2);
    };
    suspend();
    runtime(1).spawn_fiber(suspend).wait().expect("no panic");
}
