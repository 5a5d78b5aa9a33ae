//! Files: what is written is read, by tasks of every kind, and what can go wrong says so.

use crate::everywhere::everywhere;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use warpweft::cancel::{self, CancelToken};
use warpweft::fs::{self, File};
use warpweft::sync::oneshot;
use warpweft::{Runtime, fiber, spawn, spawn_job};

/// A folder of its own for a test, gone afterwards.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn one() -> Runtime {
    Runtime::builder().workers(1).build().expect("threads")
}

#[test]
fn what_is_written_is_read() {
    let folder = Folder::new("written");
    everywhere(|runtime| {
        runtime
            .block_on(async {
                let inner = folder.0.join("a/b");
                fs::create_dir_all(&inner).await?;
                let (first, second) = (inner.join("first"), inner.join("second"));
                fs::write(&first, "text").await?;
                fs::write(&first, vec![b'n', b'e', b'w']).await?;
                fs::rename(&first, &second).await?;
                assert_eq!(fs::read(&second).await?, b"new");
                assert_eq!(fs::read_to_string(&second).await?, "new");
                assert!(fs::metadata(&inner).await?.is_dir());
                fs::remove_file(&second).await?;
                let gone = fs::metadata(&second).await.expect_err("it was removed");
                assert_eq!(gone.kind(), ErrorKind::NotFound);
                Ok::<_, std::io::Error>(())
            })
            .expect("a disk");
    });
}

#[test]
fn many_tasks_use_one_file() {
    let folder = Folder::new("many");
    everywhere(|runtime| {
        let path = folder.0.join("shared");
        let read = runtime
            .block_on(async {
                let file = File::create(&path).await?;
                let writers: Vec<_> = (0..20_u8)
                    .map(|n| {
                        let file = file.clone();
                        spawn(async move { file.write_at(100 * u64::from(n), vec![n; 100]).await })
                    })
                    .collect();
                for writer in writers {
                    writer.await.expect("no panic")?;
                }
                file.sync_all().await?;
                assert_eq!(file.metadata().await?.len(), 2000);
                file.set_len(2500).await?;
                fs::read(&path).await
            })
            .expect("a disk");
        let expected: Vec<u8> = (0..2500)
            .map(|at| if at < 2000 { (at / 100) as u8 } else { 0 })
            .collect();
        assert_eq!(read, expected);
    });
}

#[test]
fn a_read_is_as_long_as_it_can_be_and_no_longer() {
    let folder = Folder::new("long");
    let path = folder.0.join("numbers");
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    one()
        .block_on(async {
            fs::write(&path, &bytes[..]).await?;
            let file = File::open(&path).await?;
            for (offset, length) in [
                (0, 0),
                (0, 20_000),
                (5, 9000),
                (19_990, 100),
                (20_000, 7),
                (1 << 40, 7),
            ] {
                let read = file.read_at(offset as u64, length).await?;
                let from = offset.min(bytes.len());
                assert_eq!(
                    read,
                    bytes[from..(from + length).min(bytes.len())],
                    "{length} from {offset}"
                );
            }
            // Nobody has so much memory.
            assert_eq!(file.read_at(10, usize::MAX).await?.len(), 19_990);
            // What says that it has no length.
            let status = File::open("/proc/self/maps").await?;
            let maps = status.read_at(0, 1 << 20).await?;
            assert!(maps.len() > 4096 || maps.ends_with(b"\n"), "{} bytes", maps.len());
            let refused = file.write_at(0, "x").await.expect_err("it is open to read");
            assert_eq!(refused.raw_os_error(), Some(libc::EBADF));
            Ok::<_, std::io::Error>(())
        })
        .expect("a disk");
}

#[test]
fn jobs_and_fibers_wait_in_direct_style() {
    let folder = Folder::new("direct");
    everywhere(|runtime| {
        let path = folder.0.join("direct");
        let in_fiber = path.clone();
        let writes = runtime.spawn_fiber(move || fiber::wait(fs::write(in_fiber, "fiber")));
        writes.wait().expect("no panic").expect("a disk");
        let reads = runtime.spawn_job(move || {
            let inner = spawn_job(|| 1).wait().expect("no panic");
            (inner, warpweft::block_on(fs::read_to_string(path)))
        });
        let (inner, text) = reads.wait().expect("no panic");
        assert_eq!((inner, text.expect("a disk").as_str()), (1, "fiber"));
    });
}

#[test]
fn other_tasks_go_on_while_one_waits_for_a_file() {
    let runtime = one();
    let (tell, told) = mpsc::channel::<u32>();
    // A pipe that nobody writes to, in the place of a slow disk.
    let waits = runtime.spawn(fs::call(move || Ok(told.recv().unwrap_or(0))));
    let other = runtime.spawn(async { 2 });
    assert_eq!(other.wait().expect("no panic"), 2);
    assert!(!waits.is_finished());
    tell.send(3).expect("it waits");
    assert_eq!(waits.wait().expect("no panic").expect("no error"), 3);
}

#[test]
fn errors_panics_and_the_end_arrive() {
    let runtime = one();
    let not_utf8 = Folder::new("utf8");
    let path = not_utf8.0.join("bytes");
    std::fs::write(&path, [0xFF, 0xFE]).expect("a disk");
    let error = runtime.block_on(fs::read_to_string(&path)).expect_err("no text");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let error = runtime
        .block_on(File::open(not_utf8.0.join("none")))
        .expect_err("not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);

    let panics = runtime.spawn(fs::call(|| -> std::io::Result<()> { panic!("on a disk") }));
    let panic = panics.wait().expect_err("it panics").to_string();
    assert!(panic.contains("on a disk"), "{panic}");

    // A call whose future has gone goes on.
    let (tell, told) = mpsc::channel();
    runtime.block_on(async {
        let mut call = pin!(fs::call(move || Ok(tell.send(()).is_ok())));
        poll_fn(|cx| {
            let _ = call.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    });
    told.recv().expect("it was called all the same");

    runtime.shutdown();
    let error = runtime.block_on(fs::read(&path)).expect_err("it has shut down");
    assert_eq!(error.kind(), ErrorKind::NotConnected);

    let without = Runtime::builder().workers(1).max_blocking_threads(0).build();
    let error = without
        .expect("a thread")
        .block_on(fs::read(&path))
        .expect_err("no thread");
    assert!(error.to_string().contains("thread"), "{error}");
}

/// In the grace of its token, after the cancellation.
#[test]
fn a_future_that_says_goodbye_may_use_files() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    let token = CancelToken::new();
    let (begins, begun) = oneshot::channel();
    let session = token.run(|| {
        runtime.spawn(async move {
            let token = cancel::current().expect("it is spawned under one");
            let _ = begins.send(());
            token.cancelled().await;
            fs::metadata(".").await.map(|about| about.is_dir())
        })
    });
    begun.wait().expect("it begins");
    token.cancel();
    let session = session.expect("not cancelled yet").wait();
    assert!(matches!(session, Ok(Ok(true))), "{session:?}");
}
