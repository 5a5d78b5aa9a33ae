//! The input of the process, in a child that was forked while the parent reads.

use crate::children::{RETURNED, end_of, fork, leave};
use crate::runtime;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;
use warpweft::io::stdin;
use warpweft::time::timeout;

const SHORT: Duration = Duration::from_millis(10);

/// A pipe in place of the input of this process, for good: no other test here reads it.
fn piped() -> (OwnedFd, std::io::PipeWriter) {
    let (input, writer) = std::io::pipe().expect("a pipe");
    let input = OwnedFd::from(input);
    // SAFETY: both descriptors are open; what 0 was is closed by the system.
    assert_eq!(unsafe { libc::dup2(input.as_raw_fd(), 0) }, 0);
    (input, writer)
}

#[test]
fn a_read_under_way_at_the_fork_is_an_error_in_the_child() {
    use std::io::Write as _;
    let (_input, mut writer) = piped();
    let runtime = runtime(1);
    let mut bytes = [0; 8];
    let read = runtime.block_on(timeout(SHORT, stdin().read(&mut bytes)));
    assert!(read.is_err(), "there is nothing to read");
    let child = fork();
    if child == 0 {
        let own = self::runtime(1);
        let read = own.block_on(timeout(100 * SHORT, stdin().read(&mut bytes)));
        leave(matches!(read, Ok(Err(error)) if error.kind() == ErrorKind::Unsupported));
    }
    assert_eq!(end_of(child), RETURNED);
    writer.write_all(b"warp").expect("it is open");
    let read = runtime.block_on(stdin().read(&mut bytes)).expect("it is open");
    assert_eq!(&bytes[..read], b"warp");
    // Now the thread is not in a read, and a child has one of its own.
    let child = fork();
    if child == 0 {
        writer.write_all(b"weft").expect("it is open");
        let own = self::runtime(1);
        let read = own.block_on(timeout(6000 * SHORT, stdin().read(&mut bytes)));
        leave(matches!(read, Ok(Ok(4))) && bytes.starts_with(b"weft"));
    }
    assert_eq!(end_of(child), RETURNED);
}
