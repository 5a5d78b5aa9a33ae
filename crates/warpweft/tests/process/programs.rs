//! Programs of a parent: in a forked child they are neither killed nor waited for.

use crate::children::{RETURNED, end_of, fork, leave};
use std::io::ErrorKind;
use warpweft::Runtime;
use warpweft::process::{Command, Stdio};

#[test]
fn a_forked_child_does_not_end_its_parents_programs() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let mut child = runtime
        .block_on(async {
            Command::new("cat")
                .stdin(Stdio::piped())
                .kill_on_drop(true)
                .spawn()
        })
        .expect("it starts");
    let forked = fork();
    if forked == 0 {
        let error = warpweft::block_on(child.wait()).expect_err("it is the parent's");
        let kill = child.kill().expect_err("it is the parent's");
        let right = [error, kill]
            .iter()
            .all(|error| error.kind() == ErrorKind::Unsupported);
        drop(child);
        leave(right);
    }
    assert_eq!(end_of(forked), RETURNED);
    assert_eq!(child.try_wait().expect("it is our child"), None, "it was killed");
    let stdin = child.stdin.take();
    drop(stdin);
    let status = runtime.block_on(child.wait()).expect("it is our child");
    assert!(status.success());
}
