//! Dumps that a signal asks for.

use std::process::{Command, id};
use std::sync::mpsc;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::signal::dump_on_signal;

#[test]
fn a_signal_asks_for_a_dump_while_all_workers_are_stuck() {
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
