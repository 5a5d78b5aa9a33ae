//! Workers that stay on their CPUs, whichever thread carries them.
#![cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle))))]

use std::sync::mpsc;
use warpweft::policy::{CoreLocation, Cx, Policy, PolicyError, PoolEnv, TaskRef, Wake, Why};
use warpweft::{BuildError, Pin, PinError, Runtime, blocking, spawn_blocking, spawn_job};
use warpweft_platform::affinity::{allowed, pin};
use warpweft_platform::topology::Topology;
use warpweft_queue::Locked;

fn here() -> Vec<usize> {
    allowed().expect("Linux tells")
}

/// Returns the CPUs of all threads of the runtime that carry a worker now.
fn by_worker(runtime: &Runtime) -> Vec<Vec<usize>> {
    runtime.broadcast(|_| here()).expect("open")
}

#[test]
fn workers_have_the_cpus_of_the_list_in_its_order() {
    let cpus = here();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    let list = vec![last, first, last];
    let runtime = Runtime::builder().pin(Pin::Cpus(list)).build().expect("allowed");
    assert_eq!(by_worker(&runtime), [[last], [first], [last]]);
    assert_eq!(here(), cpus, "who builds it stays where it is");
    let unpinned = Runtime::builder().workers(1).build().expect("one worker");
    assert_eq!(by_worker(&unpinned), [cpus]);
}

#[test]
fn workers_have_a_core_each() {
    let cores = Topology::here().cores();
    let runtime = Runtime::builder().pin(Pin::PhysicalCores).build().expect("cores");
    assert!((1..=cores.len()).contains(&runtime.workers()));
    for (cpus, core) in by_worker(&runtime).iter().zip(&cores) {
        assert_eq!(*cpus, core.iter().map(|cpu| cpu.number).collect::<Vec<_>>());
    }
    let error = Runtime::builder()
        .workers(cores.len() + 1)
        .pin(Pin::PhysicalCores)
        .build()
        .expect_err("too few cores");
    assert!(
        matches!(error, BuildError::Pin(PinError::Cores { .. })),
        "{error}"
    );
}

/// Runs jobs that release their workers and acquire others.
fn swap_workers(runtime: &Runtime, allowed: &[usize]) {
    let jobs: Vec<_> = (0..8)
        .map(|_| {
            runtime.spawn_job(|| {
                let (send, receive) = mpsc::channel();
                let other = spawn_job(move || {
                    send.send(()).expect("it waits");
                    here()
                });
                blocking(|| receive.recv().expect("it is sent"));
                [here(), other.wait().expect("no panic"), here()]
            })
        })
        .collect();
    for job in jobs {
        for cpus in job.wait().expect("no panic") {
            assert!(cpus.len() == 1 && allowed.contains(&cpus[0]), "{cpus:?}");
        }
    }
}

#[test]
fn a_worker_keeps_its_cpu_in_other_hands() {
    let cpus = here();
    let list = vec![cpus[0], cpus[cpus.len() - 1]];
    for list in [vec![list[0]], list] {
        // Without compensating workers, which run anywhere: on a busy machine they replace workers that only
        // wait for a CPU.
        let runtime = Runtime::builder()
            .pin(Pin::Cpus(list.clone()))
            .stuck_after(None)
            .build()
            .expect("allowed");
        let all_fibers: Vec<_> = list.iter().map(|&cpu| vec![cpu]).collect();
        // A thread must come back with another worker than it had, and that depends on which thread is
        // faster.
        for round in 0..100 {
            swap_workers(&runtime, &list);
            assert_eq!(by_worker(&runtime), all_fibers, "in round {round}");
        }
        assert_eq!(runtime.threads().unpinned, 0);
    }
}

#[test]
fn threads_without_a_worker_run_anywhere() {
    let cpus = here();
    let pin = Pin::Cpus(vec![cpus[0]]);
    let runtime = Runtime::builder().pin(pin).build().expect("allowed");
    let task = runtime.spawn(async { spawn_blocking(here).await });
    assert_eq!(task.wait().expect("no panic").expect("no panic"), cpus);
}

#[test]
fn what_is_forbidden_is_an_error_that_says_so() {
    let error = Runtime::builder()
        .pin(Pin::Cpus(vec![9999]))
        .build()
        .expect_err("there is no such CPU");
    assert!(
        matches!(&error, BuildError::Pin(PinError::Forbidden { cpu: 9999, .. })),
        "{error}"
    );
    assert!(
        error.to_string().starts_with("CPU 9999 may not be used"),
        "{error}"
    );
    let error = Runtime::builder()
        .workers(2)
        .pin(Pin::Cpus(vec![here()[0]]))
        .build()
        .expect_err("a CPU for each");
    assert!(
        matches!(error, BuildError::Pin(PinError::List { workers: 2, cpus: 1 })),
        "{error}"
    );
    let error = Runtime::builder()
        .pin(Pin::Cpus(Vec::new()))
        .build()
        .expect_err("no worker");
    assert!(matches!(error, BuildError::Workers { asked: 0, .. }), "{error}");
}

#[test]
fn the_mask_of_who_builds_it_counts() {
    let cpus = here();
    let builder = std::thread::spawn(move || {
        pin(&cpus[..1]).expect("it is allowed");
        let runtime = Runtime::builder()
            .pin(Pin::PhysicalCores)
            .build()
            .expect("one core");
        let other = cpus.last().copied().filter(|&cpu| cpu != cpus[0]);
        let error = other.map(|cpu| Runtime::builder().pin(Pin::Cpus(vec![cpu])).build());
        assert!(error.is_none_or(|error| error.is_err()));
        (runtime.workers(), by_worker(&runtime), cpus[0])
    });
    let (workers, all_fibers, first) = builder.join().expect("no panic");
    assert_eq!((workers, all_fibers), (1, vec![vec![first]]));
}

/// A compensating worker is not pinned: it runs where there is room, and the worker stays where it is.
#[test]
fn a_pinned_worker_is_stuck() {
    let cpus = here();
    let runtime = Runtime::builder()
        .pin(Pin::Cpus(vec![cpus[0]]))
        .build()
        .expect("allowed");
    loop {
        let (open, gate) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let stuck = runtime.spawn_job(move || {
            tell.send(here()).expect("somebody asks");
            gate.recv().is_err()
        });
        // On a busy machine a compensating worker may have replaced a worker that only waited for a CPU.
        let is_worker = told.recv().expect("it starts") == [cpus[0]];
        let behind = runtime.spawn_job(here).wait().expect("no panic");
        drop(open);
        assert!(stuck.wait().expect("no panic"));
        if is_worker {
            assert_eq!(behind, cpus);
            break;
        }
    }
    assert_eq!(by_worker(&runtime), [[cpus[0]]]);
}

/// A policy that reports where its workers are.
struct Curious(mpsc::Sender<Vec<CoreLocation>>);

impl Policy for Curious {
    type Shared = Locked<TaskRef>;
    type Local = ();

    fn build(&self, env: &PoolEnv) -> Result<(Self::Shared, Vec<()>), PolicyError> {
        self.0.send(env.places.clone()).expect("the test listens");
        Ok((Locked::new(), vec![(); env.workers]))
    }
    fn push(queue: &Self::Shared, _: Option<&mut ()>, task: TaskRef, _: Why, _: &Cx<'_>) -> Wake {
        queue.push(task);
        Wake::Any
    }
    fn next(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
    fn scan(queue: &Self::Shared, _: &mut (), _: &Cx<'_>) -> Option<TaskRef> {
        queue.pop()
    }
}

#[test]
fn a_policy_hears_where_its_workers_are() {
    let cpus = here();
    let (send, receive) = mpsc::channel();
    let build = |pin| {
        let policy = Curious(send.clone());
        Runtime::builder()
            .workers(2)
            .pin(pin)
            .policy(policy)
            .build()
            .expect("allowed")
    };
    build(Pin::Cpus(vec![cpus[0]; 2]));
    let places = receive.recv().expect("it was built");
    // One for each worker, and for the two compensating workers.
    assert_eq!(places, [places[0]; 4]);
    build(Pin::Off);
    assert_eq!(receive.recv().expect("it was built"), []);
}
