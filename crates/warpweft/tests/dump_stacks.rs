//! Dumps with stacks: of fibers that wait, of tasks that run, and of closures that block. It has its own
//! process, because the handler of a signal belongs to the process.
#![cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(warpweft_loom, warpweft_shuttle, warpweft_corosensei))
))]

#[path = "support/again.rs"]
mod again;
#[path = "support/eventually.rs"]
mod eventually;

use again::{child, said};
use eventually::eventually;
use std::hint::black_box;
use std::process::{Command, id};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use warpweft::sync::Notify;
use warpweft::{Dump, NoStack, Runtime, Stack, TaskBuilder, TaskDump, TaskState, fiber, scope};

/// How long a test may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).stuck_after(None);
    builder.build().expect("a runtime")
}

/// How many fibers of the runtime wait for something of this crate.
fn waiting(dump: &Dump) -> usize {
    let waits = |task: &&TaskDump| task.pool.is_some() && !task.waits.is_empty();
    dump.tasks.iter().filter(waits).count()
}

/// Returns true if the stack was not copied or not read in time. Each thread needs a CPU for that, which
/// foreign load may take from it.
fn is_late(stack: &Result<Stack, NoStack>) -> bool {
    matches!(stack, Err(NoStack::NotCopied(_) | NoStack::NotRead))
}

/// Asks for ten stacks until no stack is late.
fn dump_with_stacks(runtime: &Runtime) -> Dump {
    let mut dump = runtime.dump_with_stacks(10);
    eventually("all stacks are read", || {
        let is_complete = !dump
            .tasks
            .iter()
            .filter_map(|task| task.stack.as_ref())
            .any(is_late);
        if !is_complete {
            dump = runtime.dump_with_stacks(10);
        }
        is_complete
    });
    dump
}

/// The stack of a task by its name. That of a closure of `spawn_blocking` is "spawned".
fn stack<'a>(dump: &'a Dump, name: &str) -> &'a Stack {
    let task = dump.tasks.iter().find(|task| match task.state {
        TaskState::SpawnedBlocking => name == "spawned",
        _ => task.name.as_deref() == Some(name),
    });
    let stack = task
        .expect("it is there")
        .stack
        .as_ref()
        .expect("it was asked for");
    stack.as_ref().expect("it is read")
}

/// How many frames of a stack are of a function.
fn frames_of(stack: &Stack, function: &str) -> usize {
    let is_it = |name: &String| name.contains(function) && !name.contains("closure");
    let names = stack.frames.iter().filter_map(|frame| frame.function.as_ref());
    names.filter(|name| is_it(name)).count()
}

#[inline(never)]
fn deep_in_a_wait(levels: u32, stop: &Notify) -> u32 {
    if black_box(levels) == 0 {
        stop.notified().wait();
        return black_box(1);
    }
    black_box(deep_in_a_wait(levels - 1, stop)) + 1
}

#[inline(never)]
fn deep_in_a_loop(over: &AtomicBool, inside: &AtomicUsize) {
    inside.fetch_add(1, Ordering::Relaxed);
    while !over.load(Ordering::Relaxed) {
        black_box((0..100_u64).sum::<u64>());
    }
}

/// Notes that it has begun: a task that runs may not have come here yet.
#[inline(never)]
fn deep_in_the_system(release: &mpsc::Receiver<()>, inside: &AtomicUsize) {
    inside.fetch_add(1, Ordering::Relaxed);
    // It ends when the sender is dropped.
    black_box(release.recv()).ok();
}

/// Spawns what blocks in the system until the sender is dropped: a job, a closure of `blocking`, and one of
/// `spawn_blocking`, by these names.
const BLOCKS: [&str; 3] = ["runs", "blocks", "spawned"];

fn blocked(runtime: &Runtime) -> Vec<mpsc::Sender<()>> {
    let inside = Arc::new(AtomicUsize::new(0));
    let spawn = |name| {
        let (release, waits) = mpsc::channel();
        let builder = TaskBuilder::new().name(name).on(runtime);
        let inside = inside.clone();
        let body = move || deep_in_the_system(&waits, &inside);
        match name {
            "runs" => drop(builder.spawn_job(body)),
            "blocks" => drop(builder.spawn_job(move || warpweft::blocking(body))),
            _ => drop(runtime.try_spawn_blocking(body).ok()),
        }
        release
    };
    let senders = BLOCKS.map(spawn).into();
    let does = |task: &TaskDump| match task.state {
        TaskState::Running(Some(_)) => task.name.as_deref() == Some("runs"),
        TaskState::Blocking | TaskState::SpawnedBlocking => true,
        _ => false,
    };
    eventually("all of them block", || {
        let found = runtime.dump().tasks.iter().filter(|task| does(task)).count();
        found == BLOCKS.len() && inside.load(Ordering::Relaxed) == BLOCKS.len()
    });
    senders
}

#[test]
fn closures_that_block_have_their_stacks() {
    let runtime = runtime(2);
    let senders = blocked(&runtime);
    let dump = dump_with_stacks(&runtime);
    for name in BLOCKS {
        assert_eq!(frames_of(stack(&dump, name), "deep_in_the_system"), 1, "{dump}");
    }
    // More of them than are asked at a time.
    let more: Vec<_> = (0..12)
        .map(|_| {
            let (release, waits) = mpsc::channel::<()>();
            let inside = AtomicUsize::new(0);
            let body = move || deep_in_the_system(&waits, &inside);
            drop(runtime.try_spawn_blocking(body).ok());
            release
        })
        .collect();
    let spawned = |dump: &Dump| {
        let spawned = |task: &&TaskDump| task.state == TaskState::SpawnedBlocking;
        dump.tasks.iter().filter(spawned).count()
    };
    eventually("all of them run", || spawned(&runtime.dump()) == 13);
    let dump = dump_with_stacks(&runtime);
    let read = dump.tasks.iter().filter(|task| matches!(task.stack, Some(Ok(_))));
    assert_eq!(read.count(), 10, "{dump}");
    drop((senders, more));
}

/// Parts of one scope have the same number in a dump.
#[test]
fn parts_of_a_scope_that_block_have_their_own_stacks() {
    let runtime = runtime(2);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<()>()).unzip();
    let inside = Arc::new(AtomicUsize::new(0));
    let counts = inside.clone();
    let job = runtime.spawn_job(move || {
        scope(|s| {
            for waits in receivers {
                let inside = &counts;
                s.spawn(move |_| warpweft::blocking(|| deep_in_the_system(&waits, inside)));
            }
        });
    });
    let blocks = |task: &&TaskDump| task.state == TaskState::Blocking;
    eventually("all of them block", || {
        runtime.dump().tasks.iter().filter(blocks).count() == 3 && inside.load(Ordering::Relaxed) == 3
    });
    let dump = dump_with_stacks(&runtime);
    for task in dump.tasks.iter().filter(blocks) {
        let stack = task.stack.as_ref().expect("it was asked for");
        let stack = stack.as_ref().expect("it is read");
        assert_eq!(frames_of(stack, "deep_in_the_system"), 1, "{dump}");
    }
    drop(senders);
    job.wait().expect("no panic");
}

/// How often a test shuts down. After the limit the stacks are waited for a moment only, in which each thread
/// needs a CPU: foreign load makes some shutdowns late, or takes a stack from them.
const SHUTDOWNS: usize = 10;

/// Returns true if the stacks of all that block were copied and found in time. Otherwise the dump says so.
fn are_read(dump: &Dump) -> bool {
    let stacks: Vec<_> = dump.tasks.iter().filter_map(|task| task.stack.as_ref()).collect();
    assert!(stacks.len() >= BLOCKS.len(), "all were asked for: {dump}");
    for stack in &stacks {
        assert!(is_late(stack) || stack.is_ok(), "{dump}");
    }
    stacks.iter().all(|stack| stack.is_ok())
}

#[test]
fn a_shutdown_in_vain_has_the_stacks_of_what_is_left() {
    let limit = Duration::from_millis(200);
    let remaining = (0..SHUTDOWNS).find_map(|_| {
        let runtime = runtime(2);
        let senders = blocked(&runtime);
        let remaining = runtime.shutdown_timeout(limit).expect_err("they are stuck");
        drop(senders);
        are_read(&remaining.dump).then_some(remaining)
    });
    let remaining = remaining.expect("one of them has the stacks");
    for name in BLOCKS {
        let its = stack(&remaining.dump, name).with_names();
        assert_eq!(frames_of(&its, "deep_in_the_system"), 1, "{remaining}");
    }
    // As the panic of `expect` shows it.
    let text = format!("{remaining:?}");
    assert!(text.contains("deep_in_the_system at "), "{text}");
}

/// The symbols of the program are not read before, which takes much longer than the limit.
#[test]
fn the_first_shutdown_in_vain_keeps_its_limit() {
    const LIMIT: Duration = Duration::from_millis(100);
    let body = || {
        let runtime = runtime(2);
        let senders = blocked(&runtime);
        let start = Instant::now();
        let remaining = runtime.shutdown_timeout(LIMIT).expect_err("they are stuck");
        let took = start.elapsed().as_millis();
        let are_read = are_read(&remaining.dump);
        eprintln!("{took} ms, with {} stacks", if are_read { "all" } else { "some" });
        let text = remaining.to_string();
        assert!(
            !are_read || text.matches("deep_in_the_system at ").count() >= BLOCKS.len(),
            "{text}"
        );
        let json = remaining.dump.to_json();
        assert!(!are_read || json.contains("deep_in_the_system"), "{text}");
        drop(senders);
    };
    let mut took = Vec::new();
    for _ in 0..SHUTDOWNS {
        let Some(child) = child("the_first_shutdown_in_vain_keeps_its_limit", body) else {
            return;
        };
        let text = said(child);
        let (millis, rest) = text.split_once(" ms, with ").expect("it says so");
        let millis = Duration::from_millis(millis.parse().expect("a number"));
        let has_all = rest.starts_with("all ");
        if has_all && millis <= LIMIT + Duration::from_millis(15) {
            return;
        }
        took.push((millis, has_all));
    }
    panic!("{took:?}");
}

#[cfg(feature = "signal")]
#[test]
fn a_dump_that_a_signal_asks_for_has_stacks() {
    let runtime = runtime(2);
    let senders = blocked(&runtime);
    let stop = Arc::new(Notify::new());
    let waits = stop.clone();
    let builder = TaskBuilder::new().name("waits").on(&runtime);
    let fiber = builder.spawn_fiber(move || deep_in_a_wait(3, &waits));
    eventually("it waits", || waiting(&runtime.dump()) == 1);
    let (send, receive) = mpsc::channel();
    let dumps = warpweft::signal::dump_on_signal(&runtime, move |dump| drop(send.send(dump)));
    let dumps = dumps.expect("a handler");
    let kill = Command::new("kill").args(["-USR2", &id().to_string()]).status();
    assert!(kill.expect("there is a command").success());
    let dump = receive.recv_timeout(PATIENCE).expect("a dump");
    for name in BLOCKS {
        assert_eq!(frames_of(stack(&dump, name), "deep_in_the_system"), 1, "{dump}");
    }
    assert_eq!(frames_of(stack(&dump, "waits"), "deep_in_a_wait"), 4, "{dump}");
    stop.notify_one();
    assert_eq!(fiber.wait().expect("no panic"), 4);
    drop((dumps, senders));
}

#[test]
fn a_fiber_that_waits_has_its_stack_to_the_root() {
    let runtime = runtime(1);
    let stop = Arc::new(Notify::new());
    let waits = stop.clone();
    let builder = TaskBuilder::new().name("waits").on(&runtime);
    let task = builder.spawn_fiber(move || deep_in_a_wait(20, &waits));
    eventually("it waits", || waiting(&runtime.dump()) == 1);
    assert!(runtime.dump().tasks.iter().all(|task| task.stack.is_none()));
    let dump = runtime.dump_with_stacks(10);
    let its = stack(&dump, "waits");
    assert_eq!((frames_of(its, "deep_in_a_wait"), its.cut), (21, None), "{its}");
    let (text, json) = (dump.to_string(), dump.to_json());
    assert!(text.contains("deep_in_a_wait at "), "{text}");
    assert!(!text.contains(": switch at "), "{text}");
    assert!(
        json.contains("\"stack\":[{\"address\":\"0x") && json.contains("deep_in_a_wait"),
        "{json}"
    );
    stop.notify_one();
    assert_eq!(task.wait().expect("no panic"), 21);
}

#[test]
fn a_task_that_runs_has_its_stack() {
    let runtime = runtime(2);
    let over = Arc::new(AtomicBool::new(false));
    let inside = Arc::new(AtomicUsize::new(0));
    let [first, second] = [(); 2].map(|()| (over.clone(), inside.clone()));
    let builder = || TaskBuilder::new().on(&runtime);
    let job = builder()
        .name("job")
        .spawn_job(move || deep_in_a_loop(&first.0, &first.1));
    let fiber = builder().name("fiber").spawn_fiber(move || {
        fiber::yield_now();
        deep_in_a_loop(&second.0, &second.1);
    });
    let runs = |dump: &Dump| {
        let runs =
            |task: &&TaskDump| matches!(task.state, TaskState::Running(Some(_))) && task.name.is_some();
        dump.tasks.iter().filter(runs).count()
    };
    // One that runs may not have come into the loop yet.
    eventually("both run", || {
        inside.load(Ordering::Relaxed) == 2 && runs(&runtime.dump()) == 2
    });
    let dump = dump_with_stacks(&runtime);
    for name in ["job", "fiber"] {
        assert!(frames_of(stack(&dump, name), "deep_in_a_loop") > 0, "{dump}");
    }
    over.store(true, Ordering::Relaxed);
    job.wait().expect("no panic");
    fiber.wait().expect("no panic");
}

/// Fibers continue while their stacks are read: a stack is read, or there is a reason, and nothing crashes.
#[test]
fn fibers_that_take_turns_are_read_or_said_to_have_continued() {
    let runtime = runtime(2);
    let over = Arc::new(AtomicBool::new(false));
    let fibers: Vec<_> = (0..50)
        .map(|_| {
            let over = over.clone();
            runtime.spawn_fiber(move || {
                while !over.load(Ordering::Relaxed) {
                    let stop = Arc::new(Notify::new());
                    let waits = stop.clone();
                    let other = fiber::spawn(move || deep_in_a_wait(5, &waits));
                    fiber::yield_now();
                    stop.notify_one();
                    other.wait().expect("no panic");
                }
            })
        })
        .collect();
    let (mut read, mut continued) = (0, 0);
    let start = Instant::now();
    while read < 50 {
        assert!(
            start.elapsed() < PATIENCE,
            "{read} were read, {continued} had continued"
        );
        for task in runtime.dump_with_stacks(100).tasks {
            match task.stack {
                None => {}
                Some(Ok(_)) => read += 1,
                Some(Err(NoStack::Continued)) => continued += 1,
                Some(Err(NoStack::NotCopied(_))) => {}
                Some(Err(why)) => panic!("{why}"),
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    fibers
        .into_iter()
        .for_each(|fiber| fiber.wait().expect("no panic"));
}
