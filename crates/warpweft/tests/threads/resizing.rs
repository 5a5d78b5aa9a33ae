//! Pools that become smaller and larger while they run: no task, no fiber and no pinned task is lost.
//!
//! `WARPWEFT_RESIZES` says how often the storm resizes each pool; `cargo xtask deep` runs ten thousand.

use crate::eventually::eventually;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::sync::{Notify, channel};
use warpweft::time::sleep;
use warpweft::{
    BuildError, Builder, JoinError, JoinHandle, PolicySpec, ResizeError, Runtime, TaskBuilder,
    current_worker, fiber, join, spawn_job, yield_now,
};

fn builder(workers: usize, policy: &str) -> Builder {
    let policy: PolicySpec = policy.parse().expect("a policy");
    Runtime::builder().workers(workers).policy_spec(policy)
}

/// Without compensating workers, as many jobs run at a time as there are workers.
fn exact(workers: usize) -> Runtime {
    builder(workers, "fifo")
        .stuck_after(None)
        .build()
        .expect("workers")
}

/// Returns true if that many jobs run at the same time. If not, it waits for ever.
fn run_together(runtime: &Runtime, jobs: usize) {
    let barrier = Arc::new(Barrier::new(jobs));
    let jobs: Vec<_> = (0..jobs)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            runtime.spawn_job(move || barrier.wait())
        })
        .collect();
    for job in jobs {
        // A worker may draw two jobs at once while the others go to sleep. Without a monitor they look again
        // only for the next push.
        while !job.is_finished() {
            runtime.spawn_detached(|| ());
            thread::sleep(Duration::from_micros(200));
        }
        job.wait().expect("no panic");
    }
}

/// Returns the largest number of jobs that ran at a time.
fn most_together(runtime: &Runtime) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let jobs: Vec<_> = (0..16)
        .map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            runtime.spawn_job(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(100) {
                    thread::yield_now();
                }
                now.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for job in jobs {
        job.wait().expect("no panic");
    }
    most.load(Ordering::SeqCst)
}

#[test]
fn sizes_that_are_not_possible_are_refused() {
    let runtime = exact(3);
    assert_eq!((runtime.workers(), runtime.max_workers()), (3, 3));
    let zero = runtime.resize(0).expect_err("no pool has none");
    assert_eq!(
        zero.to_string(),
        "a pool cannot have 0 workers: ask for 1 or more"
    );
    let many = runtime.resize(4).expect_err("one too many");
    assert_eq!(
        many.to_string(),
        "4 workers are more than the pool was built for, 3: build it with `max_workers(4)`"
    );
    let more = runtime.resize(1_000_000_000).expect_err("far too many");
    assert!(more.to_string().contains("no pool has more than 4096"), "{more}");
    assert_eq!(runtime.workers(), 3, "what is refused changes nothing");
    assert_eq!(runtime.resize(1).expect("possible"), 3);
    assert_eq!(runtime.resize(1).expect("possible"), 1);
    assert!(format!("{runtime:?}").contains("workers: 1 (set by the program), max_workers: 3"));
    let pool = runtime.first().clone();
    drop(runtime);
    assert!(matches!(pool.resize(2), Err(ResizeError::Closed)));
    let error = builder(3, "fifo").max_workers(2).build().expect_err("too few");
    assert!(
        matches!(error, BuildError::MaxWorkers { first: 3, most: 2 }),
        "{error}"
    );
}

#[test]
fn as_many_jobs_run_at_a_time_as_there_are_workers() {
    let runtime = builder(1, "fifo")
        .max_workers(4)
        .stuck_after(None)
        .build()
        .expect("workers");
    for size in [1, 4, 2, 3, 1, 4] {
        runtime.resize(size).expect("possible");
        // Those that are added come at once.
        run_together(&runtime, size);
        // Those that are too many go after their task.
        eventually("so few jobs at a time", || most_together(&runtime) <= size);
    }
}

/// A worker that has never had a thread begins like one of the first.
#[test]
fn threads_are_started_for_workers_and_kept_for_them() {
    let runtime = builder(1, "fifo")
        .max_workers(3)
        .stuck_after(None)
        .build()
        .expect("workers");
    assert_eq!(runtime.threads().all, 1);
    runtime.resize(3).expect("possible");
    run_together(&runtime, 3);
    assert_eq!(runtime.threads().all, 3);
    for _ in 0..10 {
        runtime.resize(1).expect("possible");
        eventually("two rest", || runtime.threads().spare == 2);
        runtime.resize(3).expect("possible");
        run_together(&runtime, 3);
    }
    assert_eq!(runtime.threads().most, 3);
}

#[test]
fn a_worker_that_rests_is_not_awake() {
    let runtime = builder(1, "fifo").max_workers(2).build().expect("workers");
    let rests = Duration::from_millis(30);
    thread::sleep(rests);
    runtime.resize(2).expect("possible");
    run_together(&runtime, 2);
    let metrics = runtime.metrics();
    let pool = &metrics.pools[0];
    assert!(
        pool.busy[1] <= pool.age - rests,
        "{:?} of {:?}",
        pool.busy,
        pool.age
    );
}

#[test]
fn a_pinned_task_wakes_a_worker_that_rests() {
    let runtime = exact(3);
    runtime.resize(1).expect("possible");
    eventually("two rest", || runtime.threads().spare == 2);
    for worker in [2, 1, 2, 0] {
        let task = TaskBuilder::new()
            .on(&runtime)
            .spawn_pinned(worker, current_worker);
        assert_eq!(task.wait().expect("no panic"), Some(worker));
    }
    eventually("they rest again", || runtime.threads().spare == 2);
    assert!(most_together(&runtime) <= 1);
}

/// The only running worker is in a frame that waits, and then a task is pinned to a worker at rest. The frame
/// has not taken the thread of that worker, although no other may be started.
#[test]
fn a_worker_that_rests_has_a_thread_for_its_pinned_tasks() {
    let runtime = builder(2, "fifo")
        .max_threads(2)
        .stuck_after(None)
        .build()
        .expect("workers");
    runtime.resize(1).expect("possible");
    eventually("one rests", || runtime.threads().spare == 1);
    let (send, receive) = channel::bounded(1);
    let waits = runtime.spawn_job(move || receive.recv().wait());
    // It waits by then, or what follows is easier.
    thread::sleep(Duration::from_millis(20));
    let pinned = TaskBuilder::new().on(&runtime).spawn_pinned(1, current_worker);
    eventually("it runs", || pinned.is_finished());
    assert_eq!(pinned.wait().expect("no panic"), Some(1));
    send.try_send(7).expect("there is room");
    assert_eq!(waits.wait().expect("no panic"), Ok(7));
    assert_eq!(runtime.threads().most, 2);
}

/// Spawns its successor, which only its worker can find, for as long as it is told.
fn chain(stop: Arc<AtomicBool>, ran_on: Arc<[AtomicUsize; 2]>) {
    if let Some(worker) = current_worker() {
        ran_on[worker].fetch_add(1, Ordering::Relaxed);
    }
    if !stop.load(Ordering::Relaxed) {
        warpweft::spawn_detached(move || chain(stop, ran_on));
    }
}

/// A worker begins to rest with a task in a slot where thieves do not look. Nearly always: now and then the
/// task is in its queue. So there are several rounds.
#[test]
fn what_only_the_worker_finds_is_given_back_before_it_rests() {
    for round in 0..8 {
        let runtime = builder(2, "tokio").stuck_after(None).build().expect("workers");
        let (stop, free) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let ran_on = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let is_free = Arc::clone(&free);
        let busy = TaskBuilder::new().on(&runtime).spawn_pinned(0, move || {
            while !is_free.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        let (until, on) = (Arc::clone(&stop), Arc::clone(&ran_on));
        let first = TaskBuilder::new()
            .on(&runtime)
            .spawn_pinned(1, move || chain(until, on));
        first.wait().expect("no panic");
        runtime.resize(1).expect("possible");
        eventually("worker 1 rests", || runtime.threads().spare == 1);
        let before = ran_on[0].load(Ordering::Relaxed);
        free.store(true, Ordering::Relaxed);
        busy.wait().expect("no panic");
        eventually(&format!("worker 0 continues, round {round}"), || {
            ran_on[0].load(Ordering::Relaxed) > before
        });
        stop.store(true, Ordering::Relaxed);
    }
}

/// A fiber continues on its thread, whichever workers are left.
#[test]
fn fibers_of_a_worker_that_rests_go_on() {
    let runtime = exact(3);
    let notify = Arc::new(Notify::new());
    let waiting = Arc::new(AtomicUsize::new(0));
    let fibers: Vec<JoinHandle<bool>> = (0..60)
        .map(|_| {
            let (notify, waiting) = (Arc::clone(&notify), Arc::clone(&waiting));
            runtime.spawn_fiber(move || {
                let before = thread::current().id();
                waiting.fetch_add(1, Ordering::SeqCst);
                fiber::wait(notify.notified());
                thread::current().id() == before
            })
        })
        .collect();
    eventually("all wait", || waiting.load(Ordering::SeqCst) == 60);
    runtime.resize(1).expect("possible");
    eventually("two rest", || runtime.threads().spare == 2);
    for fiber in fibers {
        while !fiber.is_finished() {
            notify.notify_one();
            thread::yield_now();
        }
        assert!(fiber.wait().expect("no panic"));
    }
}

#[test]
fn a_task_may_resize_its_own_pool() {
    let runtime = exact(4);
    let pool = runtime.first().clone();
    let sizes = runtime.spawn(async move {
        let mut before = Vec::new();
        for size in [1, 4, 2, 1, 3] {
            before.push(pool.resize(size).expect("possible"));
            yield_now().await;
        }
        before
    });
    assert_eq!(sizes.wait().expect("no panic"), [4, 1, 4, 2, 1]);
    assert_eq!(runtime.workers(), 3);
}

/// Everything ends, whether its worker runs, rests or is on the way to either.
#[test]
fn a_pool_may_end_in_any_size() {
    for round in 0..60 {
        let runtime = Arc::new(
            builder(1 + round % 3, "fifo")
                .max_workers(3)
                .build()
                .expect("workers"),
        );
        let held = Arc::new(());
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                let held = Arc::clone(&held);
                if n % 4 == 0 {
                    return TaskBuilder::new()
                        .on(&runtime)
                        .spawn_pinned(0, move || drop(held));
                }
                runtime.spawn(async move {
                    let _held = held;
                    for _ in 0..n {
                        yield_now().await;
                    }
                })
            })
            .collect();
        let _ = runtime.resize(1 + (round + 1) % 3);
        let _ = runtime.resize(1 + (round + 2) % 3);
        drop(runtime);
        for task in tasks {
            assert!(matches!(task.wait(), Ok(()) | Err(JoinError::Shutdown)));
        }
        assert_eq!(Arc::strong_count(&held), 1, "in round {round}");
    }
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// Tasks of every kind, one after the other. Returns how many there were.
fn load(runtime: &Runtime, stop: &AtomicBool) -> usize {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) || rounds == 0 {
        let mut tasks: Vec<JoinHandle<u64>> = Vec::new();
        for n in 0..4 {
            tasks.push(runtime.spawn_job(|| fib(8)));
            tasks.push(runtime.spawn(async {
                yield_now().await;
                sleep(Duration::from_micros(20)).await;
                21
            }));
            tasks.push(runtime.spawn_fiber(|| {
                fiber::wait(sleep(Duration::from_micros(10)));
                spawn_job(|| 21).wait().unwrap_or(0)
            }));
            tasks.push(TaskBuilder::new().on(runtime).spawn_pinned(n, || 21));
        }
        let sum: u64 = tasks.into_iter().map(|task| task.wait().expect("no panic")).sum();
        assert_eq!(sum, 16 * 21);
        rounds += 1;
    }
    rounds
}

/// Random sizes beside tasks of every kind.
fn storm(policy: &str, resizes: usize) {
    let runtime = Arc::new(builder(4, policy).build().expect("workers"));
    let stop = Arc::new(AtomicBool::new(false));
    let loads: Vec<_> = (0..2)
        .map(|_| {
            let (runtime, stop) = (Arc::clone(&runtime), Arc::clone(&stop));
            thread::spawn(move || load(&runtime, &stop))
        })
        .collect();
    let (mut random, mut size) = (0x9e37_79b9_u64, 4);
    for round in 0..resizes {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let next = 1 + (random % 4) as usize;
        assert_eq!(runtime.resize(next).expect("possible"), size);
        size = next;
        if round % 8 == 0 {
            thread::yield_now();
        }
    }
    stop.store(true, Ordering::Relaxed);
    for load in loads {
        assert!(load.join().expect("exact sums") > 0);
    }
    runtime.resize(4).expect("possible");
    run_together(&runtime, 4);
    let runtime = Arc::into_inner(runtime).expect("the last");
    let pool = runtime.first().clone();
    drop(runtime);
    assert_eq!(pool.fault(), None);
}

#[test]
fn nothing_is_lost_in_a_storm_of_sizes() {
    let resizes = std::env::var("WARPWEFT_RESIZES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(200);
    for policy in [
        "fifo",
        "lifo",
        "fifo+woken=last",
        "tokio",
        "go",
        "libfibre",
        "parsimonious",
        "negele-local",
        "cforall",
        "prows",
        "edf",
    ] {
        storm(policy, resizes);
    }
}

/// The monitor's thread has its own mask of CPUs, and the pool follows it.
#[cfg(target_os = "linux")]
#[test]
fn the_size_follows_the_cpus_that_the_process_may_use() {
    let cpus = warpweft_platform::affinity::allowed().expect("Linux tells");
    if cpus.len() < 2 {
        return;
    }
    let runtime = builder(cpus.len(), "fifo")
        .name("follow")
        .follow_cpus(Some(Duration::from_millis(5)))
        .build()
        .expect("workers");
    let follows = |cpus: &[usize]| {
        allow("follow-watch", cpus);
        eventually("the new size", || {
            runtime.spawn_job(|| ()).wait().expect("no panic");
            runtime.workers() == cpus.len()
        });
    };
    let most = runtime.workers();
    follows(&cpus[..1]);
    follows(&cpus);
    assert_eq!(runtime.workers(), most);
    // What the program says counts from then on.
    runtime.resize(most).expect("possible");
    allow("follow-watch", &cpus[..1]);
    for _ in 0..20 {
        runtime.spawn_job(|| ()).wait().expect("no panic");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(runtime.workers(), most);
}

/// Sets the CPUs of the thread of that name.
#[cfg(target_os = "linux")]
fn allow(name: &str, cpus: &[usize]) {
    let mut thread = 0;
    // A thread gives itself its name.
    eventually("the monitor", || {
        let threads = std::fs::read_dir("/proc/self/task").expect("Linux");
        let found = threads.filter_map(Result::ok).find(|thread| {
            let comm = std::fs::read_to_string(thread.path().join("comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        });
        thread = found.map_or(0, |found| {
            found.file_name().to_string_lossy().parse().expect("a number")
        });
        thread != 0
    });
    // SAFETY: an empty set of CPUs is all zeros.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the call writes into the set, which is ours.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the call reads the set, whose size is given.
    let result = unsafe { libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), &raw const set) };
    assert_eq!(result, 0, "the system allows it");
}

/// A worker that is about to get its first thread is not there yet.
#[test]
fn a_broadcast_reaches_those_who_are_there_while_the_pool_grows() {
    for _ in 0..20 {
        let runtime = Runtime::builder().workers(1).max_workers(8).build();
        let runtime = runtime.expect("a worker");
        thread::scope(|scope| {
            let grows = scope.spawn(|| runtime.resize(8).map(drop));
            while !grows.is_finished() {
                let workers = runtime.broadcast(|worker| worker).expect("it is open");
                assert_eq!(workers, (0..workers.len()).collect::<Vec<_>>());
            }
            grows.join().expect("no panic").expect("threads");
        });
        assert_eq!(runtime.first().workers(), 8);
    }
}
