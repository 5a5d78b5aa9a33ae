//! Several pools in one runtime: transfers, closures that run elsewhere, bounds, silos, concurrency limits,
//! and refusals.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft::sync::{Notify, Semaphore, oneshot};
use warpweft::{
    BuildError, Builder, EnterError, Fifo, JoinError, JoinHandle, Policy, PolicySpec, Pool, Runtime,
    SpawnError, TaskBuilder, block_on, join_async, scope_async, spawn, stage, time, yield_now,
};
use warpweft_platform::sync::Mutex;

/// Builds a pool of that many workers under that policy.
fn of(workers: usize, policy: &str) -> Builder {
    let policy: PolicySpec = policy.parse().expect("a policy");
    Runtime::builder().workers(workers).policy_spec(policy)
}

/// Two pools, of 1, 2 and 4 workers each, of policies that leave something in a task's word or nothing.
fn pairs(program: impl Fn(&Runtime, &Pool, &Pool)) {
    for workers in [1, 2, 4] {
        for policies in [
            ["fifo", "lifo"],
            ["prows", "negele"],
            ["negele", "prows"],
            ["lifo", "cforall"],
        ] {
            let runtime = stage("first", of(workers, policies[0]))
                .then("second", of(workers, policies[1]))
                .build()
                .expect("small pools");
            let second = runtime.pool("second").expect("it is there");
            program(&runtime, runtime.first(), second);
        }
    }
}

fn here() -> String {
    Pool::current()
        .map(|pool| pool.name().to_owned())
        .expect("in a pool")
}

#[test]
fn a_task_goes_there_and_back_and_keeps_what_it_has() {
    pairs(|runtime, first, second| {
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let (first, second) = (first.clone(), second.clone());
                runtime.spawn(async move {
                    let mut had_entered = vec![here()];
                    for _ in 0..3 {
                        second.enter().await.expect("it is open");
                        assert!(second.is_here() && !first.is_here());
                        had_entered.push(here());
                        yield_now().await;
                        assert!(second.is_here());
                        first.enter().await.expect("it is open");
                        assert!(first.is_here());
                    }
                    (n, had_entered)
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let (number, had_entered) = task.wait().expect("no panic");
            assert_eq!((number, had_entered.len()), (n, 4));
            assert!(had_entered[1..].iter().all(|name| name == "second"));
        }
        for pool in [first, second] {
            assert_eq!(
                pool.counters().total().get(Count::Transfers),
                150,
                "{}",
                pool.name()
            );
        }
        assert_eq!(second.counters().total().get(Count::Injected), 150);
    });
}

#[test]
fn a_task_that_slept_is_woken_where_it_is_now() {
    pairs(|runtime, _, second| {
        let (before, after) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (there, arrived) = oneshot::channel();
        let task = {
            let (second, before, after) = (second.clone(), Arc::clone(&before), Arc::clone(&after));
            runtime.spawn(async move {
                // It is among the owned tasks of the first pool.
                before.notified().await;
                second.enter().await.expect("it is open");
                there.send(()).expect("somebody waits");
                after.notified().await;
                (here(), second.is_here())
            })
        };
        before.notify_one();
        block_on(arrived).expect("it came");
        after.notify_one();
        assert_eq!(task.wait().expect("no panic"), (String::from("second"), true));
    });
}

#[test]
fn timers_and_what_was_spawned_follow_a_task() {
    pairs(|runtime, first, second| {
        let (first, second) = (first.clone(), second.clone());
        let task = runtime.spawn(async move {
            let timed_park = time::sleep(Duration::from_millis(5));
            let child = spawn(async { here() });
            second.enter().await.expect("it is open");
            timed_park.await;
            assert!(second.is_here());
            assert_eq!(child.await.expect("no panic"), "first");
            let (left, right) = join_async(async { 1 }, async { 2 }).await;
            let mut sum = left + right;
            sum += scope_async(async |scope| {
                let one = scope.spawn(async { 3 });
                one.await.expect("no panic")
            })
            .await;
            first.enter().await.expect("it is open");
            sum
        });
        assert_eq!(task.wait().expect("no panic"), 6);
    });
}

#[test]
fn a_closure_runs_elsewhere_for_jobs_fibers_and_threads() {
    pairs(|runtime, first, second| {
        let mut words = vec![String::from("borrowed")];
        let name = second.run(|| {
            words.push(here());
            here()
        });
        assert_eq!((name.as_deref(), words.len()), (Ok("second"), 2));
        let there = second.clone();
        let job = first.spawn_job(move || (there.run(here).expect("it is open"), here()));
        let there = second.clone();
        let fiber = runtime.spawn_fiber(move || (there.run(here).expect("it is open"), here()));
        let expected = (String::from("second"), String::from("first"));
        assert_eq!(job.wait().expect("no panic"), expected);
        assert_eq!(fiber.wait().expect("no panic"), expected);
        // Back and forth, on top of each other.
        let (a, b) = (first.clone(), second.clone());
        let nested = first
            .run(|| b.run(|| a.run(|| b.run(here))))
            .expect("open")
            .expect("open");
        assert_eq!(nested.expect("open").expect("open"), "second");
    });
}

#[test]
fn panics_come_back_to_whoever_waits() {
    pairs(|runtime, _, second| {
        let there = second.clone();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            panic!("after the transfer");
        });
        let panic = task
            .wait()
            .expect_err("it panicked")
            .into_panic()
            .expect("a panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"after the transfer"));
        let there = second.clone();
        let job = runtime.spawn_job(move || there.run(|| -> () { panic!("over there") }));
        assert!(job.wait().expect_err("it panicked").is_panic());
        assert_eq!(second.run(|| 1), Ok(1));
    });
}

#[test]
fn a_handle_cancels_its_task_wherever_it_is() {
    pairs(|runtime, _, second| {
        let there = second.clone();
        let (tell, arrived) = oneshot::channel();
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            tell.send(()).expect("somebody waits");
            std::future::pending::<()>().await;
        });
        block_on(arrived).expect("it came");
        assert!(task.cancel());
        assert!(matches!(task.wait(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn only_a_task_itself_can_go_elsewhere() {
    pairs(|runtime, first, second| {
        assert_eq!(block_on(second.enter()), Err(EnterError::NotATask));
        assert_eq!(runtime.block_on(second.enter()), Err(EnterError::NotATask));
        let there = second.clone();
        let job = first.spawn_job(move || block_on(there.enter()));
        assert_eq!(job.wait().expect("no panic"), Err(EnterError::NotATask));
        let there = second.clone();
        let inner = runtime.spawn(async move {
            let refused = block_on(there.enter());
            yield_now().await;
            (refused, there.is_here())
        });
        assert_eq!(
            inner.wait().expect("no panic"),
            (Err(EnterError::NotATask), false)
        );
    });
}

/// Polls `future` once, and drops it.
async fn poll_once(future: impl Future) {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}

#[test]
fn an_entry_that_is_dropped_leaves_the_task_where_it_is_and_no_place_taken() {
    for workers in [1, 2, 4] {
        let runtime = stage("first", of(workers, "fifo"))
            .then("second", of(1, "fifo").capacity(1))
            .build()
            .expect("small pools");
        let second = runtime.pool("second").expect("it is there").clone();
        let there = second.clone();
        let task = runtime.spawn(async move {
            for _ in 0..100 {
                poll_once(there.enter()).await;
                // Another task, so that it really yields: the yield would otherwise return at once.
                spawn(async {}).detach();
                yield_now().await;
                assert!(!there.is_here());
            }
            // It waits in the middle of the step in which it made its request: the request is lost, and made
            // again.
            let mut enter = std::pin::pin!(there.enter());
            let mut waits = true;
            std::future::poll_fn(|cx| {
                let polled = enter.as_mut().poll(cx);
                if std::mem::take(&mut waits) {
                    block_on(spawn(async {})).expect("no panic");
                }
                polled
            })
            .await
            .expect("it is open");
            there.is_here()
        });
        assert!(task.wait().expect("no panic"));
        assert_eq!(second.free_places(), Some(1));
        assert_eq!(runtime.counters().total().get(Count::Transfers), 1);
    }
}

#[test]
fn a_request_that_was_left_behind_moves_no_other_task() {
    // The request is with the worker, so there must be no compensating worker.
    let runtime = stage("first", of(1, "fifo").stuck_after(None))
        .then("second", of(1, "fifo").capacity(1))
        .build()
        .expect("small pools");
    let second = runtime.pool("second").expect("it is there").clone();
    let (leave, left) = oneshot::channel();
    let there = second.clone();
    let other = runtime.spawn(async move {
        left.await.expect("somebody leaves it");
        // It is woken in the middle of its step, and so may move.
        yield_now().await;
        there.is_here()
    });
    let there = second.clone();
    let task = runtime.spawn(async move {
        std::future::poll_fn(|cx| {
            let mut enter = Box::pin(there.enter());
            assert!(enter.as_mut().poll(cx).is_pending());
            std::mem::forget(enter);
            Poll::Ready(())
        })
        .await;
        leave.send(()).expect("somebody waits");
        // Another task, so that the other one really yields.
        spawn(async {}).detach();
    });
    task.wait().expect("no panic");
    assert!(!other.wait().expect("no panic"));
    assert_eq!(second.free_places(), Some(1));
}

#[test]
fn a_bounded_pool_never_has_more_than_it_may() {
    for workers in [1, 2, 4] {
        let runtime = stage("first", of(workers, "fifo"))
            .then("second", of(workers, "lifo").capacity(3))
            .then("third", of(workers, "fifo").capacity(2))
            .build()
            .expect("small pools");
        let [second, third] =
            ["second", "third"].map(|name| runtime.pool(name).expect("it is there").clone());
        let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let tasks: Vec<_> = (0..40)
            .map(|n| {
                let (second, third, inside) = (second.clone(), third.clone(), Arc::clone(&inside));
                runtime.spawn(async move {
                    second.enter().await.expect("it is open");
                    assert!(inside[0].fetch_add(1, Ordering::Relaxed) < 3);
                    yield_now().await;
                    inside[0].fetch_sub(1, Ordering::Relaxed);
                    if n % 3 == 0 {
                        return;
                    }
                    third.enter().await.expect("it is open");
                    assert!(inside[1].fetch_add(1, Ordering::Relaxed) < 2);
                    time::sleep(Duration::from_micros(100)).await;
                    inside[1].fetch_sub(1, Ordering::Relaxed);
                    assert!(n % 3 != 1, "some panic, and give their place back all the same");
                })
            })
            .collect();
        let panics = tasks
            .into_iter()
            .map(JoinHandle::wait)
            .filter(Result::is_err)
            .count();
        assert_eq!(panics, 13);
        assert_eq!((second.free_places(), third.free_places()), (Some(3), Some(2)));
        assert_eq!((second.capacity(), runtime.first().capacity()), (Some(3), None));
    }
}

#[test]
fn full_stages_hold_up_those_before_them() {
    let runtime = stage("source", of(1, "fifo"))
        .then("middle", of(1, "fifo").capacity(1))
        .then("sink", of(1, "fifo").capacity(1))
        .build()
        .expect("small pools");
    let [middle, sink] = ["middle", "sink"].map(|name| runtime.pool(name).expect("it is there").clone());
    let gate = Arc::new(Semaphore::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (middle, sink, gate) = (middle.clone(), sink.clone(), Arc::clone(&gate));
            runtime.spawn(async move {
                middle.enter().await.expect("it is open");
                sink.enter().await.expect("it is open");
                drop(gate.acquire(1).await);
            })
        })
        .collect();
    // One in the sink; one in the middle, which waits for the sink and keeps its permit; one in the source.
    while (middle.free_places(), sink.free_places()) != (Some(0), Some(0))
        || sink.counters().total().get(Count::Suspensions) == 0
    {
        std::thread::yield_now();
    }
    let late = middle.clone();
    let refused = runtime.spawn(async move { late.try_enter().await });
    assert_eq!(refused.wait().expect("no panic"), Err(EnterError::Full));
    assert!(matches!(middle.try_spawn(async {}), Err(SpawnError::Full)));
    assert!(matches!(middle.try_spawn_job(|| ()), Err(SpawnError::Full)));
    assert!(tasks.iter().all(|task| !task.is_finished()));
    gate.add(1);
    for task in tasks {
        task.wait().expect("no panic");
    }
    assert_eq!((middle.free_places(), sink.free_places()), (Some(1), Some(1)));
}

#[test]
fn who_has_a_place_cannot_wait_for_one_before_it() {
    for workers in [1, 2, 4] {
        let runtime = stage("a", of(workers, "fifo").capacity(1))
            .then("b", of(workers, "fifo").capacity(1))
            .build()
            .expect("small pools");
        let [a, b] = ["a", "b"].map(|name| runtime.pool(name).expect("it is there").clone());
        let error = EnterError::OutOfOrder {
            from: String::from("b"),
            to: String::from("a"),
        };
        let (there, back) = (b.clone(), a.clone());
        let task = runtime.spawn(async move {
            there.enter().await.expect("it is open");
            let refused = back.enter().await;
            assert_eq!(back.run(|| ()), refused);
            assert_eq!(
                back.spawn_with_permit(async {}).await.err(),
                refused.clone().err()
            );
            back.try_enter().await.expect("there is a place");
            (refused, back.is_here())
        });
        assert_eq!(task.wait().expect("no panic"), (Err(error), true));
        // Its own pool, too, may be full of tasks that wait for a permit of it.
        let own = a.clone();
        let twice = a.spawn(async move { own.spawn_with_permit(async {}).await.err() });
        assert!(matches!(
            twice.wait().expect("no panic"),
            Some(EnterError::OutOfOrder { .. })
        ));
        // A pool of another runtime has no order with this one's.
        let other = stage("other", of(1, "fifo").capacity(1))
            .build()
            .expect("a small pool");
        let elsewhere = other.first().clone();
        let stranger = a.spawn(async move { elsewhere.enter().await });
        assert!(matches!(
            stranger.wait().expect("no panic"),
            Err(EnterError::OutOfOrder { .. })
        ));
        assert!(
            a.spawn_job(move || b.run(|| ()))
                .wait()
                .expect("no panic")
                .is_ok()
        );
    }
}

#[test]
fn a_source_waits_until_there_is_room() {
    for workers in [1, 2, 4] {
        let runtime = stage("parse", of(workers, "fifo").capacity(2))
            .build()
            .expect("a small pool");
        let parse = runtime.first();
        let inside = Arc::new(AtomicUsize::new(0));
        let handles = runtime.block_on(async {
            let mut handles = Vec::new();
            for n in 0..50 {
                let inside = Arc::clone(&inside);
                let task = parse.spawn_with_permit(async move {
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::Relaxed);
                    n
                });
                handles.push(task.await.expect("it is open"));
            }
            handles
        });
        let sum: u32 = handles
            .into_iter()
            .map(|task| task.wait().expect("no panic"))
            .sum();
        assert_eq!((sum, parse.free_places()), (1225, Some(2)));
        let one = parse.try_spawn(async { 1 }).expect("there is room");
        assert_eq!(one.wait().expect("no panic"), 1);
        let one = parse.try_spawn_job(|| 1).expect("there is room");
        assert_eq!(one.wait().expect("no panic"), 1);
        assert_eq!(parse.free_places(), Some(2));
    }
}

#[test]
fn closing_tells_those_who_wait_for_a_place() {
    let target = stage("target", of(1, "fifo").capacity(1))
        .build()
        .expect("a small pool");
    let runtime = of(1, "fifo").build().expect("a small pool");
    let pool = target.first().clone();
    let blocker = pool
        .try_spawn(std::future::pending::<()>())
        .expect("there is room");
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let pool = pool.clone();
            runtime.spawn(async move { pool.enter().await })
        })
        .collect();
    let thread = {
        let pool = pool.clone();
        std::thread::spawn(move || pool.run(|| ()))
    };
    while runtime.counters().total().get(Count::Suspensions) < 3 {
        std::thread::yield_now();
    }
    drop(target);
    for task in tasks {
        assert_eq!(task.wait().expect("no panic"), Err(EnterError::Closed));
    }
    assert_eq!(thread.join().expect("no panic"), Err(EnterError::Closed));
    assert!(matches!(blocker.wait(), Err(JoinError::Shutdown)));
}

#[test]
fn a_pool_that_has_ended_says_so() {
    let runtime = of(1, "fifo").build().expect("a small pool");
    let other = of(1, "fifo").build().expect("a small pool");
    let pool = runtime.first().clone();
    drop(runtime);
    assert!(pool.is_closed());
    assert!(matches!(pool.spawn(async {}).wait(), Err(JoinError::Shutdown)));
    assert!(matches!(pool.try_spawn(async {}), Err(SpawnError::Closed)));
    assert_eq!(pool.run(|| 1), Err(EnterError::Closed));
    let there = pool.clone();
    let task = other.spawn(async move { (there.enter().await, there.try_enter().await) });
    let closed = Err(EnterError::Closed);
    assert_eq!(task.wait().expect("no panic"), (closed.clone(), closed));
    let concurrency_limit = pool.concurrency_limit(1).expect("one at a time");
    assert!(matches!(
        concurrency_limit.spawn(async {}).wait(),
        Err(JoinError::Shutdown)
    ));
}

#[test]
fn runtimes_end_in_either_order_while_tasks_go_to_and_fro() {
    for ends_first in [0, 1] {
        let mut runtimes =
            [of(2, "fifo"), of(2, "lifo")].map(|builder| Some(builder.build().expect("a small pool")));
        let pools: Vec<Pool> = runtimes
            .iter()
            .flatten()
            .map(|runtime| runtime.first().clone())
            .collect();
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let there = pools.clone();
                pools[n % 2].spawn(async move {
                    loop {
                        for pool in &there {
                            if pool.enter().await.is_err() {
                                return;
                            }
                        }
                    }
                })
            })
            .collect();
        while pools[0].counters().total().get(Count::Transfers) < 100 {
            std::thread::yield_now();
        }
        drop(runtimes[ends_first].take());
        drop(runtimes[1 - ends_first].take());
        for task in tasks {
            assert!(matches!(task.wait(), Ok(()) | Err(JoinError::Shutdown)));
        }
    }
}

#[test]
fn silos_are_found_by_number_and_by_key() {
    let runtime = Runtime::builder()
        .workers(1)
        .silos("room", 4, |_| of(1, "lifo"))
        .build()
        .expect("small pools");
    let rooms = runtime.silos("room").expect("they are there");
    assert_eq!(rooms.pools().len(), 4);
    let used: HashSet<String> = (0..100)
        .map(|key| {
            let task = rooms.of(key).spawn(async move { here() });
            let room = task.wait().expect("no panic");
            assert_eq!(room, rooms.of(key).name());
            room
        })
        .collect();
    assert_eq!(used.len(), 4, "100 keys, and not each silo has one: {used:?}");
    assert_eq!(rooms.get(3).map(Pool::name), Some("room-3"));
    assert_eq!(runtime.pool("room-2"), Ok(&rooms.pools()[2]));
    assert!(rooms.get(4).is_none());
}

#[test]
fn silos_and_stages_of_builders_within_builders_keep_their_order() {
    let inner = of(1, "fifo").silos("s", 2, |_| {
        of(1, "fifo").then("x", of(1, "fifo")).name("named later")
    });
    let runtime = stage("a", of(1, "fifo")).then("b", inner);
    // The pool behind each silo comes along, and there are two of one name.
    assert!(matches!(runtime.build(), Err(BuildError::SameName { name }) if name == "x"));
    let inner = of(1, "fifo").silos("s", 2, |n| of(1, "fifo").then(format!("x{n}"), of(1, "fifo")));
    let runtime = stage("a", of(1, "fifo"))
        .then("b", inner)
        .then("c", of(1, "fifo"))
        .build();
    let runtime = runtime.expect("small pools");
    let names: Vec<_> = runtime.pools().iter().map(Pool::name).collect();
    assert_eq!(names, ["a", "b", "s-0", "x0", "s-1", "x1", "c"]);
    let silos = runtime.silos("s").expect("they are there");
    let names: Vec<_> = silos.pools().iter().map(Pool::name).collect();
    assert_eq!(names, ["s-0", "s-1"]);
}

#[test]
fn a_concurrency_limit_admits_n_at_a_time() {
    for workers in [1, 2, 4] {
        let runtime = of(workers, "fifo").build().expect("a small pool");
        let concurrency_limit = runtime.first().concurrency_limit(2).expect("two at a time");
        let inside = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..30)
            .map(|n| {
                let inside = Arc::clone(&inside);
                concurrency_limit.spawn(async move {
                    assert!(inside.fetch_add(1, Ordering::Relaxed) < 2);
                    yield_now().await;
                    inside.fetch_sub(1, Ordering::Relaxed);
                    assert!(n % 5 != 0, "some panic");
                    n
                })
            })
            .collect();
        let cancelled = concurrency_limit.spawn(std::future::pending::<()>());
        cancelled.cancel();
        let ends: Vec<_> = tasks.into_iter().map(JoinHandle::wait).collect();
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 24);
        let job = concurrency_limit.spawn_job(here);
        assert_eq!(job.wait().expect("no panic"), runtime.name());
        assert!(cancelled.wait().is_err());
        assert_eq!(
            (
                concurrency_limit.free(),
                concurrency_limit.limit(),
                concurrency_limit.pool() == runtime.first()
            ),
            (2, 2, true)
        );
    }
}

/// FIFO, which also records the policy words of tasks that came from elsewhere, or left.
#[derive(Default, Clone)]
struct Words(Arc<Mutex<(Vec<u64>, Vec<u64>)>>);

struct SharedWords(<Fifo as Policy>::Shared, Words);

impl Policy for Words {
    type Shared = SharedWords;
    type Local = <Fifo as Policy>::Local;
    const WATCHES_COMPLETIONS: bool = true;

    fn build(&self, env: &PoolEnv) -> Result<(SharedWords, Vec<Self::Local>), PolicyError> {
        let (shared, locals) = Fifo::new().build(env)?;
        Ok((SharedWords(shared, self.clone()), locals))
    }
    fn push(s: &SharedWords, w: Option<&mut Self::Local>, mut task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        if why == Why::Injected {
            s.1.0.lock().0.push(task.policy_word());
            task.set_policy_word(7);
        }
        Fifo::push(&s.0, w, task, why, cx)
    }
    fn next(s: &SharedWords, w: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Fifo::next(&s.0, w, cx)
    }
    fn poll_global(s: &SharedWords, w: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Fifo::poll_global(&s.0, w, cx)
    }
    fn search(s: &SharedWords, w: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Fifo::search(&s.0, w, cx)
    }
    fn scan(s: &SharedWords, w: &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Fifo::scan(&s.0, w, cx)
    }
    fn completed(s: &SharedWords, _: &mut Self::Local, policy_word: u64) {
        s.1.0.lock().1.push(policy_word);
    }
}

#[test]
fn the_word_of_the_old_policy_stays_there_and_the_old_policy_hears_of_the_end() {
    for workers in [1, 2, 4] {
        let words = Words::default();
        let runtime = stage("first", of(workers, "negele"))
            .then(
                "second",
                Runtime::builder().workers(workers).policy(words.clone()),
            )
            .build()
            .expect("small pools");
        let second = runtime.pool("second").expect("it is there");
        let urgent = runtime.priority(0).expect("it has priorities");
        let tasks: Vec<_> = (0..10)
            .map(|_| {
                let (first, second) = (runtime.first().clone(), second.clone());
                TaskBuilder::new()
                    .on(&runtime)
                    .priority(urgent)
                    .spawn(async move {
                        second.enter().await.expect("it is open");
                        yield_now().await;
                        first.enter().await.expect("it is open");
                    })
            })
            .collect();
        for task in tasks {
            task.wait().expect("no panic");
        }
        assert_eq!(*words.0.lock(), (vec![0; 10], vec![7; 10]));
    }
}

#[test]
fn what_cannot_be_built_says_why() {
    let error = |builder: Builder| builder.build().expect_err("it cannot be built").to_string();
    let two = || of(1, "fifo").then("x", of(1, "fifo")).then("x", of(1, "fifo"));
    assert!(error(two()).contains("two pools of one runtime are called `x`"));
    assert!(error(stage("x", of(1, "fifo")).then("x", of(1, "fifo"))).contains("`x`"));
    assert!(error(of(1, "fifo").silos("room", 0, |_| of(1, "fifo"))).contains("0 silos called `room`"));
    let twice = of(1, "fifo")
        .silos("r", 1, |_| of(1, "fifo"))
        .silos("r", 1, |_| of(1, "fifo"));
    assert!(matches!(twice.build(), Err(BuildError::SameName { .. })));
    assert!(error(of(1, "fifo").capacity(0)).contains("bounded to 0 tasks"));
    let nobody = error(of(1, "fifo").then("nobody", Runtime::builder().workers(0)));
    assert!(
        nobody.contains("pool `nobody`") && nobody.contains("0 workers"),
        "{nobody}"
    );
    let runtime = of(1, "fifo").name("only").build().expect("a small pool");
    let unknown = runtime.pool("other").expect_err("it is not there");
    assert_eq!(
        unknown.to_string(),
        "the runtime has nothing called `other`; it has `only`"
    );
    assert_eq!(unknown.known(), ["only"]);
    let none = runtime.silos("other").expect_err("they are not there");
    assert_eq!(
        none.to_string(),
        "the runtime has nothing called `other`; it has none"
    );
    assert!(runtime.first().concurrency_limit(0).is_err());
}

#[test]
fn threads_and_reports_have_the_name_of_the_pool() {
    let stalls: Arc<Mutex<Vec<String>>> = Arc::default();
    let index = {
        let stalls = Arc::clone(&stalls);
        of(1, "fifo")
            .stuck_after(Some(Duration::from_millis(10)))
            .on_stall(move |stall| stalls.lock().push(format!("{}: {stall}", stall.pool)))
    };
    let runtime = stage("parse", of(1, "lifo"))
        .then("index", index)
        .build()
        .expect("small pools");
    let name = || std::thread::current().name().map(str::to_owned);
    let parse = runtime.spawn_job(name).wait().expect("no panic");
    assert!(parse.is_some_and(|name| name.starts_with("parse-")));
    let pool = runtime.pool("index").expect("it is there").clone();
    let told = Arc::clone(&stalls);
    let task = runtime.spawn(async move {
        pool.enter().await.expect("it is open");
        let until = Instant::now() + Duration::from_secs(20);
        while told.lock().is_empty() && Instant::now() < until {
            warpweft_platform::atomic::spin_loop();
        }
        name()
    });
    let index = task.wait().expect("no panic");
    assert!(index.is_some_and(|name| name.starts_with("index-")));
    let stalls = stalls.lock();
    assert!(
        stalls
            .first()
            .is_some_and(|text| text.starts_with("index: worker 0 of `index` has been for")),
        "{stalls:?}"
    );
}
