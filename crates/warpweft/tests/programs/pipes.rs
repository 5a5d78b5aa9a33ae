//! What is written to a program, and what it writes.

use crate::everywhere::everywhere;
use futures_io::{AsyncRead, AsyncWrite};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::time::Duration;
use warpweft::process::{Command, Stdio};
use warpweft::time::timeout;
use warpweft::{Runtime, spawn};

fn run(runtime: &Runtime, program: impl Future<Output = io::Result<()>>) {
    let ended = runtime.block_on(timeout(Duration::from_secs(20), program));
    ended.expect("in time").expect("no error");
}

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("a worker")
}

fn cat() -> Command {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// More than both pipes hold, so neither side may wait for the other to finish.
#[test]
fn much_goes_through_a_program() {
    everywhere(|runtime| {
        run(runtime, async {
            let bytes: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[1]).collect();
            let mut child = cat().spawn()?;
            let stdin = child.stdin.take().expect("piped");
            let sent = bytes.clone();
            let writer = spawn(async move { stdin.write_all(&sent).await });
            let output = child.wait_with_output().await?;
            writer.await.expect("no panic")?;
            assert!(output.status.success());
            assert!(output.stdout == bytes, "{} bytes", output.stdout.len());
            Ok(())
        });
    });
}

/// Each pipe is full while the other one is read.
#[test]
fn output_and_errors_are_read_side_by_side() {
    run(&one(), async {
        let script = "head -c 100000 /dev/zero >&2; head -c 100000 /dev/zero; exit 5";
        let output = Command::new("sh").args(["-c", script]).output().await?;
        assert_eq!((output.stdout.len(), output.stderr.len()), (100_000, 100_000));
        assert_eq!(output.status.code(), Some(5));
        Ok(())
    });
}

/// The pipes of `output` are for that start alone: nobody would read them.
#[cfg(target_os = "linux")]
#[test]
fn a_start_after_output_has_the_output_of_this_process() {
    run(&one(), async {
        for stream in [1, 2] {
            let mut command = Command::new("sh");
            let script = format!("test \"$(readlink /proc/$$/fd/{stream})\" = \"$0\"");
            command.arg("-c").arg(script);
            command.arg(std::fs::read_link(format!("/proc/self/fd/{stream}"))?);
            assert!(command.status().await?.success());
            assert!(!command.output().await?.status.success(), "a pipe of its own");
            assert!(command.status().await?.success());
        }
        Ok(())
    });
}

#[test]
fn the_traits_read_write_and_close() {
    run(&one(), async {
        let mut child = cat().spawn()?;
        let (mut stdin, mut stdout) = (
            child.stdin.take().expect("piped"),
            child.stdout.take().expect("piped"),
        );
        let mut stdin = Pin::new(&mut stdin);
        let written = poll_fn(|cx| stdin.as_mut().poll_write(cx, b"hello")).await?;
        assert_eq!(written, 5);
        poll_fn(|cx| stdin.as_mut().poll_flush(cx)).await?;
        let mut buffer = [0; 8];
        let mut read = Pin::new(&mut stdout);
        let length = poll_fn(|cx| read.as_mut().poll_read(cx, &mut buffer)).await?;
        assert_eq!(&buffer[..length], b"hello");
        poll_fn(|cx| stdin.as_mut().poll_close(cx)).await?;
        let length = poll_fn(|cx| read.as_mut().poll_read(cx, &mut buffer)).await?;
        assert_eq!(length, 0, "the end");
        let error = poll_fn(|cx| stdin.as_mut().poll_write(cx, b"late")).await;
        assert_eq!(error.expect_err("closed").kind(), ErrorKind::BrokenPipe);
        assert!(child.wait().await?.success());
        Ok(())
    });
}

#[test]
fn a_program_that_reads_no_more_is_an_error() {
    run(&one(), async {
        let mut child = Command::new("true").stdin(Stdio::piped()).spawn()?;
        let stdin = child.stdin.take().expect("piped");
        child.wait().await?;
        let error = stdin.write_all(&[0; 100_000]).await.expect_err("it has ended");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        Ok(())
    });
}

/// The second program gets a pipe that blocks: `cat` would end with an error otherwise.
#[test]
fn the_output_of_one_is_the_input_of_another() {
    run(&one(), async {
        let mut first = cat().spawn()?;
        let stdin = first.stdin.take().expect("piped");
        let between = first.stdout.take().expect("piped").into_stdio()?;
        let mut second = Command::new("cat")
            .stdin(between)
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = second.stdout.take().expect("piped");
        // The second one waits for input before there is any.
        warpweft::time::sleep(Duration::from_millis(5)).await;
        stdin.write_all(b"through\nboth\n").await?;
        drop(stdin);
        let mut lines = lines.lines();
        assert_eq!(lines.next().await?.as_deref(), Some("through"));
        assert_eq!(lines.next().await?.as_deref(), Some("both"));
        assert_eq!(lines.next().await?, None);
        assert!(first.wait().await?.success() && second.wait().await?.success());
        Ok(())
    });
}

/// It would wait for ever: the input ends only when this process closes it.
#[test]
fn the_input_is_closed_before_the_wait() {
    run(&one(), async {
        let child = cat().spawn()?;
        assert!(child.wait_with_output().await?.status.success());
        let mut child = cat().spawn()?;
        assert!(child.wait().await?.success());
        Ok(())
    });
}

/// A caller that asks for the status alone has no end of the pipes.
#[test]
fn pipes_that_no_caller_has_do_not_hold_up_a_program() {
    let runtime = one();
    run(&runtime, async {
        let mut writes = Command::new("sh");
        writes.args(["-c", "head -c 200000 /dev/zero; exit 3"]);
        let ended = writes.stdout(Stdio::piped()).stderr(Stdio::piped()).status();
        assert_eq!(ended.await?.code(), Some(3));
        Ok(())
    });
}
