//! A policy whose hooks are honest and first do what a program says, and work that makes a pool call them
//! all.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::{Hooks, Hostile, Queue, all_answer};
use std::sync::Arc;
use std::time::Duration;
use warpweft::policy::{Cx, TaskRef, Waiting, Wake, Why};
use warpweft::time::sleep;
use warpweft::{Runtime, fiber, spawn_job, yield_now};

/// What a program does in each call of a hook, by its name.
pub(crate) trait Act: Send + Sync + 'static {
    fn act(&self, hook: &'static str);
}

/// Honest hooks that first act.
pub(crate) struct Acts<A>(pub(crate) A);

impl<A: Act> Hooks for Acts<A> {
    const INTERVAL: u32 = 2;
    const WATCHES_COMPLETIONS: bool = true;

    fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        self.0.act("push");
        queue.push(task);
        Wake::Any
    }
    fn is_fast_path(&self, _: Why) -> bool {
        self.0.act("is_fast_path");
        true
    }
    fn push_local(&self, _: &Queue, task: TaskRef) -> Result<(), TaskRef> {
        self.0.act("push_local");
        Err(task)
    }
    fn yielded(&self, queue: &Queue, task: TaskRef, _: &Cx<'_>) -> Wake {
        self.0.act("yielded");
        queue.push(task);
        Wake::Any
    }
    fn watches_waits(&self) -> bool {
        self.0.act("watches_waits");
        true
    }
    fn suspended(&self, _: Waiting<'_>) {
        self.0.act("suspended");
    }
    fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("next");
        queue.pop()
    }
    fn poll_global(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("poll_global");
        None
    }
    fn search(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("search");
        queue.pop()
    }
    fn steal_from_stuck(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("steal_from_stuck");
        queue.pop()
    }
    fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("scan");
        queue.pop()
    }
    fn drain(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.0.act("drain");
        None
    }
    fn is_only_ready(&self) -> bool {
        self.0.act("is_only_ready");
        false
    }
    fn evict(&self, _: &Queue) -> Vec<TaskRef> {
        self.0.act("evict");
        Vec::new()
    }
    fn completed(&self, _: u64) {
        self.0.act("completed");
    }
}

/// Tasks of all kinds that make a pool call all of its hooks.
pub(crate) fn work(world: World, runtime: &Runtime) -> usize {
    let mut handles = Vec::new();
    for n in 0..world.count(60) {
        handles.push(match n % 5 {
            0 => runtime.spawn_job(|| {
                let (a, b) = warpweft::join(|| 1, || 2);
                assert_eq!(a + b, 3);
                spawn_job(|| ()).detach();
            }),
            1 => runtime.spawn(async {
                yield_now().await;
                warpweft::yield_soft().await;
                warpweft::yield_hard().await;
            }),
            2 => runtime.spawn(async { sleep(Duration::from_micros(100)).await }),
            3 => runtime.spawn_fiber(|| {
                fiber::yield_now();
                fiber::wait(sleep(Duration::from_micros(100)));
            }),
            _ => {
                let handle = runtime.spawn(async { yield_now().await });
                handle.cancel();
                handle
            }
        });
        if n == 30 {
            // Stuck for long enough that a compensating worker comes.
            handles.push(runtime.spawn_job(|| std::thread::sleep(Duration::from_millis(8))));
        }
    }
    let spawned = handles.len();
    assert_eq!(all_answer(handles).all(), spawned);
    spawned
}

/// A runtime whose policy acts in its hooks.
pub(crate) fn acting<A: Act>(world: World, act: A) -> (Runtime, Arc<Acts<A>>) {
    let (policy, hooks) = Hostile::new(Acts(act));
    let builder = world
        .builder()
        .policy(policy)
        .stuck_after(Some(Duration::from_millis(3)));
    (builder.build().expect("a runtime"), hooks)
}
