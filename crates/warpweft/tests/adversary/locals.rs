//! The state of a policy: how it is built and dropped, and what its words say.
#![forbid(unsafe_code)]

use crate::keepers::{Hooks, Hostile, Queue, all_answer, eventually, threads};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use warpweft::policy::{Cx, Negele, PolicyError, PoolEnv, ProWs, TaskRef, Waiting, Wake, Why};
use warpweft::time::sleep;
use warpweft::{BuildError, Fifo, JoinHandle, Lifo, Policy, Runtime, fiber, spawn_job, yield_now};
use warpweft_queue::Locked;

/// A policy that makes as many states as it is told to, or panics.
struct Makes(fn(usize) -> usize);

impl Policy for Makes {
    type Shared = Locked<TaskRef>;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        Ok((Locked::new(), vec![(); (self.0)(env.workers)]))
    }
    fn push(queue: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        queue.push(task);
        Wake::Any
    }
    fn next(queue: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn scan(queue: &Self::Shared, (): &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
}

/// Tries: policies that make no state, too few, too many, or panic, also in the second of two pools.
/// Expected: an error that says so, or the panic; no thread is left behind.
#[test]
fn states_that_are_too_few_too_many_or_a_panic() {
    program!(|world| {
        let before = threads();
        let makes: [fn(usize) -> usize; 3] = [|_| 0, |workers| workers - 1, |workers| workers + 7];
        for make in makes {
            let error = world
                .builder()
                .policy(Makes(make))
                .build()
                .expect_err("a wrong number");
            assert!(matches!(error, BuildError::Locals { .. }), "{error}");
            let second = Runtime::builder().policy(Makes(make));
            let error = world
                .builder()
                .then("second", second)
                .build()
                .expect_err("a wrong number");
            assert!(matches!(error, BuildError::Pool { .. }), "{error}");
        }
        let panics: fn(usize) -> usize = |_| panic!("the policy's build panics");
        let builder = world
            .builder()
            .then("second", Runtime::builder().workers(1).policy(Makes(panics)));
        assert!(catch_unwind(AssertUnwindSafe(|| builder.build())).is_err());
        eventually("the first pool's threads leave", || threads() <= before);
        let runtime = world
            .builder()
            .policy(Makes(|workers| workers))
            .build()
            .expect("the right number");
        assert_eq!(runtime.spawn_job(|| 7).wait().expect("no panic"), 7);
    });
}

/// Tries: intervals of 0, 1 and the largest number. Expected: tasks run.
#[test]
fn intervals_of_zero_one_and_the_largest() {
    struct Every<const INTERVAL: u32>;
    impl<const INTERVAL: u32> Hooks for Every<INTERVAL> {
        const INTERVAL: u32 = INTERVAL;
    }
    program!(|world| {
        let run = |runtime: Runtime| {
            let handles: Vec<_> = (0..200)
                .map(|_| {
                    runtime.spawn(async {
                        yield_now().await;
                        sleep(Duration::from_micros(10)).await;
                    })
                })
                .collect();
            assert_eq!(all_answer(handles).done, 200);
        };
        run(world
            .builder()
            .policy(Hostile::new(Every::<0>).0)
            .build()
            .expect("a runtime"));
        run(world
            .builder()
            .policy(Hostile::new(Every::<1>).0)
            .build()
            .expect("a runtime"));
        run(world
            .builder()
            .policy(Hostile::new(Every::<{ u32::MAX }>).0)
            .build()
            .expect("a runtime"));
    });
}

/// What a policy's state does when it is dropped.
#[derive(Debug, Clone, Copy)]
enum Last {
    Panics,
    Spawns,
    Waits,
    Ends,
}

/// A state that does so.
struct Dying(Last, Arc<Mutex<Option<Arc<Runtime>>>>, Arc<AtomicUsize>);

impl Drop for Dying {
    fn drop(&mut self) {
        self.2.fetch_add(1, Ordering::Relaxed);
        match self.0 {
            Last::Panics => panic!("a policy's state panics as it goes"),
            Last::Spawns => {
                spawn_job(|| ()).detach();
                fiber::spawn(|| ()).detach();
                warpweft::spawn(async { yield_now().await }).detach();
            }
            Last::Waits => {
                warpweft::block_on(async {});
                warpweft::join(|| (), || ());
                warpweft::blocking(|| std::thread::sleep(Duration::from_millis(1)));
            }
            Last::Ends => {
                let runtime = self.1.lock().expect("a lock").take();
                drop(runtime);
            }
        }
    }
}

/// A policy with such states in both places.
struct Dies(Last, Arc<Mutex<Option<Arc<Runtime>>>>, Arc<AtomicUsize>);

impl Policy for Dies {
    type Shared = (Locked<TaskRef>, Dying);
    type Local = Dying;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Dying>), PolicyError> {
        let dying = || Dying(self.0, Arc::clone(&self.1), Arc::clone(&self.2));
        Ok((
            (Locked::new(), dying()),
            (0..env.workers).map(|_| dying()).collect(),
        ))
    }
    fn push(queue: &Self::Shared, _: Option<&mut Dying>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        queue.0.push(task);
        Wake::Any
    }
    fn next(queue: &Self::Shared, _: &mut Dying, _: &Cx<'_>) -> Option<TaskRef> {
        queue.0.pop()
    }
    fn scan(queue: &Self::Shared, _: &mut Dying, _: &Cx<'_>) -> Option<TaskRef> {
        queue.0.pop()
    }
}

/// Tries: states that panic, spawn, wait or end runtimes in their `Drop`.
/// Expected: every state is dropped once; the runtime ends; its tasks' joiners get results.
#[test]
fn states_that_misbehave_as_they_go() {
    program!(|world| {
        for last in [Last::Panics, Last::Spawns, Last::Waits, Last::Ends] {
            let dropped = Arc::new(AtomicUsize::new(0));
            let other = Arc::new(Mutex::new(Some(Arc::new(world.runtime()))));
            let policy = Dies(last, Arc::clone(&other), Arc::clone(&dropped));
            let runtime = world
                .builder()
                .policy(policy)
                .stuck_after(None)
                .build()
                .expect("a runtime");
            let handles: Vec<JoinHandle<()>> = (0..50)
                .map(|_| runtime.spawn(async { sleep(Duration::from_secs(3600)).await }))
                .collect();
            drop(runtime);
            assert_eq!(all_answer(handles).shutdown, 50, "{last:?}");
            assert_eq!(dropped.load(Ordering::Relaxed), world.workers + 1, "{last:?}");
        }
    });
}

/// Tries: a policy's state with an alignment of a page, and one of no size.
/// Expected: it is aligned, and tasks run.
#[test]
fn states_of_odd_sizes() {
    #[repr(align(4096))]
    struct Page(u8);
    struct Aligned;
    impl Policy for Aligned {
        type Shared = (Page, Locked<TaskRef>);
        type Local = Page;
        fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Page>), PolicyError> {
            Ok((
                (Page(1), Locked::new()),
                (0..env.workers).map(|_| Page(2)).collect(),
            ))
        }
        fn push(shared: &Self::Shared, own: Option<&mut Page>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            assert_eq!(std::ptr::from_ref(&shared.0).addr() % 4096, 0);
            if let Some(own) = own {
                own.0 = own.0.wrapping_add(1);
            }
            shared.1.push(task);
            Wake::Any
        }
        fn next(shared: &Self::Shared, own: &mut Page, _: &Cx<'_>) -> Option<TaskRef> {
            assert_eq!(std::ptr::from_ref(own).addr() % 4096, 0);
            shared.1.pop()
        }
        fn scan(shared: &Self::Shared, _: &mut Page, _: &Cx<'_>) -> Option<TaskRef> {
            shared.1.pop()
        }
    }
    program!(|world| {
        let runtime = world.builder().policy(Aligned).build().expect("a runtime");
        let handles: Vec<_> = (0..100)
            .map(|_| runtime.spawn(async { yield_now().await }))
            .collect();
        assert_eq!(all_answer(handles).done, 100);
    });
}

/// A policy of this library whose tasks' words are forged before each of its hooks.
struct Forged<P>(P);

/// A word that is likely to be wrong, and sometimes plausible.
fn forge(cx: &Cx<'_>, word: u64) -> u64 {
    match cx.random(6) {
        0 => u64::MAX,
        1 => 1 << 32,
        2 => cx.random(1 << 20) as u64,
        3 => word ^ (1 << cx.random(64)),
        4 => (cx.random(8) as u64) << 56 | 0xffff,
        _ => word,
    }
}

impl<P: Policy> Policy for Forged<P> {
    type Shared = P::Shared;
    type Local = P::Local;
    const INTERVAL: u32 = 3;
    const WATCHES_COMPLETIONS: bool = true;

    fn priorities(&self) -> u8 {
        self.0.priorities()
    }
    fn build(&self, env: &PoolEnv) -> Result<(P::Shared, Vec<P::Local>), PolicyError> {
        self.0.build(env)
    }
    fn push(
        shared: &P::Shared,
        own: Option<&mut P::Local>,
        mut task: TaskRef,
        why: Why,
        cx: &Cx<'_>,
    ) -> Wake {
        task.set_policy_word(forge(cx, task.policy_word()));
        P::push(shared, own, task, why, cx)
    }
    fn suspended(shared: &P::Shared, own: &mut P::Local, mut task: Waiting<'_>, cx: &Cx<'_>) {
        task.set_policy_word(forge(cx, task.policy_word()));
        P::suspended(shared, own, task, cx);
    }
    fn next(shared: &P::Shared, own: &mut P::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        P::next(shared, own, cx)
    }
    fn poll_global(shared: &P::Shared, own: &mut P::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        P::poll_global(shared, own, cx)
    }
    fn search(shared: &P::Shared, own: &mut P::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        P::search(shared, own, cx)
    }
    fn scan(shared: &P::Shared, own: &mut P::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        P::scan(shared, own, cx)
    }
    fn drain(shared: &P::Shared, own: &mut P::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        P::drain(shared, own, cx)
    }
    fn completed(shared: &P::Shared, own: &mut P::Local, word: u64) {
        P::completed(shared, own, word ^ 0x5555);
        P::completed(shared, own, word);
    }
}

/// Tries: policies of this library with forged policy words: numbers of nodes, of deques, of priorities.
/// Expected: memory stays whole. A task may be lost or a hook may panic; each joiner gets a result when the
/// pool ends.
#[test]
fn forged_words() {
    fn run<P: Policy>(world: crate::child::World, policy: P) {
        let runtime = world.builder().policy(Forged(policy)).build().expect("a runtime");
        let handles: Vec<_> = (0..world.count(400))
            .map(|n| match n % 3 {
                0 => runtime.spawn(async {
                    for _ in 0..5 {
                        yield_now().await;
                        sleep(Duration::from_micros(20)).await;
                    }
                }),
                1 => runtime.spawn_job(|| {
                    let handles: Vec<_> = (0..3).map(|_| warpweft::spawn(async {})).collect();
                    handles.into_iter().for_each(|handle| drop(handle.wait()));
                }),
                _ => runtime.spawn_fiber(|| {
                    fiber::wait(sleep(Duration::from_micros(10)));
                }),
            })
            .collect();
        std::thread::sleep(Duration::from_millis(30));
        drop(runtime);
        let spawned = handles.len();
        assert_eq!(all_answer(handles).all(), spawned);
    }
    program!(|world| {
        run(world, ProWs::default());
        run(world, Negele::default());
        run(world, Fifo::new());
        run(world, Lifo::new());
    });
}

/// Tries: a `Queue` of tasks that one policy makes for the next one of the same type, which outlives the
/// first pool. Expected: the joiners of those tasks get a result, and the second pool refuses what is not its
/// own.
#[test]
fn a_queue_shared_by_policies_that_follow_each_other() {
    struct Inherits(Arc<Queue>);
    impl Hooks for Inherits {
        fn push(&self, _: &Queue, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
            self.0.push(task);
            Wake::None
        }
        fn next(&self, _: &Queue, cx: &Cx<'_>) -> Option<TaskRef> {
            (cx.random(4) == 0).then(|| self.0.pop()).flatten()
        }
        fn scan(&self, _: &Queue, _: &Cx<'_>) -> Option<TaskRef> {
            None
        }
    }
    program!(|world| {
        let queue = Arc::new(Queue::new());
        let mut handles = Vec::new();
        for _ in 0..5 {
            let policy = Hostile::new(Inherits(Arc::clone(&queue))).0;
            let runtime = world.builder().policy(policy).build().expect("a runtime");
            handles.extend((0..20).map(|_| runtime.spawn(async { yield_now().await })));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(queue);
        assert_eq!(all_answer(handles).all(), 100);
    });
}
