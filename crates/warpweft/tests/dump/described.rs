//! What a future of another crate waits for, in the words of the code that awaits it.

use crate::{cycle, dump_with, runtime};
use std::future::{pending, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use warpweft::sync::{Mutex, Notify, oneshot};
use warpweft::{
    Dump, TaskBuilder, TaskDump, TaskState, block_on, describe_wait, fiber, spawn_blocking, yield_now,
};

fn of<'dump>(dump: &'dump Dump, name: &str) -> Option<&'dump TaskDump> {
    dump.tasks.iter().find(|task| task.name.as_deref() == Some(name))
}

/// A dump reads the state of a task before its waits: one that begins to wait between them is queued
/// and waits already.
fn says(dump: &Dump, name: &str, what: &[&str]) -> bool {
    of(dump, name).is_some_and(|task| task.state == TaskState::Waiting && task.described == what)
}

#[test]
fn each_kind_of_task_says_what_it_waits_for() {
    const WHAT: &str = "a reply of the bank";
    let runtime = ManuallyDrop::new(runtime(2));
    let with_name = |name: &'static str| TaskBuilder::new().name(name).on(&runtime);
    let future = with_name("future").spawn(async { describe_wait(WHAT, pending::<()>()).await });
    let fiber = with_name("fiber").spawn_fiber(|| describe_wait(WHAT, pending::<()>()).wait());
    let awaiting = with_name("await").spawn_fiber(|| fiber::wait(describe_wait(WHAT, pending::<()>())));
    let job = with_name("job").spawn_job(|| block_on(describe_wait(WHAT, pending::<()>())));
    let (close, closed) = oneshot::channel::<()>();
    let other = thread::Builder::new()
        .name(String::from("a thread"))
        .spawn(move || {
            let _ = describe_wait(WHAT.to_owned(), closed).wait();
        });
    let names = ["future", "fiber", "await", "job", "a thread"];
    let dump = dump_with("all say it", &runtime, |dump| {
        names.iter().all(|name| says(dump, name, &[WHAT]))
    });
    // Threads of other tests are in it, too.
    let own = names.iter().filter_map(|name| of(&dump, name));
    let text = own.map(|task| format!("{task}\n")).collect::<String>();
    let lines = |of: &str| text.lines().filter(|line| line.contains(of)).count();
    assert_eq!(
        lines("for a reply of the bank, as its code says"),
        names.len(),
        "{text}"
    );
    assert_eq!(lines("for something that is not known"), 0, "{text}");
    assert!(dump.to_json().contains(r#""described":["a reply of the bank"]"#));
    drop(close);
    other.expect("a thread").join().expect("no panic");
    for task in [future, fiber, awaiting, job] {
        task.cancel();
        task.detach();
    }
}

/// What is described is no way out of a circle, and what is over is not said any more.
#[test]
fn a_description_changes_no_finding() {
    let runtime = ManuallyDrop::new(runtime(2));
    let locks = [0, 1].map(|_| Arc::new(Mutex::new(())));
    for (name, [first, second]) in [("one", [0, 1]), ("other", [1, 0])] {
        let (first, second) = (Arc::clone(&locks[first]), Arc::clone(&locks[second]));
        let task = TaskBuilder::new().name(name).on(&runtime);
        task.spawn(async move {
            let held = describe_wait("the first lock", first.lock()).await;
            while second.try_lock().is_some() {
                yield_now().await;
            }
            let both = describe_wait("the second lock", second.lock()).await;
            drop((held, both));
        })
        .detach();
    }
    let dump = dump_with("a circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(
        cycle(&dump),
        Some(vec![String::from("one"), String::from("other")])
    );
    let finding = &dump.findings[0];
    assert!(finding.is_certain(), "{dump}");
    assert!(says(&dump, "one", &["the second lock"]), "{dump}");
}

/// Of several at once all are said, and of one that is over nothing is left.
#[test]
fn a_description_is_there_while_its_future_waits() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (one, other) = (Arc::clone(&first), Arc::clone(&second));
    let task = TaskBuilder::new().name("both").on(&runtime);
    let task = task.spawn(async move {
        let mut one = pin!(describe_wait("one", one.notified()));
        let mut other = pin!(describe_wait("other", other.notified()));
        let mut left = [true, true];
        poll_fn(|cx| {
            left[0] = left[0] && one.as_mut().poll(cx).is_pending();
            left[1] = left[1] && other.as_mut().poll(cx).is_pending();
            if left == [false, false] {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        // Ready at once: it never waits.
        describe_wait("nothing", async {}).await;
        spawn_blocking(|| ()).await.expect("no panic");
    });
    dump_with("both", &runtime, |dump| {
        says(dump, "both", &["one", "other"]) || says(dump, "both", &["other", "one"])
    });
    first.notify_one();
    dump_with("the other", &runtime, |dump| {
        says(dump, "both", &["other"]) && dump.to_string().contains("for other, as its code says")
    });
    second.notify_one();
    task.wait().expect("no panic");
}

/// Control characters in a text do not reach a terminal.
#[test]
fn a_text_is_escaped() {
    let runtime = ManuallyDrop::new(runtime(2));
    let what = format!("\u{1b}[31m{}\n", "red");
    let task = TaskBuilder::new().name("red").on(&runtime);
    let task = task.spawn(describe_wait(what.clone(), pending::<()>()));
    let dump = dump_with("it waits", &runtime, |dump| says(dump, "red", &[&what]));
    assert!(
        dump.to_string()
            .contains(r"for \u{1b}[31mred\n, as its code says"),
        "{dump}"
    );
    assert!(
        dump.to_json().contains(r#"["\u001b[31mred\n"]"#),
        "{}",
        dump.to_json()
    );
    task.cancel();
    task.detach();
}
