//! Each way to spawn on each type that has it: the same names, the same meaning, and nowhere one that the
//! others lack.

use crate::eventually::eventually;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::future::ready;
use std::path::Path;
use warpweft::policy::Negele;
use warpweft::{ConcurrencyLimit, JoinError, JoinHandle, Pool, Runtime, SpawnError, TaskBuilder};

/// The functions that every type has.
const EVERYWHERE: [&str; 11] = [
    "spawn",
    "try_spawn",
    "spawn_job",
    "try_spawn_job",
    "spawn_detached",
    "spawn_fiber",
    "try_spawn_fiber",
    "spawn_local",
    "try_spawn_local",
    "install",
    "broadcast",
];

/// What a type has beside them, and why the others do not.
fn others(of: &str) -> &'static [&'static str] {
    match of {
        // It names a worker, or the caller's thread, or an order: that is a choice like a name or a priority.
        "TaskBuilder" => &[
            "spawn_fiber_here",
            // A pool may be bounded, so one may wait for a permit.
            "spawn_with_permit",
            "spawn_job_with_permit",
            "spawn_fiber_with_permit",
            "spawn_local_with_permit",
            "spawn_fifo",
            "spawn_pinned",
            "spawn_pinned_local",
        ],
        // The threads for closures that block are the runtime's own matter: one reaches them from each pool.
        "Runtime" => &["spawn_blocking", "try_spawn_blocking"],
        "Pool" => &["spawn_with_permit"],
        "ConcurrencyLimit" => &["spawn_with_permit", "spawn_within"],
        _ => &[],
    }
}

/// The public functions of each type whose names begin as those of this table, as the sources have them.
fn verbs_of_sources(folder: &Path, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            verbs_of_sources(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source");
        let mut of = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                let name = rest.trim_start_matches("<'a>").trim();
                of = ["TaskBuilder<", "Runtime {", "Pool {", "ConcurrencyLimit {"]
                    .into_iter()
                    .find(|start| name.starts_with(start))
                    .map(|start| start.trim_end_matches(['<', '{', ' ']));
            } else if line == "}" {
                of = None;
            }
            let (Some(of), Some(rest)) = (of, line.strip_prefix("    pub fn ")) else {
                continue;
            };
            let name = rest.split(['<', '(']).next().unwrap_or_default();
            if ["spawn", "try_spawn", "install", "broadcast"]
                .iter()
                .any(|verb| name.starts_with(verb))
            {
                found.entry(of.to_owned()).or_default().insert(name.to_owned());
            }
        }
    }
}

#[test]
fn every_type_has_every_verb() {
    let mut found = BTreeMap::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for folder in ["runtime", "compose"] {
        verbs_of_sources(&sources.join(folder), &mut found);
    }
    assert_eq!(found.len(), 4, "{found:?}");
    for (of, verbs) in found {
        let expected: BTreeSet<_> = EVERYWHERE
            .iter()
            .chain(others(&of))
            .map(|&verb| verb.to_owned())
            .collect();
        assert_eq!(verbs, expected, "{of}");
    }
}

/// Where a task ran.
fn here() -> String {
    Pool::current().map_or_else(|| String::from("nowhere"), |pool| pool.name().to_owned())
}

type Handles = Vec<(&'static str, Result<JoinHandle<String>, SpawnError>)>;

/// What the functions came to that every type has: handles, the detached job, `install` and `broadcast`.
struct Called {
    handles: Handles,
    detached: Option<String>,
    installed: Result<String, SpawnError>,
    broadcast: Result<Vec<String>, SpawnError>,
}

/// Calls each function that every type has on `$target`.
macro_rules! call_all {
    ($target:expr) => {{
        let (sender, receiver) = std::sync::mpsc::channel::<String>();
        $target.spawn_detached(move || drop(sender.send(here())));
        let handles: Handles = vec![
            ("spawn", Ok($target.spawn(async { here() }))),
            ("try_spawn", $target.try_spawn(async { here() })),
            ("spawn_job", Ok($target.spawn_job(here))),
            ("try_spawn_job", $target.try_spawn_job(here)),
            ("spawn_fiber", Ok($target.spawn_fiber(here))),
            ("try_spawn_fiber", $target.try_spawn_fiber(here)),
            ("spawn_local", Ok($target.spawn_local(|| ready(here())))),
            ("try_spawn_local", $target.try_spawn_local(|| ready(here()))),
        ];
        Called {
            handles,
            // What is dropped hangs up.
            detached: receiver.recv().ok(),
            installed: $target.install(|_| here()),
            broadcast: $target.broadcast(|_| here()),
        }
    }};
}

#[track_caller]
fn ran_in(name: &str, called: Called) {
    assert_eq!(called.handles.len() + 3, EVERYWHERE.len());
    for (verb, handle) in called.handles {
        let ran = handle.expect(verb).wait().expect(verb);
        assert_eq!(ran, name, "{verb}");
    }
    assert_eq!(called.detached.as_deref(), Some(name));
    assert_eq!(called.installed.as_deref(), Ok(name));
    let broadcast = called.broadcast.expect("open");
    assert!(!broadcast.is_empty() && broadcast.iter().all(|ran| ran == name));
}

#[track_caller]
fn refused(called: Called) {
    for (verb, handle) in called.handles {
        match handle {
            Ok(handle) => assert!(matches!(handle.wait(), Err(JoinError::Shutdown)), "{verb}"),
            Err(error) => assert!(verb.starts_with("try_") && error == SpawnError::Closed, "{verb}"),
        }
    }
    assert_eq!(called.detached, None);
    assert_eq!(called.installed, Err(SpawnError::Closed));
    assert_eq!(called.broadcast, Err(SpawnError::Closed));
}

fn runtime() -> Runtime {
    Runtime::builder()
        .name("first")
        .workers(2)
        .then("second", Runtime::builder().workers(1))
        .silos("s", 2, |_| Runtime::builder().workers(1))
        .build()
        .expect("a runtime")
}

fn limit(runtime: &Runtime, places: usize) -> ConcurrencyLimit {
    runtime
        .pool("second")
        .expect("a pool")
        .concurrency_limit(places)
        .expect("places")
}

#[test]
fn each_runs_where_it_was_sent_from_outside_and_from_a_task() {
    let runtime = runtime();
    let check = |runtime: &Runtime| {
        ran_in("first", call_all!(TaskBuilder::new().name("named").on(runtime)));
        ran_in("first", call_all!(runtime));
        ran_in("second", call_all!(runtime.pool("second").expect("a pool")));
        ran_in("second", call_all!(limit(runtime, 9)));
        let silo = runtime.silos("s").expect("silos");
        ran_in(silo.of(7).name(), call_all!(silo.of(7)));
        for target in [
            TaskBuilder::new().on(runtime),
            TaskBuilder::new().on_pool(&runtime.pools()[0]),
        ] {
            assert_eq!(
                target.broadcast(|worker| (worker, here())).expect("open").len(),
                2
            );
        }
        assert_eq!(runtime.broadcast(|worker| worker).expect("open"), [0, 1]);
        let one = runtime.first().concurrency_limit(1).expect("a limit");
        assert_eq!(one.broadcast(|worker| worker).expect("open"), [0, 1]);
    };
    check(&runtime);
    // From a task of a pool, and from a fiber: the caller waits, and gives its worker away meanwhile.
    let runtime = std::sync::Arc::new(runtime);
    for pool in ["first", "second"] {
        let inner = std::sync::Arc::clone(&runtime);
        let pool = runtime.pool(pool).expect("a pool");
        pool.spawn_fiber(move || check(&inner)).wait().expect("no panic");
    }
}

#[test]
fn without_a_pool_each_runs_where_the_caller_is() {
    let runtime = std::sync::Arc::new(runtime());
    let job = runtime.pool("second").expect("a pool").spawn_job(|| {
        ran_in("second", call_all!(TaskBuilder::new()));
    });
    job.wait().expect("no panic");
    // A thread that has entered a runtime.
    runtime.block_on(async {
        assert_eq!(
            TaskBuilder::new()
                .try_spawn(async { here() })
                .expect("open")
                .await
                .expect("no panic"),
            "first"
        );
    });
    ran_in("warpweft", call_all!(TaskBuilder::new()));
}

#[test]
fn a_pool_that_has_ended_refuses_each() {
    let runtime = runtime();
    let limit = limit(&runtime, 9);
    runtime.shutdown();
    refused(call_all!(TaskBuilder::new().on(&runtime)));
    refused(call_all!(runtime));
    refused(call_all!(runtime.pools()[1]));
    refused(call_all!(limit));
    assert_eq!(limit.free(), 9, "what is refused takes no place");
}

/// The results of the functions that may find no place.
macro_rules! try_all {
    ($target:expr) => {
        [
            $target.try_spawn(ready(())).err(),
            $target.try_spawn_job(|| ()).err(),
            $target.try_spawn_fiber(|| ()).err(),
            $target.try_spawn_local(|| ready(())).err(),
        ]
    };
}

#[test]
fn a_full_pool_and_a_full_limit_refuse_what_tries() {
    let runtime = Runtime::builder()
        .workers(1)
        .capacity(1)
        .build()
        .expect("a runtime");
    let (open, gate) = warpweft::sync::oneshot::channel::<()>();
    let holds = runtime.try_spawn(gate).expect("the one place");
    let error = SpawnError::Full {
        pool: String::from("warpweft"),
        capacity: 1,
    };
    let full: [_; 4] = std::array::from_fn(|_| Some(error.clone()));
    assert_eq!(try_all!(runtime), full);
    assert_eq!(try_all!(runtime.first()), full);
    assert_eq!(try_all!(TaskBuilder::new().on(&runtime)), full);
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    assert_eq!(try_all!(limit), full);
    assert_eq!(limit.free(), 1, "what the pool refused has given its place back");
    // The others need no permit.
    assert_eq!(runtime.spawn_fiber(|| 1).wait().expect("no panic"), 1);
    open.send(()).expect("it waits");
    assert_eq!(holds.wait().expect("no panic"), Ok(()));

    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    let (open, gate) = warpweft::sync::oneshot::channel::<()>();
    let holds = limit.try_spawn(gate).expect("the one place");
    assert_eq!(limit.free(), 0);
    let error = SpawnError::AtLimit {
        pool: String::from("warpweft"),
        limit: 1,
    };
    assert_eq!(
        error.to_string(),
        "as many tasks run as a limit of 1 at a time in pool `warpweft` admits: spawn without `try_`, which begins when the limit \
         admits it, or spawn fewer"
    );
    let full: [_; 4] = std::array::from_fn(|_| Some(error.clone()));
    assert_eq!(try_all!(limit), full);
    assert_eq!(try_all!(limit.clone()), full);
    // These wait for it.
    let fiber = limit.spawn_fiber(|| 1);
    let local = limit.spawn_local(|| ready(2));
    runtime.spawn_job(|| ()).wait().expect("no panic");
    assert!(!fiber.is_finished() && !local.is_finished());
    open.send(()).expect("it waits");
    assert_eq!(holds.wait().expect("no panic"), Ok(()));
    assert_eq!(
        (fiber.wait().expect("no panic"), local.wait().expect("no panic")),
        (1, 2)
    );
    for task in [
        limit.try_spawn(ready(1)),
        limit.try_spawn_job(|| 1),
        limit.try_spawn_fiber(|| 1),
        limit.try_spawn_local(|| ready(1)),
    ] {
        // The place of the one before may not be back yet when its joiner is.
        drop(task.map(JoinHandle::wait));
    }
}

#[test]
fn each_ends_its_limit() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    let limit = runtime.first().concurrency_limit(2).expect("a limit");
    for _ in 0..20 {
        let called = call_all!(limit);
        // Those that tried may have found no place.
        let handles = called.handles.into_iter().filter_map(|(_, handle)| handle.ok());
        handles.for_each(|handle| drop(handle.wait().expect("no panic")));
    }
    eventually("all places are back", || limit.free() == 2);
    // A panic gives the place back, too.
    let panics = || -> u32 { std::panic::resume_unwind(Box::new("beans")) };
    assert!(limit.spawn_fiber(panics).wait().is_err());
    assert!(limit.try_spawn_job(panics).is_ok_and(|job| job.wait().is_err()));
    eventually("all places are back", || limit.free() == 2);
}

/// A call of either takes one permit, for which it waits, and gives it back, also by a panic.
#[test]
fn install_and_broadcast_take_one_permit() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    assert_eq!(limit.install(|_| limit.free()), Ok(0));
    assert_eq!(limit.broadcast(|_| limit.free()), Ok(vec![0, 0]));
    assert_eq!(limit.free(), 1);
    let panics = || std::panic::resume_unwind(Box::new("beans"));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| limit.install(|_| panics())));
    assert!(caught.is_err() && limit.free() == 1);
    // From outside, and from a task, which gives its worker away.
    for from_a_task in [false, true] {
        for broadcasts in [false, true] {
            let (open, gate) = warpweft::sync::oneshot::channel::<()>();
            let holds = limit.try_spawn(gate).expect("the one place");
            let (called, calls) = std::sync::mpsc::channel();
            let inside = limit.clone();
            let call = move || {
                let end = if broadcasts {
                    inside.broadcast(|_| ()).map(|results| results.len())
                } else {
                    inside.install(|_| 2)
                };
                called.send(end).expect("the test waits");
            };
            let (mut task, mut thread) = (None, None);
            if from_a_task {
                task = Some(runtime.spawn_job(call));
            } else {
                thread = Some(warpweft_platform::thread::spawn(call));
            }
            let pause = std::time::Duration::from_millis(20);
            assert!(calls.recv_timeout(pause).is_err(), "it waits for the permit");
            open.send(()).expect("it waits");
            assert_eq!(holds.wait().expect("no panic"), Ok(()));
            assert_eq!(calls.recv(), Ok(Ok(2)));
            task.into_iter().for_each(|task| task.wait().expect("no panic"));
            thread
                .into_iter()
                .for_each(|thread| thread.join().expect("no panic"));
            eventually("the permit is back", || limit.free() == 1);
        }
    }
}

/// The pool ends while a call waits for a permit.
#[test]
fn a_call_that_waits_for_a_permit_hears_of_the_end() {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let limit = runtime.first().concurrency_limit(1).expect("a limit");
    let holds = limit.spawn(std::future::pending::<()>());
    eventually("the place is taken", || limit.free() == 0);
    let inside = limit.clone();
    let caller = warpweft_platform::thread::spawn(move || inside.install(|_| ()));
    runtime.shutdown();
    assert!(matches!(holds.wait(), Err(JoinError::Shutdown)));
    assert_eq!(caller.join().expect("no panic"), Err(SpawnError::Closed));
}

#[test]
fn names_sites_and_priorities_reach_the_task() {
    let runtime = Runtime::builder()
        .workers(1)
        .policy(Negele::new())
        .build()
        .expect("a runtime");
    let urgent = runtime.priority(0).expect("levels");
    let limit = runtime.first().concurrency_limit(9).expect("a limit");
    let before = line!();
    let tasks = [
        TaskBuilder::new().name("soup").on(&runtime).try_spawn(ready(())),
        runtime.try_spawn(ready(())),
        runtime.first().try_spawn(ready(())),
        limit.try_spawn(ready(())),
    ];
    let lines = before..line!();
    for (number, task) in tasks.into_iter().enumerate() {
        let task = task.expect("open");
        let info = task.info();
        assert_eq!(info.name(), (number == 0).then_some("soup"));
        let site = info.location();
        assert!(
            site.file().ends_with("spawn_methods.rs") && lines.contains(&site.line()),
            "{site}"
        );
    }
    // The worker is in the first task while the others come; then the urgent ones are first.
    let order = std::sync::Arc::new(warpweft_platform::sync::Mutex::new(Vec::new()));
    let (started, begun) = std::sync::mpsc::channel();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let holds = runtime.spawn_job(move || {
        started.send(()).expect("the test waits");
        let _ = gate.recv();
    });
    begun.recv().expect("it starts");
    let push = |what: &'static str| {
        let order = std::sync::Arc::clone(&order);
        move || order.lock().push(what)
    };
    let tasks = [
        runtime.spawn_job(push("plain")),
        TaskBuilder::new()
            .on(&runtime)
            .priority(urgent)
            .try_spawn_job(push("urgent"))
            .expect("open"),
        limit
            .with_priority(urgent)
            .try_spawn_job(push("limit"))
            .expect("open"),
    ];
    open.send(()).expect("it waits");
    holds.wait().expect("no panic");
    for task in tasks {
        task.wait().expect("no panic");
    }
    assert_eq!(*order.lock(), ["urgent", "limit", "plain"]);
}
