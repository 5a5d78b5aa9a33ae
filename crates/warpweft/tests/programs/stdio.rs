//! The input and output of a process: this program starts itself, and is spoken to.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;
use warpweft::io::{stderr, stdin, stdout};
use warpweft::process::{Child, Command, Stdio};
use warpweft::time::{sleep, timeout};
use warpweft::{Runtime, spawn};

const LONG: Duration = Duration::from_secs(60);
/// The variable that says what this program is to do as a child.
const ROLE: &str = "WARPWEFT_STDIO_ROLE";

fn run(program: impl Future<Output = io::Result<()>>) {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let ended = runtime.block_on(timeout(LONG, program));
    ended.expect("in time").expect("no error");
}

fn start(role: &str) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["stdio::in_a_role", "--exact", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// What the child does; nothing in the test itself.
#[test]
fn in_a_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("echo") => run(echo()),
        Ok("leave") => run(leave()),
        _ => {}
    }
}

/// Sends lines back, and says that no description became non-blocking.
async fn echo() -> io::Result<()> {
    let mut lines = stdin().lines();
    // A wait that is dropped again and again loses nothing.
    let mut number = 0;
    loop {
        let Ok(line) = timeout(Duration::from_micros(200), lines.next()).await else {
            continue;
        };
        let Some(line) = line? else { break };
        number += 1;
        stdout().write_all(format!("@{number} {line}\n")).await?;
    }
    let mut flags = 0;
    for descriptor in [
        io::stdin().as_raw_fd(),
        io::stdout().as_raw_fd(),
        io::stderr().as_raw_fd(),
    ] {
        // SAFETY: the descriptors are open; the call returns a number.
        flags |= unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    }
    stderr()
        .write_all(format!("blocking: {}\n", flags & libc::O_NONBLOCK == 0))
        .await
}

/// Ends while a read waits for input that never comes.
async fn leave() -> io::Result<()> {
    let read = spawn(async { stdin().read(&mut [0; 8]).await });
    sleep(Duration::from_millis(2)).await;
    drop(read);
    stdout().write_all("@left\n").await
}

/// The lines of a child, without those of the test harness.
fn own(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let own = text.lines().filter_map(|line| line.split_once('@'));
    own.map(|(_, line)| line.to_owned()).collect()
}

#[test]
fn lines_go_in_and_out() {
    run(async {
        let mut child = start("echo")?;
        let stdin = child.stdin.take().expect("piped");
        for piece in ["a\nb", "c\n\n", "last"] {
            stdin.write_all(piece.as_bytes()).await?;
            sleep(Duration::from_millis(1)).await;
        }
        drop(stdin);
        let output = child.wait_with_output().await?;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(own(&output.stdout), ["1 a", "2 bc", "3 ", "4 last"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains("blocking: true"), "{errors}");
        Ok(())
    });
}

/// The pipe stays open, and the child ends nevertheless.
#[test]
fn a_read_under_way_does_not_hold_up_the_end() {
    run(async {
        let mut child = start("leave")?;
        let stdin = child.stdin.take();
        let output = child.wait_with_output().await?;
        assert!(output.status.success(), "{output:?}");
        assert_eq!(own(&output.stdout), ["left"]);
        drop(stdin);
        Ok(())
    });
}
