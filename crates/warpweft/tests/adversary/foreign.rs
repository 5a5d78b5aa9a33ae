//! Tokens of one pool that the policy of another one gives out.
#![forbid(unsafe_code)]

use crate::child::World;
use crate::keepers::{Hooks, Hostile, Queue, all_answer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warpweft::policy::{Cx, TaskRef, Wake, Why};
use warpweft::time::sleep;
use warpweft::{Runtime, fiber, yield_now};

/// Where two policies exchange tokens.
type Exchange = Arc<Mutex<Vec<TaskRef>>>;

/// Puts its tokens into the exchange, while it is to.
struct Gives(Exchange, AtomicBool);

impl Hooks for Gives {
    fn push(&self, queue: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        if self.1.load(Ordering::Relaxed) {
            self.0.lock().expect("a lock").push(task);
            return Wake::None;
        }
        queue.push(task);
        Wake::Any
    }
}

/// Gives out tokens of the exchange in one of its hooks.
struct Takes(Exchange, &'static str);

impl Takes {
    fn foreign(&self, hook: &str) -> Option<TaskRef> {
        let taken = (hook == self.1).then(|| self.0.lock().expect("a lock").pop());
        taken.flatten()
    }
}

impl Hooks for Takes {
    const INTERVAL: u32 = 2;
    const WATCHES_COMPLETIONS: bool = true;

    fn next(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("next").or_else(|| queue.pop())
    }
    fn poll_global(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("poll_global")
    }
    fn search(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("search").or_else(|| queue.pop())
    }
    fn steal_from_stuck(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("steal_from_stuck").or_else(|| queue.pop())
    }
    fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("scan").or_else(|| queue.pop())
    }
    fn drain(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        self.foreign("drain")
    }
    fn evict(&self, _: &Queue) -> Vec<TaskRef> {
        self.foreign("evict").into_iter().collect()
    }
    fn yielded(&self, queue: &Queue, task: TaskRef, _: &Cx<'_>) -> Wake {
        if let Some(other) = self.foreign("yielded") {
            queue.push(other);
        }
        queue.push(task);
        Wake::Any
    }
    fn push_local(&self, queue: &Queue, task: TaskRef) -> Result<(), TaskRef> {
        match self.foreign("push_local") {
            Some(other) => {
                queue.push(task);
                Err(other)
            }
            None => Err(task),
        }
    }
    fn is_fast_path(&self, _: Why) -> bool {
        self.1 == "push_local"
    }
}

/// Tasks of one pool are given out by another one's `hook`. Whatever becomes of them, each joiner is told,
/// and both runtimes end.
fn given_out_by(world: World, hook: &'static str) {
    let exchange = Exchange::default();
    let (giver, gives) = Hostile::new(Gives(Arc::clone(&exchange), AtomicBool::new(true)));
    let first = world
        .builder()
        .name("first")
        .policy(giver)
        .build()
        .expect("a runtime");
    let (taker, _) = Hostile::new(Takes(Arc::clone(&exchange), hook));
    let second = world
        .builder()
        .name("second")
        .policy(taker)
        .stuck_after(Some(Duration::from_millis(5)));
    let second = second.build().expect("a runtime");
    let foreign: Vec<_> = (0..20)
        .map(|n| match n % 3 {
            0 => first.spawn_job(|| ()),
            1 => first.spawn(async {
                sleep(Duration::from_millis(1)).await;
                yield_now().await;
            }),
            _ => first.spawn_fiber(|| {
                fiber::yield_now();
                fiber::wait(sleep(Duration::from_millis(1)));
            }),
        })
        .collect();
    gives.1.store(false, Ordering::Relaxed);
    let own: Vec<_> = (0..100)
        .map(|n| {
            let handle = second.spawn(async move {
                if n % 10 == 0 {
                    // The worker is stuck, so that a compensating worker comes, and later retires.
                    std::thread::sleep(Duration::from_millis(12));
                }
                warpweft::spawn_job(|| ()).detach();
                yield_now().await;
            });
            if n % 5 == 0 {
                handle.cancel();
            }
            handle
        })
        .collect();
    assert_eq!(all_answer(own).all(), 100);
    drop(second);
    exchange.lock().expect("a lock").clear();
    assert_eq!(all_answer(foreign).all(), 20);
    // The pool whose tasks they were is as good as before.
    assert_eq!(first.spawn_job(|| 7).wait().expect("it works"), 7);
}

/// Tries: foreign tokens out of `next`. Expected: no joiner waits for ever, both runtimes end.
#[test]
fn given_out_by_next() {
    program!(|world| given_out_by(world, "next"));
}

/// Tries: foreign tokens out of `poll_global`. Expected: as above.
#[test]
fn given_out_by_poll_global() {
    program!(|world| given_out_by(world, "poll_global"));
}

/// Tries: foreign tokens out of `search`. Expected: as above.
#[test]
fn given_out_by_search() {
    program!(|world| given_out_by(world, "search"));
}

/// Tries: foreign tokens out of `scan`. Expected: as above.
#[test]
fn given_out_by_scan() {
    program!(|world| given_out_by(world, "scan"));
}

/// Tries: foreign tasks out of `steal_from_stuck` and of what a compensating worker leaves behind. Expected:
/// as above.
#[test]
fn given_out_by_steal_from_stuck_and_drain() {
    program!(|world| {
        given_out_by(world, "steal_from_stuck");
        given_out_by(world, "drain");
    });
}

/// Tries: foreign tokens out of `evict`. Expected: as above.
#[test]
fn given_out_by_evict() {
    program!(|world| given_out_by(world, "evict"));
}

/// Tries: foreign tokens given back by `push_local`, or kept by `yielded` beside the own one. Expected: as
/// above.
#[test]
fn given_back_by_the_short_way_and_by_yielded() {
    program!(|world| {
        given_out_by(world, "push_local");
        given_out_by(world, "yielded");
    });
}

/// Both policies put every second token into the other one's queue.
struct Swaps {
    own: Exchange,
    other: Exchange,
}

impl Hooks for Swaps {
    fn push(&self, queue: &Queue, task: TaskRef, _: Why, cx: &Cx<'_>) -> Wake {
        if cx.random(2) == 0 {
            self.other.lock().expect("a lock").push(task);
        } else {
            queue.push(task);
        }
        Wake::Any
    }
    fn scan(&self, queue: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop().or_else(|| self.own.lock().expect("a lock").pop())
    }
}

/// Tries: two runtimes whose policies swap their tokens all the time, with tasks that sleep, yield and are
/// cancelled. Expected: each joiner is told, and both runtimes end.
#[test]
fn two_runtimes_swap_their_task_refs() {
    program!(|world| {
        for round in 0..world.count(10) {
            let (a, b) = (Exchange::default(), Exchange::default());
            let swaps = |own: &Exchange, other: &Exchange| {
                let hooks = Swaps {
                    own: Arc::clone(own),
                    other: Arc::clone(other),
                };
                world
                    .builder()
                    .policy(Hostile::new(hooks).0)
                    .build()
                    .expect("a runtime")
            };
            let runtimes: [Runtime; 2] = [swaps(&a, &b), swaps(&b, &a)];
            let handles: Vec<_> = (0..50)
                .map(|n| {
                    let handle = runtimes[n % 2].spawn(async move {
                        yield_now().await;
                        sleep(Duration::from_micros(50)).await;
                        yield_now().await;
                    });
                    if n % 7 == round % 7 {
                        handle.cancel();
                    }
                    handle
                })
                .collect();
            drop(runtimes);
            a.lock().expect("a lock").clear();
            b.lock().expect("a lock").clear();
            assert_eq!(all_answer(handles).all(), 50);
        }
    });
}
