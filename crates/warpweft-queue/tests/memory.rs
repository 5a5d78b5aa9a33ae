//! A lack of memory is reported as an error.
#![cfg(all(unix, not(any(warpweft_loom, warpweft_shuttle))))]

use std::num::NonZeroUsize;
use std::process::Command;
use warpweft_queue::{CapacityError, Fifo, Lifo, Owner};

const CHILD: &str = "WARPWEFT_TEST_MEMORY";

/// 128 MiB of slots, more than the child may have.
const CAPACITY: usize = 1 << 24;

#[test]
fn a_ring_that_does_not_fit_into_memory_is_an_error() {
    if std::env::var_os(CHILD).is_some() {
        let errors = [
            Fifo::<NonZeroUsize>::with_capacity(CAPACITY).err(),
            Lifo::<NonZeroUsize>::with_capacity(CAPACITY).err(),
        ];
        for error in errors {
            let error = error.expect("there is not so much memory");
            assert!(matches!(error, CapacityError::Memory { .. }), "{error:?}");
            assert!(error.to_string().contains("memory"), "{error}");
        }
        // And a small one still fits.
        assert!(Fifo::<NonZeroUsize>::with_capacity(1024).is_ok());
        return;
    }
    let executable = std::env::current_exe().expect("a test executable");
    let status = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 100000 && exec \"$0\" --exact \"$1\" --test-threads=1",
        ])
        .arg(executable)
        .arg("a_ring_that_does_not_fit_into_memory_is_an_error")
        .env(CHILD, "1")
        .status()
        .expect("a shell");
    assert!(status.success(), "{status}");
}
