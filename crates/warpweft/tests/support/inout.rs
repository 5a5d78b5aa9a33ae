//! The same program with both ways of polling and pools of several sizes.

use warpweft::{Io, Runtime};

/// Runs the program with 1, 2 and 4 workers, polled by them and by a thread.
pub(crate) fn both_ways(program: impl Fn(&Runtime)) {
    for io in [Io::Inline, Io::Thread] {
        for workers in [1, 2, 4] {
            let runtime = Runtime::builder()
                .workers(workers)
                .io(io)
                .build()
                .expect("workers");
            program(&runtime);
        }
    }
}
