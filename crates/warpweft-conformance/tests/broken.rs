//! The kit rejects broken policies, and reports by name which duty each of them breaks.
#![cfg(not(any(warpweft_loom, warpweft_shuttle)))]

mod rejects;

use rejects::rejects;
use std::marker::PhantomData;
use warpweft_conformance::{
    Duty, nothing_lost, nothing_lost_in_transfers, nothing_lost_with_threads, nothing_starves,
    scan_is_exhaustive, wakes_are_honest,
};
use warpweft_platform::counter::Counter;
use warpweft_policy::{Cx, Lifo, Policy, PolicyError, PoolEnv, TaskRef, Waiting, Wake, Why, WorkerId};
use warpweft_queue::Locked;
use warpweft_task::test_tasks::TestTasks;

type Shared = <Lifo as Policy>::Shared;
type Local = <Lifo as Policy>::Local;

/// A deviation from a good policy. What it does not define is as in `Lifo`.
trait Fault: Send + Sync + 'static {
    fn workers(env: &PoolEnv) -> usize {
        env.workers
    }
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        Lifo::push(shared, local, task, why, cx)
    }
    fn is_fast_path(shared: &Shared, why: Why) -> bool {
        Lifo::is_fast_path(shared, why)
    }
    fn push_local(local: &mut Local, task: TaskRef) -> Result<(), TaskRef> {
        Lifo::push_local(local, task)
    }
    fn suspended(task: Waiting<'_>) {
        let _ = task;
    }
    fn poll_global(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::poll_global(shared, local, cx)
    }
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::scan(shared, local, cx)
    }
    fn is_only_ready(shared: &Shared, local: &Local) -> bool {
        Lifo::is_only_ready(shared, local)
    }
}

struct Broken<F>(PhantomData<F>);

impl<F: Fault> Policy for Broken<F> {
    type Shared = Shared;
    type Local = Local;

    fn build(&self, env: &PoolEnv) -> Result<(Shared, Vec<Local>), PolicyError> {
        let (shared, mut locals) = Lifo::new().build(env)?;
        locals.truncate(F::workers(env));
        Ok((shared, locals))
    }
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        F::push(shared, local, task, why, cx)
    }
    fn is_fast_path(shared: &Shared, why: Why) -> bool {
        F::is_fast_path(shared, why)
    }
    fn push_local(local: &mut Local, task: TaskRef) -> Result<(), TaskRef> {
        F::push_local(local, task)
    }
    fn watches_waits(_: &Shared) -> bool {
        false
    }
    fn suspended(_: &Shared, _: &mut Local, task: Waiting<'_>, _: &Cx<'_>) {
        F::suspended(task);
    }
    fn next(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::next(shared, local, cx)
    }
    fn poll_global(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        F::poll_global(shared, local, cx)
    }
    fn search(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        Lifo::search(shared, local, cx)
    }
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        F::scan(shared, local, cx)
    }
    fn is_only_ready(shared: &Shared, local: &Local) -> bool {
        F::is_only_ready(shared, local)
    }
}

/// The policy with this fault.
fn broken<F: Fault>() -> Broken<F> {
    Broken(PhantomData)
}

/// Drops a task now and then.
struct Forgetful;

impl Fault for Forgetful {
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        if cx.random(16) == 0 {
            drop(task);
            return Wake::Any;
        }
        Lifo::push(shared, local, task, why, cx)
    }
}

#[test]
fn a_policy_that_drops_a_task_is_rejected() {
    let policy = broken::<Forgetful>();
    rejects(
        nothing_lost("Forgetful", &policy),
        "Forgetful",
        Duty::NothingLost,
        "`push` dropped the reference of task",
    );
    rejects(
        nothing_lost_with_threads("Forgetful", &policy),
        "Forgetful",
        Duty::NothingLost,
        "was dropped",
    );
}

/// Drops a task that it should keep, on the fast path.
struct Careless;

impl Fault for Careless {
    fn push_local(_: &mut Local, task: TaskRef) -> Result<(), TaskRef> {
        drop(task);
        Ok(())
    }
}

#[test]
fn a_policy_that_drops_a_task_on_the_short_way_is_rejected() {
    let policy = broken::<Careless>();
    rejects(
        nothing_lost("Careless", &policy),
        "Careless",
        Duty::NothingLost,
        "`push_local` dropped the reference of task",
    );
    rejects(
        nothing_lost_with_threads("Careless", &policy),
        "Careless",
        Duty::NothingLost,
        "was dropped",
    );
}

/// Returns a task with something written into it.
struct Scribbler;

impl Fault for Scribbler {
    fn push_local(_: &mut Local, mut task: TaskRef) -> Result<(), TaskRef> {
        task.set_policy_word(7);
        Err(task)
    }
}

/// Changes its answer about its fast path.
struct Undecided;

impl Fault for Undecided {
    fn is_fast_path(_: &Shared, _: Why) -> bool {
        static ASKED: Counter = Counter::new();
        ASKED.add_shared(1);
        ASKED.get() % 7 < 5
    }
}

/// Claims that it does not watch waits.
struct Deaf;

impl Fault for Deaf {
    fn suspended(mut task: Waiting<'_>) {
        task.set_policy_word(7);
    }
}

#[test]
fn policies_that_lie_about_their_short_ways_are_rejected() {
    let duty = Duty::HonestShortWays;
    rejects(
        nothing_lost("Scribbler", &broken::<Scribbler>()),
        "Scribbler",
        duty,
        "and gave task",
    );
    rejects(
        nothing_lost("Undecided", &broken::<Undecided>()),
        "Undecided",
        duty,
        "at first, and now is not",
    );
    rejects(
        nothing_lost("Deaf", &broken::<Deaf>()),
        "Deaf",
        duty,
        "`watches_waits` says",
    );
}

/// Loses some tasks from another pool.
struct Inhospitable;

impl Fault for Inhospitable {
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        if why == Why::Injected && cx.random(8) == 0 {
            drop(task);
            return Wake::Any;
        }
        Lifo::push(shared, local, task, why, cx)
    }
}

#[test]
fn a_policy_that_drops_what_it_transfers_is_rejected() {
    rejects(
        nothing_lost_in_transfers("Inhospitable", &broken::<Inhospitable>()),
        "Inhospitable",
        Duty::NothingLost,
        "of two pools",
    );
}

/// Hands out a task that it made itself.
struct Forging;

impl Fault for Forging {
    fn poll_global(_: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        Some(TestTasks::new(1_000).task(999))
    }
}

#[test]
fn a_policy_that_hands_out_what_it_was_not_given_is_rejected() {
    let verdict = nothing_lost("Forging", &broken::<Forging>());
    rejects(verdict, "Forging", Duty::NothingTwice, "which it did not hold");
}

/// Never polls what `next` passes over.
struct Favouring;

impl Fault for Favouring {
    fn poll_global(_: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        None
    }
}

#[test]
fn a_policy_that_starves_outsiders_is_rejected() {
    let verdict = nothing_starves("Favouring", &broken::<Favouring>());
    rejects(
        verdict,
        "Favouring",
        Duty::NothingStarves,
        "A task pushed from outside as Injected",
    );
}

/// Newest first forever: the bottom of a worker's stack runs only when no newer task comes.
struct LifoForEver;

impl Policy for LifoForEver {
    type Shared = Locked<TaskRef>;
    type Local = Vec<TaskRef>;

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<Self::Local>), PolicyError> {
        Ok((Locked::new(), (0..env.workers).map(|_| Vec::new()).collect()))
    }
    fn push(
        outside: &Self::Shared,
        stack: Option<&mut Self::Local>,
        task: TaskRef,
        _: Why,
        _: &Cx<'_>,
    ) -> Wake {
        match stack {
            Some(stack) => {
                stack.push(task);
                Wake::None
            }
            None => {
                outside.push(task);
                Wake::Any
            }
        }
    }
    fn next(_: &Self::Shared, stack: &mut Self::Local, _: &Cx<'_>) -> Option<TaskRef> {
        stack.pop()
    }
    fn poll_global(outside: &Self::Shared, _: &mut Self::Local, _: &Cx<'_>) -> Option<TaskRef> {
        outside.pop()
    }
    fn scan(outside: &Self::Shared, stack: &mut Self::Local, _: &Cx<'_>) -> Option<TaskRef> {
        stack.pop().or_else(|| outside.pop())
    }
}

#[test]
fn a_policy_that_is_lifo_for_ever_is_rejected() {
    let verdict = nothing_starves("LifoForEver", &LifoForEver);
    rejects(
        verdict,
        "LifoForEver",
        Duty::NothingStarves,
        "A task pushed by worker 0 as Spawned",
    );
    // Everything else is as it should be.
    for verdict in [
        nothing_lost("LifoForEver", &LifoForEver),
        scan_is_exhaustive("LifoForEver", &LifoForEver),
        wakes_are_honest("LifoForEver", &LifoForEver),
    ] {
        verdict.expect("only the bottom starves");
    }
}

/// While tasks come from outside, those that yielded wait: the mistake of a fixed order.
struct FixedOrder;

/// The worker's tasks, tasks from outside, yielded ones.
#[derive(Default)]
struct Places([Locked<TaskRef>; 3]);

impl Policy for FixedOrder {
    type Shared = Places;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Places, Vec<()>), PolicyError> {
        Ok((Places::default(), vec![(); env.workers]))
    }
    fn push(places: &Places, local: Option<&mut ()>, task: TaskRef, why: Why, _: &Cx<'_>) -> Wake {
        let place = if local.is_none() {
            1
        } else {
            usize::from(why == Why::Yielded) * 2
        };
        places.0[place].push(task);
        Wake::Any
    }
    fn next(places: &Places, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        places.0[0].pop()
    }
    fn poll_global(places: &Places, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        places.0[1].pop().or_else(|| places.0[2].pop())
    }
    fn scan(places: &Places, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        places.0.iter().find_map(Locked::pop)
    }
}

#[test]
fn a_policy_that_starves_yielders_while_outsiders_come_is_rejected() {
    let verdict = nothing_starves("FixedOrder", &FixedOrder);
    rejects(
        verdict,
        "FixedOrder",
        Duty::NothingStarves,
        "pushed by worker 0 as Yielded",
    );
}

/// Its last look before sleep is not exhaustive.
struct Hasty;

impl Fault for Hasty {
    fn scan(shared: &Shared, local: &mut Local, cx: &Cx<'_>) -> Option<TaskRef> {
        // A search leaves the only task of a victim.
        Lifo::search(shared, local, cx)
    }
}

#[test]
fn a_policy_whose_scan_gives_up_is_rejected() {
    let policy = broken::<Hasty>();
    rejects(
        scan_is_exhaustive("Hasty", &policy),
        "Hasty",
        Duty::ExhaustiveScan,
        "said `None` while the policy held",
    );
    rejects(
        nothing_lost("Hasty", &policy),
        "Hasty",
        Duty::ExhaustiveScan,
        "The shortest history that shows it",
    );
}

/// Wakes no worker.
struct Silent;

impl Fault for Silent {
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let _ = Lifo::push(shared, local, task, why, cx);
        Wake::None
    }
}

#[test]
fn a_policy_that_wakes_nobody_for_an_outsider_is_rejected() {
    let verdict = wakes_are_honest("Silent", &broken::<Silent>());
    rejects(
        verdict,
        "Silent",
        Duty::HonestWake,
        "`push(Spawned)` from outside said `Wake::None`",
    );
}

/// Wakes no worker for a task that it hands to others.
struct Sly;

impl Fault for Sly {
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        match local {
            Some(local) => {
                let _ = Lifo::push(shared, Some(local), task, why, cx);
                Wake::None
            }
            None => Lifo::push(shared, None, task, why, cx),
        }
    }
    fn poll_global(_: &Shared, _: &mut Local, _: &Cx<'_>) -> Option<TaskRef> {
        None
    }
}

#[test]
fn a_policy_that_wakes_nobody_though_the_pusher_will_not_find_the_task_is_rejected() {
    let verdict = wakes_are_honest("Sly", &broken::<Sly>());
    rejects(
        verdict,
        "Sly",
        Duty::HonestWake,
        "`push(Yielded)` of worker 0 said `Wake::None`",
    );
}

/// Wakes a worker that does not exist.
struct Dreaming;

impl Fault for Dreaming {
    fn push(shared: &Shared, local: Option<&mut Local>, task: TaskRef, why: Why, cx: &Cx<'_>) -> Wake {
        let _ = Lifo::push(shared, local, task, why, cx);
        Wake::Worker(WorkerId(cx.workers()))
    }
}

#[test]
fn a_policy_that_wakes_a_worker_that_does_not_exist_is_rejected() {
    let verdict = wakes_are_honest("Dreaming", &broken::<Dreaming>());
    rejects(
        verdict,
        "Dreaming",
        Duty::HonestWake,
        "wants to wake worker 1 of 1",
    );
}

/// Reports that nothing else is ready although something is.
struct Lonely;

impl Fault for Lonely {
    fn is_only_ready(_: &Shared, _: &Local) -> bool {
        true
    }
}

#[test]
fn a_policy_that_overlooks_ready_tasks_is_rejected() {
    let verdict = nothing_lost("Lonely", &broken::<Lonely>());
    rejects(verdict, "Lonely", Duty::HonestAlone, "It was true of worker");
}

/// Has no state for the last worker.
struct Short;

impl Fault for Short {
    fn workers(env: &PoolEnv) -> usize {
        env.workers - 1
    }
}

#[test]
fn a_policy_without_a_state_for_each_worker_is_rejected() {
    let verdict = scan_is_exhaustive("Short", &broken::<Short>());
    rejects(verdict, "Short", Duty::Build, "For 1 workers it made 0 of them.");
}
