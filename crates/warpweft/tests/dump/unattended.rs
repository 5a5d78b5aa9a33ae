//! Tasks that wait long for what no living task is known to bring, beside others that go on.

use super::{cycle, dump_with, idle, named, runtime};
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use warpweft::sync::{Barrier, Mutex, Notify, Semaphore, channel, oneshot};
use warpweft::{Dump, Finding, Runtime, TaskState};

/// Longer than a wait must last to be named, as the coarse clock measures it.
const LONG: Duration = Duration::from_millis(1100);

#[track_caller]
/// A task with a timer for all the time: the runtime is never quiet.
fn heartbeat(runtime: &Runtime) {
    drop(named(runtime, "heartbeat").spawn(async {
        loop {
            warpweft::time::sleep(Duration::from_millis(20)).await;
        }
    }));
}

/// Waits for a timer, again and again, until the value says that the dump was seen.
async fn sleep_until_seen(is_seen: &AtomicBool) {
    while !is_seen.load(Ordering::Relaxed) {
        warpweft::time::sleep(Duration::from_millis(300)).await;
    }
}

fn unattended(dump: &Dump) -> BTreeSet<String> {
    let is_it = |finding: &&Finding| matches!(finding, Finding::Unattended { .. });
    let tasks = dump.findings.iter().filter(is_it).flat_map(Finding::tasks);
    tasks.filter_map(|&task| dump.tasks[task].name.clone()).collect()
}

/// The task with this name waits.
fn waits(dump: &Dump, name: &str) -> bool {
    let is_it = |task: &warpweft::TaskDump| task.name.as_deref() == Some(name);
    let mut tasks = dump.tasks.iter();
    tasks.any(|task| is_it(task) && task.state == TaskState::Waiting)
}

/// A heartbeat does not hide what was forgotten.
#[test]
fn what_was_forgotten_is_named_beside_a_timer() {
    let runtime = ManuallyDrop::new(runtime(2));
    heartbeat(&runtime);
    let (sender, receiver) = channel::bounded::<u32>(1);
    let (promise, promised) = oneshot::channel::<u32>();
    let (barrier, notify) = (Arc::new(Barrier::new(2)), Arc::new(Notify::new()));
    let (permits, missed) = (Arc::new(Semaphore::new(2)), notify.clone());
    for _ in 0..2 {
        let permits = permits.clone();
        let leaks = async move { std::mem::forget(permits.acquire(1).await) };
        runtime.spawn(leaks).wait().expect("no panic");
    }
    drop(named(&runtime, "receives").spawn(async move { receiver.recv().await }));
    drop(named(&runtime, "promised").spawn(promised));
    drop(named(&runtime, "arrives").spawn(async move { barrier.arrive().await }));
    drop(named(&runtime, "permitted").spawn_fiber(move || drop(permits.acquire(1).wait())));
    // The notification comes before the wait, and is for those that wait.
    let early = runtime.spawn_job(move || missed.notify_all());
    early.wait().expect("no panic");
    drop(named(&runtime, "missed").spawn_job(move || notify.notified().wait()));
    let all = ["arrives", "missed", "permitted", "promised", "receives"];
    let dump = dump_with("all findings", &runtime, |dump| {
        unattended(dump).len() >= all.len()
    });
    assert_eq!(unattended(&dump), all.map(String::from).into(), "{dump}");
    let text = dump.to_string();
    assert!(text.contains("NO TASK IS KNOWN TO END THE WAIT of #"), "{text}");
    assert!(
        text.contains("the value of a oneshot channel made at crates/warpweft/tests/dump/unattended.rs:"),
        "{text}"
    );
    assert!(dump.to_json().contains("\"finding\":\"unattended\""), "{dump}");
    assert_eq!(idle(&dump), None, "the heartbeat runs");
    drop((sender, promise));
}

/// Neither has received, so nothing says which task has which end.
#[test]
fn two_tasks_that_fill_each_others_channel_and_have_never_received() {
    let runtime = ManuallyDrop::new(runtime(2));
    heartbeat(&runtime);
    let (to_left, left) = channel::bounded::<u32>(1);
    let (to_right, right) = channel::bounded::<u32>(1);
    let talk = |sender: channel::Sender<u32>, receiver: channel::Receiver<u32>| async move {
        for n in 0..2 {
            sender.send(n).await.expect("it is open");
        }
        while receiver.recv().await.is_ok() {}
    };
    drop(named(&runtime, "left").spawn(talk(to_right, left)));
    drop(named(&runtime, "right").spawn(talk(to_left, right)));
    let dump = dump_with("both", &runtime, |dump| unattended(dump).len() == 2);
    assert!(
        dump.to_string()
            .contains("room in a full channel (1 of 1, 1 receiver)"),
        "{dump}"
    );
}

/// A sender that a living task has used, a time limit, a thread outside that has notified, and a lock whose
/// owner sleeps.
#[test]
fn who_is_known_to_be_served_is_not_named() {
    let runtime = runtime(2);
    let end = Arc::new(Notify::new());
    let (sender, receiver) = channel::bounded::<u32>(1);
    let until_the_end = end.clone();
    let source = named(&runtime, "source").spawn(async move {
        sender.send(1).await.expect("it is open");
        while warpweft::time::timeout(Duration::from_millis(50), until_the_end.notified())
            .await
            .is_err()
        {}
    });
    let sink = named(&runtime, "sink").spawn(async move { while receiver.recv().await.is_ok() {} });
    let (from_outside, lock) = (Arc::new(Notify::new()), Arc::new(Mutex::new(())));
    let told = from_outside.clone();
    let twice = named(&runtime, "twice").spawn(async move {
        told.notified().await;
        told.notified().await;
    });
    from_outside.notify_one();
    let (owned, held) = (lock.clone(), Arc::new(Notify::new()));
    let has = held.clone();
    let owner = named(&runtime, "owner").spawn(async move {
        let _guard = owned.lock().await;
        has.notify_one();
        warpweft::time::sleep(2 * LONG).await;
    });
    held.notified().wait();
    let wants = named(&runtime, "wants").spawn(async move { drop(lock.lock().await) });
    for name in ["sink", "twice", "owner", "wants"] {
        dump_with("all wait", &runtime, |dump| waits(dump, name));
    }
    std::thread::sleep(LONG);
    let dump = runtime.dump();
    assert_eq!(unattended(&dump), BTreeSet::new(), "{dump}");
    assert_eq!(cycle(&dump), None, "{dump}");
    from_outside.notify_one();
    end.notify_one();
    for task in [source, sink, twice, owner, wants] {
        task.wait().expect("no panic");
    }
}

/// A task that watches the others is not taken for one of them.
#[test]
fn a_task_may_ask_for_the_dump() {
    let runtime = ManuallyDrop::new(Arc::new(runtime(2)));
    let notify = Arc::new(Notify::new());
    let waits_on = notify.clone();
    drop(named(&runtime, "waits").spawn(async move { waits_on.notified().await }));
    for style in ["future", "fiber", "job"] {
        let asked = runtime.clone();
        let ask = move || {
            // A timer would be a way out.
            std::thread::sleep(Duration::from_millis(150));
            asked.dump()
        };
        let builder = named(&runtime, style);
        let dump = match style {
            "future" => builder.spawn(async move { ask() }).wait(),
            "fiber" => builder.spawn_fiber(ask).wait(),
            _ => builder.spawn_job(ask).wait(),
        };
        let dump = dump.expect("no panic");
        assert_eq!(idle(&dump), Some(vec![String::from("waits")]), "{style}: {dump}");
        assert!(
            dump.to_string().contains("acts, or the task that asks: 1 task"),
            "{dump}"
        );
    }
}

/// A future that polls another one with a waker of its own, as collections of futures do.
struct Between<F> {
    inner: Pin<Box<F>>,
    waker: Arc<Relay>,
}

struct Relay(std::sync::Mutex<Option<Waker>>);

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let waker = self.0.lock().expect("no panic").take();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<F: Future> Between<F> {
    fn new(inner: F) -> Self {
        Self {
            inner: Box::pin(inner),
            waker: Arc::new(Relay(std::sync::Mutex::new(None))),
        }
    }
}

impl<F: Future> Future for Between<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        *self.waker.0.lock().expect("no panic") = Some(cx.waker().clone());
        let waker = Waker::from(self.waker.clone());
        self.inner.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Such waits belong to the task that polled, and what follows from them is likely.
#[test]
fn a_circle_through_the_waker_of_another_crate_is_likely() {
    let runtime = ManuallyDrop::new(runtime(2));
    heartbeat(&runtime);
    let (left, right) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
    let both = Arc::new(Barrier::new(2));
    for (name, first, second) in [
        ("left first", left.clone(), right.clone()),
        ("right first", right, left),
    ] {
        let both = both.clone();
        drop(named(&runtime, name).spawn(async move {
            let _first = Between::new(first.lock()).await;
            Between::new(both.arrive()).await;
            drop(Between::new(second.lock()).await);
        }));
    }
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert_eq!(
        cycle(&dump),
        Some(vec!["left first".into(), "right first".into()]),
        "{dump}"
    );
    assert!(dump.to_string().contains("LIKELY DEADLOCK: 2 tasks"), "{dump}");
    assert!(
        dump.to_string().contains(", by a waker of another crate"),
        "{dump}"
    );
}

/// A socket or a timer of another crate may wake a task of which nothing else is known.
#[test]
fn what_another_crate_may_wake_is_a_way_out() {
    let runtime = runtime(2);
    let other = Arc::new(Relay(std::sync::Mutex::new(None)));
    let (notify, waker) = (Arc::new(Notify::new()), other.clone());
    let waits_on = notify.clone();
    let known = named(&runtime, "known").spawn(async move { waits_on.notified().await });
    let mut is_first = true;
    let foreign = std::future::poll_fn(move |cx| {
        *waker.0.lock().expect("no panic") = Some(cx.waker().clone());
        if std::mem::take(&mut is_first) {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    });
    let foreign = named(&runtime, "foreign").spawn(foreign);
    for name in ["known", "foreign"] {
        dump_with("both wait", &runtime, |dump| waits(dump, name));
    }
    std::thread::sleep(Duration::from_millis(200));
    let dump = runtime.dump();
    assert_eq!(dump.findings, [], "{dump}");
    other.wake();
    notify.notify_one();
    known.wait().expect("no panic");
    foreign.wait().expect("no panic");
}

/// A task that moved the guard of its lock to another one, which gives it back.
#[test]
fn a_guard_that_was_moved_is_not_called_a_deadlock_for_certain() {
    static LOCK: std::sync::LazyLock<Mutex<u32>> = std::sync::LazyLock::new(|| Mutex::new(0));
    let runtime = Arc::new(runtime(2));
    let spawner = runtime.clone();
    let is_seen = Arc::new(AtomicBool::new(false));
    let seen = is_seen.clone();
    let task = named(&runtime, "moves").spawn(async move {
        let mut guard = LOCK.lock().await;
        let child = named(&spawner, "child").spawn(async move {
            sleep_until_seen(&seen).await;
            *guard += 1;
        });
        let count = *LOCK.lock().await;
        child.await.expect("no panic");
        count
    });
    let dump = dump_with("it waits", &runtime, |dump| {
        waits(dump, "moves") && cycle(dump).is_some()
    });
    assert!(
        matches!(&dump.findings[..], [Finding::Cycle { uncertain: true, .. }]),
        "{dump}"
    );
    is_seen.store(true, Ordering::Relaxed);
    assert_eq!(task.wait().expect("no panic"), 1);
}

/// The same without another task is certain.
#[test]
fn a_lock_that_is_taken_twice() {
    let runtime = ManuallyDrop::new(runtime(2));
    let lock = Arc::new(Mutex::new(()));
    drop(named(&runtime, "twice").spawn(async move {
        let _first = lock.lock().await;
        drop(lock.lock().await);
    }));
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    assert!(
        matches!(&dump.findings[..], [Finding::Cycle { uncertain: false, .. }]),
        "{dump}"
    );
}

/// A sender that was passed on by a task that has ended: at first that is nothing to speak of.
#[test]
fn an_end_that_was_passed_on_is_not_accused_at_once() {
    let runtime = runtime(2);
    let (sender, receiver) = channel::bounded::<u32>(1);
    let (give, given) = oneshot::channel();
    let is_seen = Arc::new(AtomicBool::new(false));
    let seen = is_seen.clone();
    let keeps = named(&runtime, "keeps").spawn(async move {
        let sender: channel::Sender<u32> = given.await.expect("it is sent");
        sleep_until_seen(&seen).await;
        sender.send(2).await.expect("it is open");
    });
    let setup = runtime.spawn(async move {
        sender.send(1).await.expect("it is open");
        assert!(give.send(sender).is_ok());
    });
    setup.wait().expect("no panic");
    let sink = named(&runtime, "sink").spawn(async move { while receiver.recv().await.is_ok() {} });
    let dump = dump_with("it waits", &runtime, |dump| waits(dump, "sink"));
    assert_eq!(dump.findings, [], "{dump}");
    is_seen.store(true, Ordering::Relaxed);
    keeps.wait().expect("no panic");
    sink.wait().expect("no panic");
}

/// A later task with the same name, of the same spawn site, and probably in the same place.
#[test]
fn a_namesake_of_a_task_that_has_ended_is_not_accused() {
    let runtime = ManuallyDrop::new(runtime(2));
    let permits = Arc::new(Semaphore::new(1));
    let same = |forgets: Option<Arc<Semaphore>>| {
        let builder = named(&runtime, "same");
        builder.spawn(async move {
            match forgets {
                Some(permits) => std::mem::forget(permits.acquire(1).await),
                None => warpweft::time::sleep(Duration::from_secs(3600)).await,
            }
        })
    };
    same(Some(permits.clone())).wait().expect("no panic");
    for _ in 0..100 {
        drop(same(None));
    }
    drop(named(&runtime, "wants").spawn(async move { drop(permits.acquire(1).await) }));
    let dump = dump_with("it waits", &runtime, |dump| waits(dump, "wants"));
    let wants = dump
        .tasks
        .iter()
        .find(|task| task.name.as_deref() == Some("wants"));
    let wait = &wants.expect("it waits").waits[0];
    assert!(wait.holders.is_empty() && wait.is_holder_missing, "{dump}");
}

/// A task takes permits and moves them to others, as one that accepts connections does.
#[test]
fn permits_that_were_moved_to_a_task_are_no_circle() {
    for permits in [1, 3] {
        let runtime = ManuallyDrop::new(Arc::new(runtime(2)));
        let spawner = runtime.clone();
        drop(named(&runtime, "accepts").spawn(async move {
            let permits: &'static Semaphore = Box::leak(Box::new(Semaphore::new(permits)));
            while let Ok(permit) = permits.acquire(1).await {
                drop(named(&spawner, "handles").spawn(async move {
                    let _permit = permit;
                    warpweft::time::sleep(Duration::from_secs(3600)).await;
                }));
            }
        }));
        dump_with("it waits", &runtime, |dump| waits(dump, "accepts"));
        std::thread::sleep(LONG);
        let dump = runtime.dump();
        assert_eq!(cycle(&dump), None, "{dump}");
        let text = dump.to_string();
        match &dump.findings[..] {
            [] => {}
            [_] => assert!(
                text.contains(", unless it has moved them to another task\n"),
                "{text}"
            ),
            _ => panic!("{text}"),
        }
    }
}

/// Of more than eight permits one holder is known. It sleeps, so it is known to bring its permit back.
#[test]
fn a_holder_that_sleeps_serves_who_waits_for_permits() {
    let runtime = ManuallyDrop::new(runtime(2));
    let permits = Arc::new(Semaphore::new(12));
    for _ in 0..12 {
        let permits = permits.clone();
        drop(named(&runtime, "has").spawn(async move {
            let _permit = permits.acquire(1).await;
            warpweft::time::sleep(Duration::from_secs(3600)).await;
        }));
    }
    while permits.free() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(named(&runtime, "wants").spawn(async move { drop(permits.acquire(1).await) }));
    dump_with("it waits", &runtime, |dump| waits(dump, "wants"));
    std::thread::sleep(LONG);
    let dump = runtime.dump();
    assert_eq!(dump.findings, [], "{dump}");
}

/// Of two senders one was used by a task that waits, and the other belongs to a task that sleeps.
#[test]
fn a_channel_with_more_senders_is_served_by_a_living_task() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (to_left, left) = channel::bounded::<u32>(2);
    let (to_right, right) = channel::bounded::<u32>(2);
    let both = (to_left.clone(), to_right.clone());
    drop(named(&runtime, "third").spawn(async move {
        warpweft::time::sleep(Duration::from_secs(3600)).await;
        drop(both);
    }));
    let talk = |sender: channel::Sender<u32>, receiver: channel::Receiver<u32>| async move {
        sender.send(1).await.expect("it is open");
        while receiver.recv().await.is_ok() {}
    };
    drop(named(&runtime, "left").spawn(talk(to_right, left)));
    drop(named(&runtime, "right").spawn(talk(to_left, right)));
    for name in ["left", "right"] {
        dump_with("all wait", &runtime, |dump| waits(dump, name));
    }
    std::thread::sleep(LONG);
    let dump = runtime.dump();
    assert_eq!(dump.findings, [], "{dump}");
}

/// The sender was passed on by a task that has ended: what is said is known.
#[test]
fn an_end_that_was_passed_on_is_said_to_be_perhaps() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (sender, receiver) = channel::bounded::<u32>(1);
    let (give, given) = oneshot::channel();
    drop(named(&runtime, "heir").spawn(async move {
        let sender: channel::Sender<u32> = given.await.expect("it is sent");
        warpweft::time::sleep(Duration::from_secs(3600)).await;
        drop(sender);
    }));
    let first = named(&runtime, "first").spawn(async move {
        sender.send(1).await.expect("it is open");
        assert!(give.send(sender).is_ok());
    });
    first.wait().expect("no panic");
    drop(named(&runtime, "sink").spawn(async move { while receiver.recv().await.is_ok() {} }));
    let dump = dump_with("a suspicion", &runtime, |dump| !dump.findings.is_empty());
    assert!(
        matches!(&dump.findings[..], [Finding::Abandoned { .. }]),
        "{dump}"
    );
    let text = dump.to_string();
    assert!(text.contains("NOBODY IS KNOWN TO WAKE #"), "{text}");
    let text = text.lines().next().expect("a headline");
    assert!(
        text.contains(": a value of an empty channel (0 of 1, 1 sender) made at "),
        "{text}"
    );
    assert!(
        text.ends_with("; the task that used the only other end last has ended, and may have passed it on"),
        "{text}"
    );
}
