//! Tasks in queues that have never run: a dump lists them, under each policy, and while they come and go.

use super::{PATIENCE, dump_with};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::sync::Notify;
use warpweft::{Builder, Dump, PolicySpec, Runtime, TaskBuilder, TaskDump, TaskKind, TaskState};

/// Policies with places that only their owner can read, or that no report reads.
const NOT_ALL: [&str; 4] = ["negele", "negele-local", "prows", "tokio"];

/// What is spawned from outside, and by a worker that then does not go on.
const OUTSIDE: [&str; 2] = ["future outside", "job outside"];
const INSIDE: [&str; 2] = ["future inside", "job inside"];

fn builder(policy: &str) -> Builder {
    let policy: PolicySpec = policy.parse().expect("a policy with a name");
    Runtime::builder()
        .workers(2)
        .policy_spec(policy)
        .stuck_after(None)
        .report_stalls_after(None)
}

fn spawn_two<'a>(builder: impl Fn() -> TaskBuilder<'a>, names: [&'static str; 2]) {
    drop(builder().name(names[0]).spawn(async {}));
    builder().name(names[1]).spawn_detached(|| ());
}

fn queued(dump: &Dump) -> impl Iterator<Item = &TaskDump> {
    let is_queued = |task: &&TaskDump| task.state == TaskState::Queued && task.pool.is_some();
    dump.tasks.iter().filter(is_queued)
}

fn is_right(task: &TaskDump) -> bool {
    let kind = match task.name.as_deref() {
        Some(name) if name.starts_with("future") => TaskKind::Future,
        _ => TaskKind::Job,
    };
    task.kind == Some(kind)
        && task.pool.as_deref() == Some("warpweft")
        && task
            .spawned_at
            .is_some_and(|site| site.file().ends_with("queued.rs"))
        && task.waits.is_empty()
}

/// Closures that keep all workers of a runtime, until they are dropped.
struct Kept(Arc<AtomicBool>);

impl Kept {
    /// Returns when they run. One of them calls `first`.
    fn workers_of(runtime: &Runtime, first: fn()) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let all_run = Arc::new(Barrier::new(3));
        for begin in [first, || ()] {
            let (stop, all_run) = (Arc::clone(&stop), Arc::clone(&all_run));
            runtime.spawn_detached(move || {
                all_run.wait();
                begin();
                while !stop.load(Ordering::Acquire) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        all_run.wait();
        Self(stop)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn tasks_that_never_ran_are_listed_under_each_policy() {
    let mut tried = 0;
    for preset in PolicySpec::presets() {
        // Some are not compiled without the feature `all-policies`.
        let Ok(runtime) = builder(preset.name()).build() else {
            continue;
        };
        tried += 1;
        let _kept = Kept::workers_of(&runtime, || spawn_two(|| TaskBuilder::new(), INSIDE));
        spawn_two(|| TaskBuilder::new().on(&runtime), OUTSIDE);
        let expected: BTreeSet<_> = INSIDE.into_iter().chain(OUTSIDE).collect();
        let is_there = |dump: &Dump| {
            let names: BTreeSet<_> = queued(dump).filter_map(|task| task.name.as_deref()).collect();
            let unlisted = dump.pools[0].unlisted;
            names.len() + unlisted == expected.len() && (NOT_ALL.contains(&preset.name()) || unlisted == 0)
        };
        let dump = dump_with(preset.name(), &runtime, is_there);
        for task in queued(&dump) {
            assert!(is_right(task), "{}: {task:?}", preset.name());
        }
    }
    assert!(tried >= 4, "the default ones are there");
}

/// Counts what lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn name_of(number: usize) -> String {
    format!("{number:0>width$}", width = 40)
}

/// Each task spawns the next ones, and ends at once, while another thread asks for dumps. A name that a dump
/// shows must be whole: a dump that looked at freed memory would show another one.
fn tasks_come_and_go_beside_dumps(policy: &str) {
    const LINES: usize = 64;
    fn next(builder: TaskBuilder<'_>, number: usize, stop: Arc<AtomicBool>, alive: Alive) {
        let count = Arc::clone(&alive.0);
        let body = move || {
            drop(alive);
            if !stop.load(Ordering::Relaxed) {
                next(TaskBuilder::new(), number + LINES, stop, Alive::new(&count));
            }
        };
        let builder = builder.name(name_of(number));
        match number / LINES % 3 {
            0 => drop(builder.spawn_job(body)),
            1 => builder.spawn_detached(body),
            _ => drop(builder.spawn(async {
                warpweft::yield_now().await;
                body();
            })),
        }
    }
    let runtime = builder(policy).build().expect("a runtime");
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for number in 0..LINES {
        next(
            TaskBuilder::new().on(&runtime),
            number,
            Arc::clone(&stop),
            Alive::new(&count),
        );
    }
    let (start, mut seen) = (Instant::now(), BTreeSet::new());
    // A policy may let old tasks wait, and a machine may be busy.
    let is_enough = |seen: usize| start.elapsed() > Duration::from_millis(300) && seen > LINES;
    while !is_enough(seen.len()) && start.elapsed() < PATIENCE {
        let dump = runtime.dump();
        // A worker may take a task to another queue, or start it, while the dump looks.
        let mut listed = BTreeSet::new();
        for task in dump.tasks.iter().filter(|task| task.name.is_some()) {
            assert!(listed.insert(task.id), "{policy}: twice: {task:?}");
        }
        for task in queued(&dump) {
            let name = task
                .name
                .as_deref()
                .unwrap_or_else(|| panic!("{policy}: no name: {task:?}"));
            let number: usize = name
                .parse()
                .unwrap_or_else(|error| panic!("{policy}: {error}: {task:?}"));
            assert_eq!(name, name_of(number), "{policy}");
            seen.insert(number);
        }
    }
    stop.store(true, Ordering::Relaxed);
    runtime.shutdown();
    assert_eq!(count.load(Ordering::Relaxed), 0, "{policy}: all have ended");
    assert!(seen.len() > LINES, "{policy}: {} were seen", seen.len());
}

#[test]
fn tasks_that_come_and_go_are_whole() {
    for policy in [
        "fifo",
        "lifo",
        "slot",
        "priority",
        "edf",
        "go",
        "chain",
        "fifo-lockfree",
        "cforall",
    ] {
        if builder(policy).build().is_ok() {
            tasks_come_and_go_beside_dumps(policy);
        }
    }
}

#[test]
fn of_very_many_tasks_some_are_counted() {
    let runtime = builder("fifo").build().expect("a runtime");
    // A dump comes upon these twice: among the futures that have waited, and in the queue.
    let gate = Arc::new(Notify::new());
    for _ in 0..100 {
        let gate = Arc::clone(&gate);
        drop(runtime.spawn(async move { gate.notified().await }));
    }
    let waits = |task: &&TaskDump| task.pool.is_some() && task.state == TaskState::Waiting;
    dump_with("all wait", &runtime, |dump| {
        dump.tasks.iter().filter(waits).count() == 100
    });
    let _kept = Kept::workers_of(&runtime, || ());
    gate.notify_all();
    for _ in 100..100_000 {
        drop(runtime.spawn_job(|| ()));
    }
    let dump = runtime.dump();
    assert_eq!(queued(&dump).count(), 65_536);
    assert_eq!(
        (dump.pools[0].ready, dump.pools[0].unlisted),
        (100_000, 100_000 - 65_536)
    );
    assert!(
        dump.to_string()
            .contains("100000 tasks in queues (34464 of them not listed)\n"),
        "{dump}"
    );
}
