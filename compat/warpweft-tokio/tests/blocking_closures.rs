//! Closures of `tokio::task::spawn_blocking`, and accesses to files, on a pool with a context.

use std::sync::mpsc;
use tokio::task::spawn_blocking;
use warpweft::Runtime;
use warpweft_tokio::BuilderExt as _;

#[path = "../../../crates/warpweft/tests/support/in_time.rs"]
mod in_time;
use in_time::in_time;

fn with_context(workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).tokio_context();
    builder.expect("a thread").build().expect("workers")
}

/// As on tokio, there are threads enough.
#[test]
fn closures_that_wait_for_long_keep_no_file_from_its_thread() {
    in_time(|| {
        let runtime = with_context(1);
        let waits: Vec<_> = (0..100).map(|_| mpsc::channel::<()>()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = waits.into_iter().unzip();
        runtime.block_on(async {
            for receiver in receivers {
                drop(spawn_blocking(move || receiver.recv()));
            }
            let here = tokio::fs::metadata(".").await.expect("it is there");
            assert!(here.is_dir());
        });
        drop(senders);
    });
}
