//! Holders of read-write locks and of large semaphores that are left, after others have come and gone.

use super::{accusations, cycle, dump_with, named};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use warpweft::sync::{Mutex, Notify, RwLock, RwLockWriteGuard, Semaphore};
use warpweft::time::sleep;
use warpweft::{Dump, JoinHandle, Runtime, WaitDump, WaitsFor};

/// A neighbour goes on for ever, so that the runtime is never idle.
fn runtime() -> ManuallyDrop<Runtime> {
    let runtime = Runtime::builder().workers(2).build().expect("a runtime");
    drop(named(&runtime, "beats").spawn(async {
        loop {
            sleep(Duration::from_millis(5)).await;
        }
    }));
    ManuallyDrop::new(runtime)
}

/// Waits until that many tasks wait for permits.
fn wait_for_line(runtime: &Runtime, tasks: usize) {
    let is_open = |wait: &&WaitDump| matches!(wait.on, WaitsFor::Permits { .. }) && !wait.told;
    let in_line = |dump: &Dump| {
        dump.tasks
            .iter()
            .flat_map(|task| &task.waits)
            .filter(is_open)
            .count()
    };
    dump_with("they are in line", runtime, |dump| in_line(dump) == tasks);
}

/// What the tasks of a test share.
#[derive(Default)]
struct Stage {
    lock: RwLock<()>,
    mutex: Mutex<()>,
    /// How many have their guards.
    ready: AtomicUsize,
    begin: Notify,
    leave: Notify,
}

impl Stage {
    fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Release);
    }

    /// Waits until that many tasks have their guards.
    fn wait_for(&self, tasks: usize) {
        while self.ready.load(Ordering::Acquire) < tasks {
            std::thread::yield_now();
        }
    }
}

/// A reader that keeps its guard until `leave` is notified.
fn leaves(runtime: &Runtime, stage: &Arc<Stage>) -> JoinHandle<()> {
    let stage = stage.clone();
    named(runtime, "leaves").spawn(async move {
        let guard = stage.lock.read().await;
        stage.is_ready();
        stage.leave.notified().await;
        drop(guard);
    })
}

/// A reader that waits for the mutex when it has its guard.
fn remains(runtime: &Runtime, stage: &Arc<Stage>) {
    let stage = stage.clone();
    drop(named(runtime, "remains").spawn(async move {
        let guard = stage.lock.read().await;
        stage.is_ready();
        drop(stage.mutex.lock().await);
        drop(guard);
    }));
}

/// A task that has the mutex, and waits for the lock to write when `begin` is notified.
fn writes(runtime: &Runtime, stage: &Arc<Stage>) {
    let inside = stage.clone();
    drop(named(runtime, "writes").spawn(async move {
        let _mutex = inside.mutex.lock().await;
        inside.is_ready();
        inside.begin.notified().await;
        drop(inside.lock.write().await);
    }));
    stage.wait_for(1);
}

/// While the test's own thread writes, one reader comes that will leave, and then one that remains. `ends`
/// ends the writing.
fn two_that_wait(
    runtime: &Runtime,
    stage: &Arc<Stage>,
    ends: impl FnOnce(RwLockWriteGuard<'_, ()>),
) -> JoinHandle<()> {
    writes(runtime, stage);
    let guard = stage.lock.write().wait();
    let first = leaves(runtime, stage);
    wait_for_line(runtime, 1);
    remains(runtime, stage);
    wait_for_line(runtime, 2);
    ends(guard);
    stage.wait_for(3);
    first
}

fn ends_writing(guard: RwLockWriteGuard<'_, ()>) {
    drop(guard);
}

/// The reader that remains and the writer wait for each other, for certain.
fn is_found(runtime: &Runtime) {
    let both = Some(vec!["remains".into(), "writes".into()]);
    let dump = dump_with("the circle", runtime, |dump| cycle(dump) == both);
    assert!(dump.findings[0].is_certain(), "{dump}");
    assert_eq!(accusations(&dump).len(), 1, "{dump}");
}

/// One reader leaves, and then the writer begins to wait for the one that remains.
fn the_one_that_remains_is_found(runtime: &Runtime, stage: &Stage, leaves: JoinHandle<()>) {
    stage.leave.notify_one();
    leaves.wait().expect("no panic");
    stage.begin.notify_one();
    is_found(runtime);
}

#[test]
fn the_last_of_two_readers_that_have_waited() {
    let runtime = runtime();
    let stage = Arc::new(Stage::default());
    let first = two_that_wait(&runtime, &stage, ends_writing);
    the_one_that_remains_is_found(&runtime, &stage, first);
}

/// The other one is well, and leaves while the writer waits.
#[test]
fn one_of_two_readers_that_have_waited() {
    let runtime = runtime();
    let stage = Arc::new(Stage::default());
    let first = two_that_wait(&runtime, &stage, ends_writing);
    stage.begin.notify_one();
    is_found(&runtime);
    stage.leave.notify_one();
    first.wait().expect("no panic");
    is_found(&runtime);
}

/// Both have waited for one that wrote and then read.
#[test]
fn the_last_reader_after_a_writer_that_became_one() {
    let runtime = runtime();
    let stage = Arc::new(Stage::default());
    let first = two_that_wait(&runtime, &stage, |guard| {
        let reads = RwLockWriteGuard::downgrade(guard);
        stage.wait_for(3);
        drop(reads);
    });
    the_one_that_remains_is_found(&runtime, &stage, first);
}

/// Many wait and read, and some give up or are not polled any more, before the two come.
#[test]
fn slots_of_waiters_are_used_again() {
    let runtime = runtime();
    let stage = Arc::new(Stage::default());
    for round in 0..5 {
        let guard = stage.lock.write().wait();
        let is_over = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..50)
            .map(|at| {
                let (stage, is_over) = (stage.clone(), is_over.clone());
                named(&runtime, "reads").spawn(async move {
                    let mut reading = std::pin::pin!(stage.lock.read());
                    std::future::poll_fn(|cx| {
                        assert!(reading.as_mut().poll(cx).is_pending());
                        std::task::Poll::Ready(())
                    })
                    .await;
                    match at % 3 {
                        // It is given a permit, and does not take it.
                        0 => {
                            while !is_over.load(Ordering::Relaxed) {
                                sleep(Duration::from_millis(1)).await;
                            }
                        }
                        1 => (),
                        _ => drop(reading.await),
                    }
                })
            })
            .collect();
        wait_for_line(&runtime, 50 - 17);
        drop(guard);
        while stage.lock.try_read().is_none() {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|task| task.wait().expect("no panic"));
        assert!(stage.lock.try_write().is_some(), "round {round}");
    }
    let first = two_that_wait(&runtime, &stage, ends_writing);
    the_one_that_remains_is_found(&runtime, &stage, first);
}

/// Ten of twenty permits are with a task that has waited for them, as the second one.
#[test]
fn a_holder_of_a_large_semaphore_that_has_waited() {
    let runtime = runtime();
    let (permits, stage) = (Arc::new(Semaphore::new(20)), Arc::new(Stage::default()));
    let all = permits.try_acquire(20).expect("free");
    let (mutex, begin) = (stage.clone(), permits.clone());
    drop(named(&runtime, "writes").spawn(async move {
        let _mutex = mutex.mutex.lock().await;
        mutex.is_ready();
        mutex.begin.notified().await;
        drop(begin.acquire(15).await);
    }));
    stage.wait_for(1);
    for (at, name) in ["leaves", "remains"].into_iter().enumerate() {
        let (permits, stage) = (permits.clone(), stage.clone());
        drop(named(&runtime, name).spawn(async move {
            let some = permits.acquire(10).await.expect("open");
            stage.is_ready();
            if name == "remains" {
                drop(stage.mutex.lock().await);
            } else {
                stage.leave.notified().await;
            }
            drop(some);
        }));
        wait_for_line(&runtime, at + 1);
    }
    drop(all);
    stage.wait_for(3);
    stage.leave.notify_one();
    stage.begin.notify_one();
    is_found(&runtime);
    assert_eq!(permits.free(), 10);
}

/// A permit that a task has waited for is kept for ever, and the task ends.
#[test]
fn a_holder_that_has_waited_and_has_forgotten_its_permit() {
    let runtime = runtime();
    let permits = Arc::new(Semaphore::new(20));
    let all = permits.try_acquire(20).expect("free");
    let tasks: Vec<_> = (0..40)
        .map(|at| {
            let permits = permits.clone();
            let takes = named(&runtime, "forgets").spawn(async move {
                let permit = permits.acquire(usize::from(at < 10)).await.expect("open");
                match at % 2 {
                    0 => permit.forget(),
                    _ => std::mem::forget(permit),
                }
            });
            wait_for_line(&runtime, at + 1);
            takes
        })
        .collect();
    drop(all);
    tasks.into_iter().for_each(|task| task.wait().expect("no panic"));
    assert_eq!(permits.free(), 10);
    let wanted = permits.clone();
    let waits = named(&runtime, "waits").spawn(async move {
        assert!(wanted.acquire(12).await.is_err(), "it only closes");
    });
    let is_in_line = |dump: &Dump| {
        let waits = dump
            .tasks
            .iter()
            .find(|task| task.name.as_deref() == Some("waits"));
        waits.is_some_and(|task| !task.waits.is_empty())
    };
    let dump = dump_with("it waits", &runtime, is_in_line);
    let waits_for = dump.tasks.iter().flat_map(|task| &task.waits);
    let absent = waits_for.filter_map(|wait| match wait.on {
        WaitsFor::Permits { absent, all, .. } => Some((absent, all)),
        _ => None,
    });
    // Five were forgotten by their semaphore, too, and five are with tasks that have ended.
    assert_eq!(absent.collect::<Vec<_>>(), [(5, 15)], "{dump}");
    permits.close();
    waits.wait().expect("no panic");
}
