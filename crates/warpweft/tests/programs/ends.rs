//! How programs end, what is said of those that do not start, and that none stays a zombie.

use crate::eventually::eventually;
use crate::everywhere::everywhere;
use crate::in_time::in_time;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;
use warpweft::process::{Child, Command, Stdio};
use warpweft::time::timeout;
use warpweft::{Runtime, block_on, fiber, spawn, spawn_job};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(5);

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("a worker")
}

fn run(runtime: &Runtime, program: impl Future<Output = io::Result<()>>) {
    let ended = runtime.block_on(timeout(LONG, program));
    ended.expect("in time").expect("no error");
}

/// A program that lives until its input ends.
fn waits_for_input() -> io::Result<Child> {
    Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// There is no such process any more, and no zombie.
fn is_gone(id: u32) -> bool {
    let id = i32::try_from(id).expect("a number of a process");
    // SAFETY: signal 0 is none; the call only asks whether there is such a process.
    unsafe { libc::kill(id, 0) != 0 }
}

#[test]
fn a_program_ends_with_its_status() {
    everywhere(|runtime| {
        run(runtime, async {
            assert!(Command::new("true").status().await?.success());
            assert_eq!(shell("exit 7").status().await?.code(), Some(7));
            let mut child = shell("exit 8").spawn()?;
            assert_eq!(child.wait().await?.code(), Some(8));
            assert_eq!(child.wait().await?.code(), Some(8), "as often as it is asked");
            assert_eq!(child.try_wait()?.and_then(|status| status.code()), Some(8));
            child.kill()?;
            Ok(())
        });
    });
}

#[test]
fn all_kinds_of_tasks_wait() {
    let runtime = one();
    let wait = || async { shell("exit 4").status().await.map(|status| status.code()) };
    let outside = block_on(wait());
    run(&runtime, async {
        let ends = [
            spawn(wait()).await,
            spawn_job(move || block_on(wait())).await,
            fiber::spawn(move || fiber::wait(wait())).await,
        ];
        for end in ends {
            assert_eq!(end.expect("no panic")?, Some(4));
        }
        Ok(())
    });
    assert_eq!(outside.expect("the default runtime"), Some(4));
}

#[test]
fn many_programs_at_a_time() {
    let runtime = one();
    run(&runtime, async {
        let children: Vec<_> = (0..20)
            .map(|number| spawn(shell(&format!("exit {number}")).status()))
            .collect();
        for (number, child) in children.into_iter().enumerate() {
            let status = child.await.expect("no panic")?;
            assert_eq!(status.code(), i32::try_from(number).ok());
        }
        Ok(())
    });
}

#[test]
fn what_does_not_start_is_named() {
    run(&one(), async {
        let error = Command::new("no-such-program").status().await.expect_err("none");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        assert!(
            text.contains("`no-such-program`") && text.contains("PATH"),
            "{text}"
        );

        let error = Command::new("/no/such").output().await.expect_err("none");
        assert!(error.to_string().contains("start `/no/such`:"), "{error}");

        let error = Command::new("true")
            .current_dir("/no/folder")
            .spawn()
            .expect_err("none");
        let text = error.to_string();
        assert!(
            text.contains("start `true` in `/no/folder`, which is no folder: "),
            "{text}"
        );
        let error = Command::new("no-such-program")
            .current_dir("/")
            .spawn()
            .expect_err("none");
        let text = error.to_string();
        assert!(
            text.contains(
                "start `no-such-program`, which no folder of `PATH` has, or whose interpreter is missing: "
            ),
            "{text}"
        );
        let error = Command::new("true")
            .current_dir("/etc/passwd")
            .spawn()
            .expect_err("a file");
        let text = error.to_string();
        assert!(text.contains("`/etc/passwd`, which is no folder: "), "{text}");

        let error = Command::new("/etc/passwd").spawn().expect_err("it is no program");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("`/etc/passwd`"), "{error}");
        Ok(())
    });
}

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    everywhere(|runtime| {
        run(runtime, async {
            let mut child = waits_for_input()?;
            let stdin = child.stdin.take();
            for _ in 0..3 {
                assert!(timeout(SHORT, child.wait()).await.is_err());
            }
            assert_eq!(child.try_wait()?, None);
            drop(stdin);
            assert!(child.wait().await?.success());
            Ok(())
        });
    });
}

#[test]
fn a_program_is_killed() {
    run(&one(), async {
        let mut child = waits_for_input()?;
        let _open = child.stdin.take();
        child.kill()?;
        let status = child.wait().await?;
        assert_eq!((status.code(), status.signal()), (None, Some(9)));
        Ok(())
    });
}

#[test]
fn a_time_limit_ends_a_program_that_dies_with_its_handle() {
    run(&one(), async {
        let mut command = Command::new("sleep");
        command.arg("3600").kill_on_drop(true);
        let mut child = command.spawn()?;
        let id = child.id();
        assert!(timeout(SHORT, child.wait()).await.is_err());
        drop(child);
        eventually("the program is gone", || is_gone(id));
        let limited = timeout(SHORT, command.status()).await;
        assert!(limited.is_err());
        Ok(())
    });
}

/// The thread that drops them is in no task, so its row of ready operations is nowhere ended but here.
#[test]
fn many_programs_without_handles_are_reaped() {
    in_time(|| {
        let runtime = one();
        let ids = runtime.block_on(async {
            let mut ids = Vec::new();
            for _ in 0..300 {
                let child = waits_for_input().expect("it starts");
                ids.push(child.id());
            }
            ids
        });
        eventually("they are reaped", || ids.iter().all(|&id| is_gone(id)));
    });
}

/// Without its handle a program lives on. When it ends, no zombie stays.
#[test]
fn a_program_without_a_handle_is_reaped() {
    everywhere(|runtime| {
        let (id, stdin) = runtime.block_on(async {
            let mut child = waits_for_input().expect("it starts");
            (child.id(), child.stdin.take())
        });
        assert!(!is_gone(id), "its input is open");
        drop(stdin);
        eventually("the program was reaped", || is_gone(id));
    });
}

#[test]
fn a_program_that_ended_before_its_handle_is_reaped() {
    run(&one(), async {
        let child = Command::new("true").spawn()?;
        let id = child.id();
        let mut probe = Command::new("true").spawn()?;
        probe.wait().await?;
        drop(child);
        eventually("the program was reaped", || is_gone(id));
        Ok(())
    });
}

/// What outlives its runtime is reaped by the next start of a program.
#[test]
fn a_program_that_outlives_its_runtime_is_reaped_later() {
    let runtime = one();
    let (id, stdin) = runtime.block_on(async {
        let mut child = waits_for_input().expect("it starts");
        (child.id(), child.stdin.take())
    });
    drop(runtime);
    drop(stdin);
    let next = one();
    eventually("the program was reaped", || {
        next.block_on(async { Command::new("true").status().await })
            .expect("it starts");
        is_gone(id)
    });
}

#[test]
fn a_handle_that_outlives_its_runtime_says_so() {
    let runtime = one();
    let mut child = runtime.block_on(async { waits_for_input() }).expect("it starts");
    drop(runtime);
    let error = block_on(child.wait()).expect_err("no thread polls");
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    child.kill().expect("it is our child");
}

#[test]
fn a_child_that_is_gone_is_named() {
    run(&one(), async {
        let mut child = shell("exit 3").spawn()?;
        let number = i32::try_from(child.id()).expect("a number of a process");
        // SAFETY: it waits for this child, and stores no status.
        let reaped = unsafe { libc::waitpid(number, std::ptr::null_mut(), 0) };
        assert_eq!(reaped, number);
        let waited = child.wait().await.expect_err("it was reaped");
        for error in [waited, child.try_wait().expect_err("it was reaped")] {
            let text = error.to_string();
            assert!(
                text.contains(&format!("process {number}")) && text.contains("another part"),
                "{text}"
            );
        }
        Ok(())
    });
}

#[test]
fn what_std_has_is_passed_on() {
    let folder = std::env::temp_dir().canonicalize().expect("a folder");
    run(&one(), async {
        let mut command = shell("echo $A-$B-$C; pwd");
        command
            .env_clear()
            .env("A", "1")
            .envs([("B", "2"), ("C", "3")])
            .env_remove("C");
        command.current_dir(&folder);
        assert_eq!(command.as_std().get_program(), "sh");
        let output = command.output().await?;
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines[0], Path::new(lines[1])), ("1-2-", &*folder));

        let mut std = std::process::Command::new("sh");
        std.args(["-c", "kill -TERM $$"]);
        let status = Command::from(std).status().await?;
        assert_eq!(status.signal(), Some(15));
        Ok(())
    });
}
