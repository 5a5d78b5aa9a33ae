//! Silos, names, requests that cannot be built, and the ends of pools.

use super::{here, of};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft::policy::{Count, Cx, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft::{
    BuildError, Builder, EnterError, Fifo, JoinError, Policy, Pool, Runtime, SpawnError, TaskBuilder, stage,
    yield_now,
};
use warpweft_platform::sync::Mutex;

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
