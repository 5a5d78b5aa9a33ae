//! Dumps that a signal asks for.

use std::process::{Command, id};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;
use warpweft::Runtime;
use warpweft::signal::dump_on_signal;

/// A signal is for all of the process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_signal_asks_for_a_dump_while_all_workers_are_stuck() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::builder()
        .workers(1)
        .name("asked")
        .build()
        .expect("a runtime");
    let (go, stuck) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let job = runtime.spawn_job(move || {
        begin.send(()).expect("the test waits");
        stuck.recv()
    });
    // A job that has never run is in no list.
    begun.recv().expect("it begins");
    let (send, receive) = mpsc::channel();
    let dumps =
        dump_on_signal(&runtime, move |dump| send.send(dump).expect("the test waits")).expect("a handler");
    for _ in 0..2 {
        let kill = Command::new("kill").args(["-USR2", &id().to_string()]).status();
        assert!(kill.expect("there is a command").success());
        let dump = receive.recv_timeout(Duration::from_secs(60)).expect("a dump");
        assert_eq!(dump.pools[0].name, "asked");
        assert!(
            dump.tasks.iter().any(|task| task
                .spawned_at
                .is_some_and(|site| site.file().ends_with("on_signal.rs"))),
            "{dump}"
        );
    }
    drop(dumps);
    assert!(receive.recv().is_err(), "the function is gone");
    go.send(()).expect("the job waits");
    assert!(job.wait().expect("no panic").is_ok());
}

/// A thread whose function has panicked answers no more, and one whose function drops the guard ends.
#[test]
fn guards_of_functions_that_panic_or_drop_them_are_dropped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Runtime::builder().workers(1).build().expect("a runtime");
    let signal = || {
        let kill = Command::new("kill").args(["-USR2", &id().to_string()]).status();
        assert!(kill.expect("there is a command").success());
    };
    let (tell, told) = mpsc::channel();
    let panics = dump_on_signal(&runtime, move |_| {
        let _asked = tell.send(());
        panic!("the function panics");
    });
    let panics = panics.expect("a handler");
    signal();
    told.recv_timeout(Duration::from_secs(60)).expect("it is asked");
    signal();
    drop(panics);
    let (guards, guard) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let dumps = dump_on_signal(&runtime, move |_| {
        drop(guard.recv());
        let _asked = tell.send(());
    });
    guards.send(dumps.expect("a handler")).expect("it is there");
    signal();
    told.recv_timeout(Duration::from_secs(60))
        .expect("it drops its own guard");
}
