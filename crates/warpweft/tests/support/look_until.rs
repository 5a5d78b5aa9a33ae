//! Waits until a dump shows what it should.

use std::thread;
use std::time::{Duration, Instant};
use warpweft::Dump;

/// How long a dump may need to show what it should.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until a dump satisfies the condition. Returns that dump.
#[track_caller]
pub(crate) fn look_until(what: &str, look: impl Fn() -> Dump, condition: impl Fn(&Dump) -> bool) -> Dump {
    let start = Instant::now();
    loop {
        let dump = look();
        if condition(&dump) {
            return dump;
        }
        if start.elapsed() > PATIENCE {
            // Not a panic, which would wait for the tasks of the runtime.
            eprintln!("never: {what}; the last dump was\n{dump}");
            std::process::abort();
        }
        thread::sleep(Duration::from_millis(1));
    }
}
