//! The programs of the incidents come to their end on Warpweft, and without the incident. On the other
//! runtime several of them hang or die by design: they are run by hand, see `examples/README.md`.
#![allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "each example is a program of its own, with a copy of what they share and a main"
)]

#[path = "../examples/incident_1054.rs"]
mod incident_1054;
#[path = "../examples/incident_1105.rs"]
mod incident_1105;
#[path = "../examples/incident_592.rs"]
mod incident_592;
#[path = "../examples/incident_854.rs"]
mod incident_854;
#[path = "../examples/incident_957.rs"]
mod incident_957;
#[path = "../examples/incident_mutual.rs"]
mod incident_mutual;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A program that takes longer hangs. The programs yield to other threads 160 000 times, and where others
/// have work for the processors each time may take milliseconds.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs a program with 1, 2 and 4 workers; the incident must not show.
fn completes(program: fn(usize) -> Result<String, String>) {
    ends(program, |incident| panic!("the incident showed: {incident}"));
}

/// The same for an incident that shows in times: on a loaded machine they say nothing, so only a hang counts.
fn comes_to_its_end(program: fn(usize) -> Result<String, String>) {
    ends(program, |late| println!("{late}"));
}

/// What hangs is left behind: its thread ends with the tests.
fn ends(program: fn(usize) -> Result<String, String>, incident: impl Fn(String)) {
    for workers in [1, 2, 4] {
        let (ended, end) = mpsc::channel();
        thread::spawn(move || ended.send(program(workers)));
        match end.recv_timeout(LIMIT) {
            Ok(Ok(_)) => {}
            Ok(Err(what)) => incident(format!("with {workers} workers: {what}")),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("with {workers} workers: hangs"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("with {workers} workers: panicked"),
        }
    }
}

#[test]
fn a_lock_is_held_across_a_join() {
    completes(incident_592::on_warpweft);
}

#[test]
fn waits_do_not_pile_up_on_a_stack() {
    completes(incident_854::on_warpweft);
}

#[test]
fn a_short_join_is_not_kept_by_a_long_job() {
    comes_to_its_end(incident_957::on_warpweft);
}

#[test]
fn jobs_are_done_one_after_the_other() {
    comes_to_its_end(incident_1054::on_warpweft);
}

#[test]
fn nothing_begins_on_top_of_a_call_that_waits_for_another_pool() {
    completes(incident_1105::on_warpweft);
}

#[test]
fn halves_wait_for_each_other() {
    completes(incident_mutual::on_warpweft);
}
