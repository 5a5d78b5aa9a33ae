//! Tests what happens to a pool whose policy panics.
//!
//! A wrapper of the policy under test panics in a given call of a given hook. The duty is both the runtime's
//! and the policy's: a policy whose state or `Drop` cannot handle an interrupted hook fails here.

use crate::duty::{Duty, Verdict, Violation};
use std::panic::resume_unwind;
use warpweft::{JoinError, Runtime, SpawnError, spawn_job, yield_hard, yield_now, yield_soft};
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::clock::now_ns;
use warpweft_platform::sync::Arc;
use warpweft_platform::thread::{spawn, yield_now as yield_thread};
use warpweft_policy::{Cx, Policy, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, YieldTo};

/// After this time, in nanoseconds, a wait counts as endless.
const PATIENCE_NS: u64 = 60_000_000_000;

const WORKERS: usize = 2;
const TASKS: usize = 30;

/// The call of the hook that panics. The last one is a push by a worker, in the middle of a step.
const CALLS: [usize; 4] = [1, 2, 10, 2 * TASKS];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HookName {
    Push,
    PushOwn,
    Yielded,
    Suspended,
    Next,
    PollGlobal,
    Search,
    Scan,
    Evict,
    Alone,
    Retired,
}

const HOOKS: [HookName; 11] = [
    HookName::Push,
    HookName::PushOwn,
    HookName::Yielded,
    HookName::Suspended,
    HookName::Next,
    HookName::PollGlobal,
    HookName::Search,
    HookName::Scan,
    HookName::Evict,
    HookName::Alone,
    HookName::Retired,
];

/// The hook and the call that panics, and how often the hook was called.
struct Fuse {
    hook: HookName,
    call: usize,
    calls: AtomicUsize,
}

impl Fuse {
    fn reach(&self, hook: HookName) {
        // Ordering: Relaxed; the count decides alone, and orders nothing.
        if hook == self.hook && self.calls.fetch_add(1, Ordering::Relaxed) + 1 == self.call {
            // Without the panic hook's report, because the panic is expected.
            resume_unwind(Box::new("the fuse of the conformance kit"));
        }
    }

    fn has_blown(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= self.call
    }
}

struct Fused<P> {
    inner: P,
    fuse: Arc<Fuse>,
}

impl<P: Policy> Policy for Fused<P> {
    type Shared = (P::Shared, Arc<Fuse>);
    type Local = (P::Local, Arc<Fuse>);
    const INTERVAL: u32 = P::INTERVAL;
    const WATCHES_COMPLETIONS: bool = true;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Self::Local>), PolicyError> {
        let (shared, locals) = self.inner.build(env)?;
        let locals = locals.into_iter().map(|local| (local, Arc::clone(&self.fuse)));
        Ok(((shared, Arc::clone(&self.fuse)), locals.collect()))
    }

    fn push(
        (shared, fuse): &Self::Shared,
        local: Option<&mut Self::Local>,
        task: TaskRef,
        why: Why,
        cx: &Cx<'_>,
    ) -> Wake {
        fuse.reach(HookName::Push);
        P::push(shared, local.map(|(local, _)| local), task, why, cx)
    }

    fn is_fast_path((shared, _): &Self::Shared, why: Why) -> bool {
        P::is_fast_path(shared, why)
    }

    fn push_local((local, fuse): &mut Self::Local, task: TaskRef) -> Result<(), TaskRef> {
        fuse.reach(HookName::PushOwn);
        P::push_local(local, task)
    }

    fn yielded(
        (shared, fuse): &Self::Shared,
        (local, _): &mut Self::Local,
        task: TaskRef,
        to: YieldTo,
        cx: &Cx<'_>,
    ) -> Wake {
        fuse.reach(HookName::Yielded);
        P::yielded(shared, local, task, to, cx)
    }

    fn suspended(
        (shared, fuse): &Self::Shared,
        (local, _): &mut Self::Local,
        task: Waiting<'_>,
        cx: &Cx<'_>,
    ) {
        fuse.reach(HookName::Suspended);
        P::suspended(shared, local, task, cx);
    }

    fn next((shared, fuse): &Self::Shared, (local, _): &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        fuse.reach(HookName::Next);
        P::next(shared, local, cx)
    }

    fn poll_global(
        (shared, fuse): &Self::Shared,
        (local, _): &mut Self::Local,
        cx: &Cx<'_>,
    ) -> Option<TaskRef> {
        fuse.reach(HookName::PollGlobal);
        P::poll_global(shared, local, cx)
    }

    fn search((shared, fuse): &Self::Shared, (local, _): &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        fuse.reach(HookName::Search);
        P::search(shared, local, cx)
    }

    fn scan((shared, fuse): &Self::Shared, (local, _): &mut Self::Local, cx: &Cx<'_>) -> Option<TaskRef> {
        fuse.reach(HookName::Scan);
        P::scan(shared, local, cx)
    }

    fn evict(
        (shared, fuse): &Self::Shared,
        (local, _): &mut Self::Local,
        cancellations: u64,
        cx: &Cx<'_>,
    ) -> Vec<TaskRef> {
        fuse.reach(HookName::Evict);
        P::evict(shared, local, cancellations, cx)
    }

    fn is_only_ready((shared, fuse): &Self::Shared, (local, _): &Self::Local) -> bool {
        fuse.reach(HookName::Alone);
        P::is_only_ready(shared, local)
    }

    fn completed((shared, fuse): &Self::Shared, (local, _): &mut Self::Local, policy_word: u64) {
        fuse.reach(HookName::Retired);
        if P::WATCHES_COMPLETIONS {
            P::completed(shared, local, policy_word);
        }
    }
}

/// A policy that panics, in any hook, ends its pool: every joiner gets an answer, every thread ends, no
/// thread waits forever.
///
/// # Errors
///
/// The hook after whose panic a thread waited for a minute, got a wrong answer, or could still spawn.
pub fn panics_end_cleanly<P: Policy>(name: &str, make: impl Fn() -> P) -> Verdict {
    for hook in HOOKS {
        for call in CALLS {
            let fuse = Arc::new(Fuse {
                hook,
                call,
                calls: AtomicUsize::new(0),
            });
            let policy = Fused {
                inner: make(),
                fuse: Arc::clone(&fuse),
            };
            // On its own thread, so that this test does not wait if it never ends.
            let life = spawn(move || live(policy, &fuse));
            let start = now_ns();
            while !life.is_finished() && now_ns() - start < PATIENCE_NS {
                yield_thread();
            }
            let complaint = if life.is_finished() {
                life.join().unwrap_or_else(|panic| resume_unwind(panic)).err()
            } else {
                Some(String::from("a task waits for ever"))
            };
            if let Some(complaint) = complaint {
                let how = format!("After a panic in call {call} of {hook:?}: {complaint}.");
                return Err(Violation::new(name, Duty::CleanPanic, how));
            }
        }
    }
    Ok(())
}

/// Runs a runtime with that policy; an error says what went wrong.
fn live<P: Policy>(policy: Fused<P>, fuse: &Fuse) -> Result<(), String> {
    let runtime = Runtime::builder()
        .workers(WORKERS)
        .policy(policy)
        .build()
        .map_err(|error| error.to_string())?;
    let tasks = (0..TASKS).map(|number| {
        runtime.spawn(async move {
            let half = spawn_job(move || number / 2);
            spawn_job(|| ()).cancel();
            yield_now().await;
            yield_soft().await;
            yield_hard().await;
            Ok::<_, JoinError>(half.await? + spawn_job(move || number - number / 2).await?)
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for (number, task) in tasks.into_iter().enumerate() {
        match task.wait().and_then(|inner| inner) {
            Ok(sum) if sum == number => {}
            // The pool ended before the task did; or the hook that panicked held the task; or the panic
            // passed through the task's step.
            Err(JoinError::Shutdown | JoinError::Dropped | JoinError::Panicked(_)) if fuse.has_blown() => {}
            wrong => return Err(format!("task {number} gave {wrong:?}")),
        }
    }
    let start = now_ns();
    while fuse.has_blown() && !matches!(runtime.try_spawn_job(|| ()), Err(SpawnError::Closed)) {
        if now_ns() - start > PATIENCE_NS {
            return Err(String::from("the pool still takes tasks"));
        }
        yield_thread();
    }
    runtime.shutdown();
    Ok(())
}
