//! A worker that computes for long is not one that is blocked.
#![cfg(target_os = "linux")]

use crate::eventually::eventually;
use crate::stalls::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::policy::Count;
use warpweft::{Fifo, Runtime, spawn_job};
use warpweft_platform::clock::thread_cpu_ns;

const STUCK_AFTER: Duration = Duration::from_millis(20);

fn runtime(workers: usize) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(Fifo::default())
        .stuck_after(Some(STUCK_AFTER))
        .build()
        .expect("threads")
}

/// Computes for that time of its thread's CPU.
fn compute(time: Duration) {
    let ns = u64::try_from(time.as_nanos()).expect("a short time");
    let start = thread_cpu_ns().expect("Linux counts it");
    while thread_cpu_ns().expect("as above") - start < ns {}
}

/// Returns how many tasks ran on compensating workers.
fn by_others(runtime: &Runtime) -> u64 {
    let counters = runtime.counters();
    counters.compensating.iter().map(|set| set.get(Count::Ran)).sum()
}

/// Has each worker in a task of `long` with others behind it. Returns how long that took, and how many tasks
/// ran on compensating workers.
fn all_in(workers: usize, long: fn()) -> (Duration, u64) {
    let runtime = runtime(workers);
    let start = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|_| runtime.spawn_job(long))
        .chain((0..20).map(|_| runtime.spawn_job(|| ())))
        .collect();
    tasks.into_iter().for_each(|task| task.wait().expect("no panic"));
    (start.elapsed(), by_others(&runtime))
}

#[test]
fn a_worker_that_computes_is_not_replaced() {
    for workers in [1, 2] {
        // Where others take the CPU away for so long that a worker counts as stuck, it says nothing. Nor does
        // a single time in which the system shows it asleep: it may wait for memory.
        let undisturbed = (0..20).filter_map(|_| {
            let (took, others) = all_in(workers, || compute(3 * STUCK_AFTER));
            (took < 9 * STUCK_AFTER).then_some(others)
        });
        let undisturbed: Vec<_> = undisturbed.take(3).take_while(|&others| others > 0).collect();
        assert!(undisturbed.len() < 3, "{undisturbed:?}");
    }
}

#[test]
fn a_worker_that_sleeps_in_the_kernel_is_replaced() {
    let replaced = |_: &u32| all_in(1, || thread::sleep(5 * STUCK_AFTER)).1 > 0;
    assert!((0..20).any(|round| replaced(&round)), "nothing ran meanwhile");
}

/// Has one of the workers compute without end, and others behind it. Returns how many tasks ran on
/// compensating workers.
fn behind_a_hog(workers: usize) -> u64 {
    let runtime = runtime(workers);
    // Dropped first: the runtime's end waits for the hog, also when a check fails.
    let (told, over) = flag();
    let hog = runtime.spawn_job(move || {
        // In the hog's own queue.
        let behind: Vec<_> = (0..20).map(|_| spawn_job(|| ())).collect();
        while !told.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        behind
    });
    let ran = || {
        let counters = runtime.counters();
        let sets = counters.workers.iter().chain(&counters.compensating);
        sets.map(|set| set.get(Count::Ran)).sum::<u64>()
    };
    eventually("what waits behind it runs", || ran() >= 20);
    // The monitor sees that the hog is still there.
    thread::sleep(15 * STUCK_AFTER);
    drop(over);
    drop(hog.wait().expect("no panic"));
    by_others(&runtime)
}

#[test]
fn what_waits_behind_a_computation_without_end_goes_on() {
    assert!(behind_a_hog(1) > 0);
}

#[test]
fn what_waits_behind_one_computation_is_stolen_by_the_others() {
    // Where the other worker gets no CPU for long, a compensating worker may take them first.
    assert!((0..20).any(|_| behind_a_hog(2) == 0));
}

/// What a socket wakes begins beside the long tasks, and goes to a worker when it gives way.
#[cfg(feature = "net")]
#[test]
fn what_yields_on_the_standby_poller_is_left_to_a_worker() {
    use std::io::Write as _;
    use warpweft::net::TcpListener;
    use warpweft::yield_soft;

    let runtime = runtime(1);
    let thread = warpweft_platform::thread_state::thread;
    let worker = runtime.spawn_job(thread).wait().expect("no panic");
    let (address, told) = std::sync::mpsc::channel();
    let (tell, threads) = std::sync::mpsc::channel();
    let serves = runtime.spawn(async move {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0)).expect("a port");
        let _ = address.send(listener.local_addr().expect("it is bound"));
        let (stream, _) = listener.accept().await.expect("a client");
        let mut byte = [0];
        while stream.read_exact(&mut byte).await.is_ok() {
            let began = thread();
            yield_soft().await;
            let _ = tell.send((began, thread()));
        }
    });
    serves.detach();
    let mut client = std::net::TcpStream::connect(told.recv().expect("it binds")).expect("it listens");
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let long = runtime.spawn(async move {
        while !told.load(Ordering::Relaxed) {
            compute(STUCK_AFTER / 4);
            warpweft::yield_now().await;
        }
    });
    let start = Instant::now();
    let mut beside = 0;
    while beside < 5 {
        client.write_all(&[7]).expect("it is open");
        let (began, went_on) = threads.recv().expect("it reads");
        assert!(
            began == worker || went_on == worker,
            "it computes beside the worker"
        );
        beside += u32::from(began != worker);
        assert!(start.elapsed() < Duration::from_secs(60), "nobody looks out");
    }
    over.store(true, Ordering::Relaxed);
    long.wait().expect("no panic");
}

/// Nothing tells a task that yields, and is the only ready one, of what waits behind another worker's task.
#[test]
fn a_lone_task_that_yields_takes_what_waits_behind_a_computation() {
    let builder = Runtime::builder().workers(2).policy(Fifo::default());
    // No monitor helps.
    let runtime = builder.stuck_after(None).build().expect("threads");
    let over = Arc::new(AtomicBool::new(false));
    let (begins, begun) = std::sync::mpsc::channel();
    let told = Arc::clone(&over);
    let yields = runtime.spawn(async move {
        let _ = begins.send(());
        while !told.load(Ordering::Relaxed) {
            warpweft::yield_now().await;
        }
    });
    begun.recv().expect("it begins");
    let computes = runtime.spawn_job(|| {
        let ran = Arc::new(AtomicBool::new(false));
        let behind = Arc::clone(&ran);
        spawn_job(move || behind.store(true, Ordering::Relaxed)).detach();
        let start = Instant::now();
        while !ran.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(60) {
            std::hint::spin_loop();
        }
        ran.load(Ordering::Relaxed)
    });
    assert_eq!(computes.wait().ok(), Some(true), "nobody takes it");
    over.store(true, Ordering::Relaxed);
    yields.wait().expect("no panic");
}

/// The report of a stall counts the tasks behind the stuck one. Meanwhile that one ends, the pool ends, and
/// its policy is dropped.
#[test]
fn a_pool_that_ends_waits_for_the_report_that_looks_at_its_queues() {
    const THRESHOLD: Duration = Duration::from_millis(2);
    for round in 0..400 {
        let runtime = Runtime::builder()
            .workers(1)
            .stuck_after(Some(THRESHOLD))
            .on_stall(|stall| assert_eq!(stall.worker, 0))
            .build()
            .expect("threads");
        let job = runtime.spawn_job(move || {
            let until = Instant::now() + THRESHOLD + Duration::from_micros(10 * round);
            while Instant::now() < until {}
        });
        job.wait().expect("no panic");
        drop(runtime);
    }
}

/// Threads of the program keep the CPUs from workers that look for work, and give way to each other.
#[test]
fn a_worker_that_looks_for_work_is_in_no_long_task() {
    let (over, _over) = flag();
    let cpus = thread::available_parallelism().expect("Linux counts them").get();
    for _ in 0..2 * cpus {
        let over = Arc::clone(&over);
        thread::spawn(move || while !over.load(Ordering::Relaxed) {});
    }
    let runtime = runtime(8);
    for _ in 0..3 {
        runtime
            .spawn_job(|| compute(Duration::from_millis(60)))
            .wait()
            .expect("no panic");
    }
    let stalls = runtime.stalls();
    assert!(stalls <= 3, "{stalls} stalls of three tasks");
}
