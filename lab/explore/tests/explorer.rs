//! A closure is run under each setting, and what goes wrong is said.

use std::cell::RefCell;
use std::collections::BTreeMap;

use warpweft::Runtime;
use warpweft_explore::Explorer;

#[test]
fn a_closure_runs_under_each_setting_once_in_a_round() {
    let calls = RefCell::new(BTreeMap::new());
    let own = Runtime::builder().build().expect("a runtime");
    let (policy, workers) = (own.policy().to_owned(), own.workers());
    let trial = Explorer::new("squares")
        .policies(["shortest", "lifo"])
        .workers([3, workers])
        .rounds(8)
        .despite_load()
        .run(|runtime| {
            let setting = (runtime.policy().to_owned(), runtime.workers());
            *calls.borrow_mut().entry(setting).or_insert(0) += 1;
            let jobs: Vec<_> = (0..50_u64).map(|n| runtime.spawn_job(move || n)).collect();
            let sum: u64 = jobs.into_iter().filter_map(|job| job.wait().ok()).sum();
            assert_eq!(sum, 1225);
        })
        .expect("it runs");
    let calls = calls.into_inner();
    // The default is measured once, although it is asked for again.
    assert_eq!(calls.len(), if workers == 3 { 2 } else { 4 }, "{calls:?}");
    assert!(calls.values().all(|count| *count == 8), "{calls:?}");
    assert!(calls.contains_key(&(policy, workers)));
    let text = trial.to_string();
    for part in [
        "squares",
        "as it is",
        "lifo on 3 workers",
        "CPU time",
        "ran",
        "queue delay p50 / p99",
        "run time",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let advice = trial.advice();
    assert!(
        advice.starts_with("Take ") || advice.starts_with("Leave it as it is ("),
        "{advice}"
    );
    let document = trial.document();
    // A job's value is there before its worker has counted the step, so each of the three workers may not
    // have counted its last one when the closure ends.
    let counted = 50 - 3_u64;
    let ran = document["settings"][1]["counters"]["ran"].as_f64();
    assert!(ran >= Some(counted as f64), "{document}");
    let delay = &document["settings"][1]["delays"]["run_time"];
    assert!(
        // Of the seven rounds that count.
        delay["count"].as_u64() >= Some(7 * counted) && delay["p50_ns"].as_u64() > Some(0),
        "{document}"
    );
    assert!(trial.html().contains("Processor time"));
}

/// Nothing is said of workers: one, half of the machine's, and all of them.
#[test]
fn a_panic_ends_one_setting_of_each_number_of_workers() {
    let trial = Explorer::new("panics")
        .policies(["lifo"])
        .rounds(2)
        .without_delays()
        .run(|runtime| assert!(!runtime.policy().starts_with("lifo"), "not with lifo"))
        .expect("the default runs");
    let failures: Vec<&str> = trial.failures().collect();
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1, (all / 2).max(1), all];
    counts.dedup();
    let expected = counts.into_iter().map(|count| {
        let s = if count == 1 { "" } else { "s" };
        format!("`lifo` on {count} worker{s}: it panicked: not with lifo")
    });
    assert_eq!(failures, expected.collect::<Vec<_>>());
    assert!(!trial.to_string().contains("queue delay"), "{trial}");
}

#[test]
fn wrong_texts_are_errors() {
    let error = |explorer: Explorer| explorer.run(|_| ()).expect_err("it is wrong").to_string();
    assert!(error(Explorer::new("x").policies(["lifoo"])).contains("`lifoo` is not an order"));
    assert!(error(Explorer::new("x").workers([0])).contains("1 to 4096"));
}
