//! Owner and thieves on one policy, under every interleaving that loom explores.
//!
//! There are two or three threads: worker 0 owns what it pushed, the others are thieves or external threads.
//! Each does two or three things. Afterwards every task has run once, and no `scan` has overlooked a task
//! that did not move.

use crate::duty::{Duty, Violation};
use crate::test_worker::{Hook, TestWorker, build, push_local, suspended};
use std::sync::Arc as StdArc;
use warpweft_platform::atomic::{Ordering, fence};
use warpweft_platform::counter::Counter;
use warpweft_platform::loom;
use warpweft_platform::sync::Arc;
use warpweft_platform::thread;
use warpweft_policy::{Clock, Counters, Cx, Policy, TaskRef, Wake as WakeUp, Why};
use warpweft_task::test_tasks::{self, TestTasks};

/// How many preemptions a schedule may have, unless `LOOM_MAX_PREEMPTIONS` is set. Two find nearly every bug
/// of a lock-free structure; each further one costs several times as much.
const PREEMPTIONS: usize = 2;

/// Steps of one schedule after which loom suspects an endless loop. A queue of 256 slots takes about a
/// thousand to build and drop.
const BRANCHES: usize = 100_000;

/// The stack of the thread that builds the policy, in bytes. Loom's own are 32 KiB, and its atomics are
/// large.
const STACK: usize = 256 << 10;

/// The most threads of a scene: three workers, the one that builds the policy, and loom's first.
const THREADS: usize = 5;

/// One step of a thread.
#[derive(Debug, Clone, Copy)]
enum Act {
    Push(Why),
    /// Pushes what fell asleep before.
    Wake,
    Take(Hook),
    /// Takes by `scan`, and must find something: there are more tasks than others can take meanwhile. It is
    /// excused if a push was under way that wakes a worker afterwards, or if a push put a task where only its
    /// worker finds it.
    Find,
}

use Act::{Find, Push, Take, Wake};

struct Scene {
    name: &'static str,
    /// The tasks that worker 0 and the external thread push before the threads begin.
    before: (&'static [Why], usize),
    /// True if worker 0 then takes one task, which falls asleep.
    asleep: bool,
    /// The steps of each worker.
    workers: &'static [&'static [Act]],
    outsider: &'static [Act],
}

use Why::{Injected, Spawned, Yielded};

const SCENES: &[Scene] = &[
    Scene {
        name: "the owner pushes and takes, a thief searches and scans",
        before: (&[Spawned], 0),
        asleep: false,
        workers: &[
            &[Push(Spawned), Take(Hook::Next), Push(Spawned)],
            &[Take(Hook::Search), Take(Hook::Scan)],
        ],
        outsider: &[],
    },
    Scene {
        name: "the owner takes one of two while a thief scans",
        before: (&[Spawned, Spawned], 0),
        asleep: false,
        workers: &[&[Take(Hook::Next)], &[Find]],
        outsider: &[],
    },
    Scene {
        name: "the owner's queue grows while a thief scans",
        before: (&[Spawned, Spawned], 0),
        asleep: false,
        workers: &[&[Push(Spawned), Push(Spawned)], &[Find, Find]],
        outsider: &[],
    },
    Scene {
        name: "two thieves scan for two tasks",
        before: (&[Spawned, Spawned], 0),
        asleep: false,
        workers: &[
            &[],
            &[Take(Hook::Scan), Take(Hook::Scan)],
            &[Take(Hook::Search), Take(Hook::Scan)],
        ],
        outsider: &[],
    },
    Scene {
        name: "an outsider pushes while a worker looks everywhere",
        before: (&[], 1),
        asleep: false,
        workers: &[&[Find, Take(Hook::PollGlobal)]],
        outsider: &[Push(Injected), Push(Injected)],
    },
    Scene {
        name: "two workers take what comes from outside",
        before: (&[], 2),
        asleep: false,
        workers: &[
            &[Take(Hook::PollGlobal), Take(Hook::Next)],
            &[Take(Hook::Scan), Take(Hook::Next)],
        ],
        outsider: &[],
    },
    Scene {
        name: "the owner yields what a thief scans for",
        before: (&[Yielded], 0),
        asleep: false,
        workers: &[
            &[Push(Yielded), Take(Hook::PollGlobal)],
            &[Take(Hook::Search), Take(Hook::Scan)],
        ],
        outsider: &[],
    },
    Scene {
        name: "a sleeper is woken from outside while its worker goes on",
        before: (&[Spawned, Spawned], 0),
        asleep: true,
        workers: &[&[Take(Hook::Next), Push(Spawned)], &[Take(Hook::Scan)]],
        outsider: &[Wake],
    },
];

/// Runs every scene under loom: all schedules with up to two preemptions (or `LOOM_MAX_PREEMPTIONS`).
///
/// Use a policy with small queues: loom's time grows fast with the number of steps.
///
/// # Panics
///
/// With the [`Violation`]'s message, in the schedule that shows it; loom reports how to replay it.
pub fn owner_and_thieves<P: Policy>(name: &'static str, policy: P) {
    owner_and_thieves_within(PREEMPTIONS, name, policy);
}

/// Does the same with this number of preemptions in a schedule. One is enough for most bugs. For a policy
/// with many places it takes seconds instead of minutes.
///
/// # Panics
///
/// As [`owner_and_thieves`].
pub fn owner_and_thieves_within<P: Policy>(preemptions: usize, name: &'static str, policy: P) {
    let policy = StdArc::new(policy);
    for scene in SCENES {
        let policy = StdArc::clone(&policy);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
        builder.max_branches = BRANCHES;
        builder.max_threads = THREADS;
        builder.check(move || {
            let policy = StdArc::clone(&policy);
            let play = loom::thread::Builder::new()
                .stack_size(STACK)
                .spawn(move || play(name, &*policy, scene));
            play.map(loom::thread::JoinHandle::join)
                .unwrap_or_else(|error| panic!("{name}: a thread of the model: {error}"))
                .unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        });
    }
}

/// The state that the threads of a scene share.
struct SceneState<P: Policy> {
    name: &'static str,
    scene: &'static Scene,
    shared: P::Shared,
    probe: TestTasks,
    /// Pushes that have begun, and that have ended. Loom does not see these counters; its threads take turns.
    begun: Counter,
    ended: Counter,
    /// Scans that found nothing while a push was under way. A push may move a task, from a slot to a queue,
    /// and hide it for a moment; then it must wake a worker.
    excused: Counter,
    /// Pushes that returned `Wake::None`: each may have put a task where only its worker finds it.
    private: Counter,
}

impl<P: Policy> SceneState<P> {
    fn fail(&self, duty: Duty, how: &str) -> ! {
        panic!(
            "{}",
            Violation::new(self.name, duty, format!("{how} Scene: {}.", self.scene.name))
        );
    }

    fn end(&self, local: &mut P::Local, task: TaskRef) {
        let word = task.policy_word();
        test_tasks::run(task);
        if P::WATCHES_COMPLETIONS {
            P::completed(&self.shared, local, word);
        }
    }

    /// Runs the steps of a worker.
    fn work(&self, worker: &mut TestWorker<P>, acts: &[Act], mut numbers: impl Iterator<Item = usize>) {
        let index = worker.index;
        let (local, cx) = worker.parts(Clock::Machine);
        for act in acts {
            let hook = match act {
                Push(why) => {
                    let number = numbers
                        .next()
                        .unwrap_or_else(|| unreachable!("a number for each push"));
                    self.push(Some(local), self.probe.task(number), *why, &cx);
                    continue;
                }
                Wake => unreachable!("sleepers are woken from outside"),
                Take(hook) => *hook,
                Find => Hook::Scan,
            };
            // As the idle protocol does between the announcement of sleep and the last look: a push that
            // ended before is fully visible.
            fence(Ordering::SeqCst);
            let ended = self.ended.get();
            match hook.call::<P>(&self.shared, local, &cx) {
                Some(task) => self.end(local, task),
                None if matches!(act, Find) => {
                    if self.begun.get() == ended && self.private.get() == 0 {
                        let how = format!("`scan` of worker {index} said `None` while a task lay still.");
                        self.fail(Duty::ExhaustiveScan, &how);
                    }
                    self.excused.add_shared(1);
                }
                None => {}
            }
        }
    }

    /// Pushes from outside the pool.
    fn push_from_outside(&self, task: TaskRef, why: Why) {
        let counters = Counters::default();
        let cx = Cx::from_outside(self.scene.workers.len(), &counters, Clock::Machine);
        self.push(None, task, why, &cx);
    }

    fn push(&self, local: Option<&mut P::Local>, task: TaskRef, why: Why, cx: &Cx<'_>) {
        let (outside, excused) = (local.is_none(), self.excused.get());
        self.begun.add_shared(1);
        let wake = match local {
            Some(local) => push_local::<P>(&self.shared, local, task, why, cx),
            None => P::push(&self.shared, None, task, why, cx),
        };
        // As the idle protocol does between a push and the look for sleepers; its partner is in `work`.
        fence(Ordering::SeqCst);
        self.ended.add_shared(1);
        self.private.add_shared(u64::from(wake == WakeUp::None));
        if wake == WakeUp::None && (outside || self.excused.get() != excused) {
            let how =
                format!("`push({why:?})` said `Wake::None`, but a worker that found nothing may be asleep.");
            self.fail(Duty::HonestWake, &how);
        }
    }
}

fn play<P: Policy>(name: &'static str, policy: &P, scene: &'static Scene) {
    let (shared, locals) =
        build(name, policy, scene.workers.len()).unwrap_or_else(|violation| panic!("{violation}"));
    let pushes = |acts: &[Act]| acts.iter().filter(|act| matches!(act, Push(_))).count();
    let (own, outside) = scene.before;
    let tasks = own.len()
        + outside
        + scene.workers.iter().map(|acts| pushes(acts)).sum::<usize>()
        + pushes(scene.outsider);
    let state = Arc::new(SceneState::<P> {
        name,
        scene,
        shared,
        probe: TestTasks::new(tasks),
        begun: Counter::default(),
        ended: Counter::default(),
        excused: Counter::default(),
        private: Counter::default(),
    });
    let mut workers = TestWorker::<P>::all(locals, 1).into_iter();
    let mut numbers = 0..tasks;

    let mut owner = workers
        .next()
        .unwrap_or_else(|| unreachable!("every scene has a worker"));
    let before: Vec<Act> = own.iter().map(|&why| Push(why)).collect();
    state.work(&mut owner, &before, numbers.by_ref().take(own.len()));
    numbers
        .by_ref()
        .take(outside)
        .for_each(|number| state.push_from_outside(state.probe.task(number), Injected));
    let asleep = if scene.asleep {
        fall_asleep(&state, &mut owner)
    } else {
        None
    };

    // This thread is the external thread.
    let parts = std::iter::once(owner)
        .chain(workers)
        .zip(scene.workers)
        .map(|(mut worker, &acts)| {
            let state = Arc::clone(&state);
            let own: Vec<usize> = numbers.by_ref().take(pushes(acts)).collect();
            thread::spawn(move || {
                state.work(&mut worker, acts, own.into_iter());
                worker
            })
        });
    let parts: Vec<_> = parts.collect();
    let mut asleep = asleep;
    for act in scene.outsider {
        match (act, asleep.take()) {
            (Wake, Some(task)) => state.push_from_outside(task, Why::Woken),
            (Push(why), sleeper) => {
                asleep = sleeper;
                let number = numbers
                    .next()
                    .unwrap_or_else(|| unreachable!("a number for each push"));
                state.push_from_outside(state.probe.task(number), *why);
            }
            (act, _) => unreachable!("an outsider does not {act:?}"),
        }
    }
    let mut workers: Vec<_> = parts
        .into_iter()
        .map(|part| {
            part.join()
                .unwrap_or_else(|_| state.fail(Duty::NothingLost, "A thread panicked."))
        })
        .collect();

    // Two rounds, and each worker until it finds nothing: only its own worker finds a private task.
    for worker in &mut workers {
        let (local, cx) = worker.parts(Clock::Machine);
        while let Some(task) = P::scan(&state.shared, local, &cx) {
            state.end(local, task);
        }
    }
    for number in 0..tasks {
        match (state.probe.runs(number), state.probe.lost(number)) {
            (1, 0) => {}
            (0, 0) => state.fail(
                Duty::NothingLost,
                &format!("Task {number} is in no place that a scan finds."),
            ),
            (0, _) => state.fail(Duty::NothingLost, &format!("Task {number} was dropped.")),
            (runs, _) => state.fail(Duty::NothingTwice, &format!("Task {number} ran {runs} times.")),
        }
    }
}

/// Worker 0 takes a task, which then waits.
fn fall_asleep<P: Policy>(state: &SceneState<P>, owner: &mut TestWorker<P>) -> Option<TaskRef> {
    let (local, cx) = owner.parts(Clock::Machine);
    let mut task = P::next(&state.shared, local, &cx)?;
    suspended::<P>(&state.shared, local, &mut task, &cx);
    Some(task)
}
