//! Tasks that end, or are woken, while a dump looks at them, under every schedule that a seed can make.
#![cfg(warpweft_shuttle)]

#[path = "support/models.rs"]
mod support;

use shuttle::thread;
use support::{Gate, check, runtime};
use warpweft::{TaskKind, TaskState, fiber};

/// A future, a job and a fiber wait for a gate, which opens while they are dumped.
#[test]
fn tasks_of_each_kind_end_while_they_are_dumped() {
    check(|| {
        let runtime = runtime(2, "fifo");
        // A gate has one waiter.
        let gates = [Gate::default(), Gate::default(), Gate::default()];
        let [one, two, three] = gates.clone();
        let future = runtime.spawn(one);
        let job = runtime.spawn_job(move || warpweft::block_on(two));
        let fiber = runtime.spawn_fiber(move || {
            fiber::yield_now();
            warpweft::block_on(three);
        });
        let opens = thread::spawn(move || gates.iter().for_each(Gate::open));
        for _ in 0..2 {
            let dump = runtime.dump();
            assert!(
                dump.tasks.iter().filter(|task| task.spawned_at.is_some()).count() <= 3,
                "{dump}"
            );
        }
        opens.join().expect("no panic");
        future.wait().expect("no panic");
        job.wait().expect("no panic");
        fiber.wait().expect("no panic");
        let dump = runtime.dump();
        let waits = |kind| {
            dump.tasks
                .iter()
                .any(|task| task.kind == Some(kind) && task.state == TaskState::Waiting)
        };
        assert!(!waits(TaskKind::Future), "{dump}");
    });
}

/// The pool closes over tasks that wait, while they are dumped.
#[test]
fn a_pool_ends_while_it_is_dumped() {
    check(|| {
        let runtime = runtime(2, "fifo");
        let gates = [Gate::default(), Gate::default()];
        let [one, two] = gates.clone();
        let future = runtime.spawn(one);
        let fiber = runtime.spawn_fiber(move || warpweft::block_on(two));
        let pool = runtime.first().clone();
        let dumps = thread::spawn(move || drop(pool.dump()));
        drop(runtime);
        dumps.join().expect("no panic");
        let _ = (future.wait(), fiber.wait());
        drop(gates);
    });
}
