//! A task that was spawned, or that waits, in each public way is in the dump, once, with its kind and site.
//!
//! The list of ways comes from the sources: a public function that takes a closure, a future or a stream, and
//! that is neither in [`cases`] nor in [`NO_CASES`], fails the test by its name.

use super::PATIENCE;
use super::ways::{BLOCKING, Case, FORK, THREAD, WANTED, cases};
use crate::public_functions::that_take_code;
use std::collections::BTreeSet;
use std::panic::Location;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{Dump, TaskDump, TaskKind, WaitDump, WaitsFor};

/// Functions in whose closure nothing of the program waits.
const NO_CASES: &[(&str, &str)] = &[
    (
        "effect::Coroutine::new",
        "`Handler::run` runs the body, as in the case of `handle`",
    ),
    ("effect::Coroutine::try_new", "as above"),
    (
        "effect::Handler::on",
        "a clause is called by `Handler::run`, on the caller's stack",
    ),
    ("effect::Handler::returning", "as above"),
    (
        "io::Async::poll_read_with",
        "it calls a system call that does not block",
    ),
    ("io::Async::poll_write_with", "as above"),
    ("io::Async::read_with", "as above"),
    ("io::Async::write_with", "as above"),
    ("runtime::Builder::on_panic", "a hook"),
    ("runtime::Builder::on_stall", "a hook"),
    ("runtime::Builder::on_thread_start", "a hook"),
    ("runtime::Builder::on_thread_stop", "a hook"),
    ("runtime::Builder::record_on_stall_with", "a hook"),
    ("runtime::Builder::silos", "a hook"),
    ("runtime::Builder::start_threads", "a hook"),
    ("runtime::Builder::thread_context", "a hook"),
    ("runtime::Builder::thread_name", "a hook"),
    (
        "runtime::enter",
        "it builds the runtime of an attribute, and then is `Runtime::block_on`",
    ),
    (
        "runtime::simulate",
        "it runs the body of a test, which spawns as these cases do",
    ),
    ("signal::dump_on_signal", "a hook"),
    ("signal::record_on_signal", "a hook"),
    (
        "stream::ParStream::map_each",
        "it makes an item, which the others spawn",
    ),
    ("stream::next", "it polls a stream in the caller's task"),
    (
        "sync::Condvar::wait_while",
        "it looks at the value, under the lock",
    ),
    (
        "sync::OnceCell::get_or_make",
        "as `get_or_init`, with a closure that does not wait",
    ),
    ("sync::OnceCell::try_get_or_make", "as above"),
];

/// A new public function that takes code has no row: it is named here.
#[test]
fn each_function_that_takes_code_has_a_case() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let found = that_take_code(&sources);
    let cases = cases();
    let called = cases.iter().flat_map(|row| row.1.iter().copied());
    let known: BTreeSet<String> = called
        .chain(NO_CASES.iter().map(|&(name, _)| name))
        .map(String::from)
        .collect();
    let unknown: Vec<_> = found.difference(&known).collect();
    assert!(unknown.is_empty(), "these have no case: {unknown:#?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no such function is public: {gone:#?}");
}

/// The tasks that wait at a gate, in the order of their kinds.
fn at_the_gate(dump: &Dump) -> Vec<&TaskDump> {
    let waits = |wait: &WaitDump| matches!(wait.on, WaitsFor::Permits { wanted: WANTED, .. });
    let tasks = dump.tasks.iter();
    let mut tasks: Vec<_> = tasks.filter(|task| task.waits.iter().any(waits)).collect();
    tasks.sort_by_key(|task| format!("{:?}", task.kind));
    tasks
}

fn has_kinds(tasks: &[&TaskDump], kinds: &[Option<TaskKind>]) -> bool {
    tasks.iter().map(|task| task.kind).eq(kinds.iter().copied())
}

/// What is wrong with a task that waits at the gate of the case that begins at a line, and ends before the
/// other.
fn fault(task: &TaskDump, names: &[&str], from: u32, to: u32) -> Option<&'static str> {
    let is_of_case =
        |site: &Location<'_>| site.file().ends_with("ways.rs") && (from..to).contains(&site.line());
    match task.kind {
        _ if task.since.is_none() => Some("it is not known since when it waits"),
        // A thread has a name of its own, and waits for no pool; a part of a join has the site of the join.
        THREAD => None,
        _ if task.pool.as_deref() != Some("main") => Some("its pool is not known"),
        FORK => None,
        // An `async fn` does not know its caller, which the task that awaits it names.
        BLOCKING if names.iter().all(|name| name.starts_with("fs::")) => None,
        _ if !task.spawned_at.is_some_and(is_of_case) => Some("it has another spawn site"),
        _ => None,
    }
}

#[test]
fn what_is_spawned_in_each_way_is_in_the_dump() {
    let rows = cases();
    let mut faults = Vec::new();
    for &(line, names, kinds, make) in &rows {
        let case = Case::new();
        make(&case);
        let mut kinds = kinds.to_vec();
        kinds.sort_by_key(|kind| format!("{kind:?}"));
        let after = rows.iter().map(|row| row.0).filter(|&next| next > line).min();
        let end = after.unwrap_or(u32::MAX);
        let start = Instant::now();
        // A dump is no picture of one moment: a task may begin between the looks at it.
        let wrong = loop {
            let dump = case.runtime.dump();
            let found = at_the_gate(&dump);
            let wrong = if has_kinds(&found, &kinds) {
                found.iter().find_map(|task| fault(task, names, line, end))
            } else {
                Some("it should have other kinds of tasks at the gate")
            };
            let wrong = wrong.map(|wrong| format!("{names:?} at {line}, {kinds:?}: {wrong}:\n{dump}"));
            if wrong.is_none() || start.elapsed() > PATIENCE {
                break wrong;
            }
            thread::sleep(Duration::from_millis(1));
        };
        faults.extend(wrong);
        case.end();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
