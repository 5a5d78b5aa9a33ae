//! A workload that is one file: the example runs on all whose tasks are futures, and the others are left out
//! for a reason.

#[path = "../examples/own_workload.rs"]
#[allow(dead_code, reason = "the example has a `main`")]
mod own_workload;

use own_workload::Squares;
use warpweft_lab::harness::{Files, Request};
use warpweft_lab::registered;

#[test]
fn a_workload_of_one_file_runs_wherever_tasks_are_futures() {
    let lab = warpweft_lab::lab([registered::<Squares>()]);
    let jobs = lab
        .plan("explore squares n=50 --runtime all --workers 1,3")
        .expect("it is listed");
    let workload = lab.workload("squares").expect("it is listed");
    let (mut ran, mut refused) = (Vec::new(), Vec::new());
    for cell in &jobs[0].cells {
        let request = Request {
            runtime: cell.runtime.to_owned(),
            policy: cell.policy.clone(),
            workers: cell.workers,
            ..jobs[0].chosen.request(Files::default())
        };
        match workload.refusal(&request).expect("the request is right") {
            Some(reason) => refused.push((cell.runtime, reason)),
            None => {
                let outcome = lab.run(&request).expect("the sum is right");
                assert_eq!(outcome.operations, 50);
                ran.push(cell.runtime);
            }
        }
    }
    ran.dedup();
    assert_eq!(ran, ["warpweft", "smol", "tokio", "warpweft", "smol", "tokio"]);
    for (runtime, why) in [("rayon", "futures"), ("chili", "only join"), ("go", "no program")] {
        let told = refused
            .iter()
            .any(|(name, reason)| *name == runtime && reason.contains(why));
        assert!(told, "{runtime}: {refused:?}");
    }
}

#[test]
fn wrong_settings_of_it_are_refused() {
    let lab = warpweft_lab::lab([registered::<Squares>()]);
    let error = |line: &str| {
        lab.plan(line)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(error("bench squares n=0").contains("from 1 to"));
    assert!(error("bench square").contains("did you mean `squares`?"));
}
