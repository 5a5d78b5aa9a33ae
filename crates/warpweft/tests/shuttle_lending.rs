//! Lent priorities under shuttle: tasks of three levels wait for locks and for each other, give up, and are
//! cancelled. Whatever is lent to whom, each task has its turn, and none has two.
#![cfg(warpweft_shuttle)]

mod support {
    pub(crate) mod models;
}

use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use support::models::{check, runtime};
use warpweft::sync::Mutex;
use warpweft::{JoinHandle, Runtime, TaskBuilder, block_on, yield_now};

/// Looks at the handle once.
async fn look(handle: &mut JoinHandle<()>) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *handle).poll(cx).is_ready())).await
}

fn on(runtime: &Runtime, level: u8) -> TaskBuilder<'_> {
    let priority = runtime.priority(level).expect("a level of the policy");
    TaskBuilder::new().on(runtime).priority(priority)
}

/// A chain: the urgent one awaits one that waits for a lock, whose owner awaits a third. Others, some of them
/// fibers, are ready in between.
#[test]
fn a_chain_of_waits_ends() {
    check(|| {
        let runtime = runtime(2, "priority:3");
        let ran = Arc::new(AtomicUsize::new(0));
        let count = |ran: &Arc<AtomicUsize>| {
            let ran = Arc::clone(ran);
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        let lock = Arc::new(Mutex::new(()));
        let last = on(&runtime, 2).spawn_job(count(&ran));
        let owner = {
            let (lock, end) = (Arc::clone(&lock), count(&ran));
            on(&runtime, 2).spawn(async move {
                let _guard = lock.lock().await;
                last.await.expect("it ends");
                end();
            })
        };
        let between = on(&runtime, 1).spawn_job(count(&ran));
        let waits = {
            let (lock, end) = (Arc::clone(&lock), count(&ran));
            on(&runtime, 2).spawn_fiber(move || {
                drop(block_on(lock.lock()));
                end();
            })
        };
        let end = count(&ran);
        let high = on(&runtime, 0).spawn(async move {
            waits.await.expect("it ends");
            end();
        });
        for task in [owner, between, high] {
            task.wait().expect("it ends");
        }
        assert_eq!(ran.load(Ordering::SeqCst), 5);
    });
}

/// The handle is looked at, handed to another task, and dropped or taken there; or its task is cancelled.
#[test]
fn handles_go_from_one_to_another() {
    check(|| {
        let runtime = runtime(2, "priority:3");
        let awaited: Vec<_> = (0..3)
            .map(|_| on(&runtime, 2).spawn(async { yield_now().await }))
            .collect();
        let first = on(&runtime, 0).spawn(async move {
            let mut handles = awaited;
            let mut waiting = Vec::new();
            for mut handle in handles.drain(..) {
                if !look(&mut handle).await {
                    waiting.push(handle);
                }
            }
            waiting
        });
        let mut waiting = first.wait().expect("it ends");
        if let Some(dropped) = waiting.pop() {
            on(&runtime, 1).spawn_job(move || drop(dropped)).detach();
        }
        if let Some(cancelled) = waiting.pop() {
            cancelled.cancel();
            let task = on(&runtime, 1).spawn(async move { cancelled.await.is_ok() });
            task.wait().expect("it ends");
        }
        if let Some(taken) = waiting.pop() {
            let task = on(&runtime, 2).spawn_fiber(move || taken.wait().expect("it ends"));
            task.wait().expect("it ends");
        }
    });
}
