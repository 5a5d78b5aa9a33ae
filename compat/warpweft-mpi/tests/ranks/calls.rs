//! Functions that ranks call on each other.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use warpweft_mpi::{Calls, Comm, Function, Functions, MpiErrorKind};

/// Each rank calls all ranks at once, with small and with large arguments.
pub(crate) fn functions_are_called_on_ranks(comm: &Comm) {
    let mut functions = Functions::new();
    let rank = comm.rank();
    let sum = functions.register("sum", move |numbers: Vec<u64>| async move {
        (rank, numbers.iter().sum::<u64>())
    });
    let calls = warpweft::block_on(comm.serve(functions)).expect("all have it");
    let begun: Vec<_> = (0..500)
        .map(|number| {
            let to = number % comm.size();
            // Some are longer than a batch.
            let len = if number % 50 == 0 { 30_000 } else { 3 };
            (to, len, calls.call(to, sum, &vec![number as u64; len]))
        })
        .collect();
    for (number, (to, len, call)) in begun.into_iter().enumerate() {
        assert_eq!(call.wait().expect("it runs"), (to, (number * len) as u64));
    }
    let copy = calls.clone();
    warpweft::block_on(calls.close()).expect("nothing is left");
    let error = copy.call(0, sum, &vec![1]).wait().expect_err("it is too late");
    assert_eq!(error.kind(), MpiErrorKind::Finished, "{error}");
    warpweft::block_on(copy.close()).expect_err("once");
}

/// A function waits, and calls the next rank meanwhile, until the depth is through.
pub(crate) fn calls_cross_and_call_others(comm: &Comm) {
    let here: &'static OnceLock<(Calls, Function<u32, u32>)> = Box::leak(Box::default());
    let mut functions = Functions::new();
    let next = (comm.rank() + 1) % comm.size();
    let descend = functions.register("descend", move |depth: u32| async move {
        if depth == 0 {
            return 0;
        }
        warpweft::time::sleep(Duration::from_micros(50)).await;
        let (calls, descend) = here.get().expect("all serve before any calls");
        1 + calls.call(next, *descend, &(depth - 1)).await.expect("it runs")
    });
    let calls = warpweft::block_on(comm.serve(functions)).expect("all have it");
    here.set((calls.clone(), descend)).expect("once");
    comm.barrier().wait().expect("all come");
    let begun: Vec<_> = (0..50).map(|depth| calls.call(next, descend, &depth)).collect();
    for (depth, call) in begun.into_iter().enumerate() {
        assert_eq!(call.wait().expect("it runs"), depth as u32);
    }
    warpweft::block_on(calls.close()).expect("nothing is left");
}

pub(crate) fn a_function_that_fails_is_an_error_of_its_caller(comm: &Comm) {
    let mut functions = Functions::new();
    let fail = functions.register("fail", |text: String| async move {
        warpweft::yield_now().await;
        assert!(text.is_empty(), "it was given {text:?}");
        text.len()
    });
    let other = Functions::new().register("other", |(): ()| async {});
    let calls = warpweft::block_on(comm.serve(functions)).expect("all have it");
    let last = comm.size() - 1;
    let error = calls
        .call(last, fail, &String::from("7"))
        .wait()
        .expect_err("it panics");
    assert_eq!(error.kind(), MpiErrorKind::Remote);
    let text = error.to_string();
    for part in ["`fail`", &format!("rank {last}"), "it was given \"7\""] {
        assert!(text.contains(part), "{text}");
    }
    // The rank goes on.
    assert_eq!(calls.call(last, fail, &String::new()).wait(), Ok(0));
    let error = calls.call(last, other, &()).wait().expect_err("it is unknown");
    assert!(error.to_string().contains("`other` is not among"), "{error}");
    let error = calls
        .call(comm.size(), fail, &String::new())
        .wait()
        .expect_err("no such rank");
    assert_eq!(error.kind(), MpiErrorKind::Argument);
    warpweft::block_on(calls.close()).expect("nothing is left");
}

pub(crate) fn functions_that_differ_are_named_on_all_ranks(comm: &Comm) {
    let mut functions = Functions::new();
    functions.register("all", |number: u32| async move { number });
    if comm.rank() != 1 {
        functions.register("some", |number: u32| async move { number });
    }
    let served = warpweft::block_on(comm.serve(functions));
    if comm.size() == 1 {
        warpweft::block_on(served.expect("there is one rank").close()).expect("nothing is left");
        return;
    }
    let error = served.expect_err("rank 1 lacks one");
    let text = error.to_string();
    assert!(
        text.contains("`some` is registered on rank 0, and not on rank 1"),
        "{text}"
    );
    let mut functions = Functions::new();
    if comm.rank() == 1 {
        functions.register("typed", |number: i64| async move { number });
    } else {
        functions.register("typed", |number: u64| async move { number });
    }
    let error = warpweft::block_on(comm.serve(functions)).expect_err("the types differ");
    assert!(error.to_string().contains("fn(i64) -> i64` on rank 1"), "{error}");
}

/// The end waits for calls whose results nobody wants.
pub(crate) fn dropped_calls_are_waited_for(comm: &Comm) {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    RAN.store(0, Ordering::Relaxed);
    let mut functions = Functions::new();
    let count = functions.register("count", |(): ()| async {
        warpweft::time::sleep(Duration::from_millis(20)).await;
        RAN.fetch_add(1, Ordering::Relaxed);
    });
    let calls = warpweft::block_on(comm.serve(functions)).expect("all have it");
    for rank in 0..comm.size() {
        drop(calls.call(rank, count, &()));
    }
    warpweft::block_on(calls.close()).expect("nothing is left");
    assert_eq!(RAN.load(Ordering::Relaxed), comm.size());
}
