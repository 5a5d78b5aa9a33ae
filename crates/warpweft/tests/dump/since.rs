//! Since when a future or a fiber waits, whatever it waits for.

use super::dump_with;
use std::time::{Duration, Instant};
use warpweft::time::sleep;
use warpweft::{Builder, Dump, JoinHandle, Runtime, TaskBuilder, TaskDump, TaskKind, TaskState};

const FOREVER: Duration = Duration::from_secs(3600);
/// The time of a wait is known within less than this, unless a worker loses its CPU between its reading of
/// the clock and the wait.
const ROUGHLY: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_millis(900);

fn waiting(dump: &Dump, kind: TaskKind) -> impl Iterator<Item = &TaskDump> {
    let waits = move |task: &&TaskDump| {
        task.pool.is_some() && task.kind == Some(kind) && task.state == TaskState::Waiting
    };
    dump.tasks.iter().filter(waits)
}

fn builders() -> [(&'static str, Builder); 3] {
    let builder = || Runtime::builder().workers(2);
    let unwatched = builder().stuck_after(None).report_stalls_after(None);
    [
        ("as built", builder()),
        ("without a monitor", unwatched),
        ("one worker", builder().workers(1)),
    ]
}

/// Runs a test with each of the builders, side by side: it mostly sleeps.
fn with_each(test: impl Fn(&str, Builder) + Sync) {
    std::thread::scope(|scope| {
        for (what, builder) in builders() {
            scope.spawn(|| test(what, builder));
        }
    });
}

#[test]
fn waits_of_futures_and_fibers_for_timers_and_tasks_have_an_age() {
    with_each(|what, builder| {
        let runtime = builder.build().expect("a runtime");
        let start = Instant::now();
        let sleeper = |name: &'static str| TaskBuilder::new().on(&runtime).name(name).spawn(sleep(FOREVER));
        let join = |task: JoinHandle<()>| drop(task.wait());
        let fibers = [runtime.spawn_fiber(|| warpweft::block_on(sleep(FOREVER)))];
        let joined = sleeper("joined by a fiber");
        let joins = runtime.spawn_fiber(move || join(joined));
        let joined = sleeper("joined by a future");
        let future = runtime.spawn(async move { drop(joined.await) });
        let all_wait = |dump: &Dump| {
            waiting(dump, TaskKind::Future).count() == 3 && waiting(dump, TaskKind::Fiber).count() == 2
        };
        let begun = dump_with("all wait", &runtime, all_wait);
        let most = start.elapsed() + ROUGHLY;
        for task in begun.tasks.iter().filter(|task| task.pool.is_some()) {
            assert!(task.since.is_some_and(|since| since <= most), "{what}: {task:?}");
        }
        let all_for_long = |dump: &Dump| {
            let is_long = |task: &TaskDump| task.since.is_some_and(|since| since >= LONG);
            all_wait(dump) && dump.tasks.iter().filter(|task| task.pool.is_some()).all(is_long)
        };
        let dump = dump_with("for long", &runtime, all_for_long);
        // The coarse clock may have stood for a while when they began.
        assert!(start.elapsed() + ROUGHLY >= LONG, "{what}: {dump}");
        drop((fibers, joins, future));
    });
}

/// The clock is read again after a time in which nothing ran.
#[test]
fn what_waits_after_an_idle_time_has_just_begun() {
    // One after the other: they share the clock that is read again.
    for (what, builder) in builders() {
        let runtime = builder.build().expect("a runtime");
        runtime.spawn(async {}).wait().expect("no panic");
        std::thread::sleep(Duration::from_millis(1200));
        let start = Instant::now();
        let tasks = [
            runtime.spawn(sleep(FOREVER)),
            runtime.spawn_fiber(|| warpweft::block_on(sleep(FOREVER))),
        ];
        let both_wait = |dump: &Dump| {
            waiting(dump, TaskKind::Future).count() + waiting(dump, TaskKind::Fiber).count() == 2
        };
        let dump = dump_with("both wait", &runtime, both_wait);
        let most = start.elapsed() + ROUGHLY;
        for task in dump.tasks.iter().filter(|task| task.pool.is_some()) {
            assert!(task.since.is_some_and(|since| since <= most), "{what}: {task:?}");
        }
        drop(tasks);
    }
}

#[test]
fn a_future_that_was_polled_again_has_waited_since_then() {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    // Before the spawn: where this thread gets no CPU for long, the task begins to wait meanwhile.
    let start = Instant::now();
    let task = runtime.spawn(async {
        sleep(2 * LONG).await;
        sleep(FOREVER).await;
    });
    let older = |dump: &Dump| waiting(dump, TaskKind::Future).any(|task| task.since >= Some(LONG / 2));
    dump_with("it waits", &runtime, older);
    let younger = |dump: &Dump| {
        let is_young = |task: &TaskDump| task.since < Some(LONG / 2);
        start.elapsed() > 2 * LONG && waiting(dump, TaskKind::Future).any(is_young)
    };
    let dump = dump_with("it waits again", &runtime, younger);
    let since = waiting(&dump, TaskKind::Future)
        .next()
        .and_then(|task| task.since)
        .expect("known");
    assert!(since + 2 * LONG <= start.elapsed() + ROUGHLY, "{dump}");
    drop(task);
}
