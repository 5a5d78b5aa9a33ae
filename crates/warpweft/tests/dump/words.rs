//! What a dump calls the things that tasks wait for.

use super::{cycle, dump_with, named, runtime};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use warpweft::sync::{Barrier, Mutex, RwLock, broadcast, watch};
use warpweft::{Dump, scope_bounded};

#[track_caller]
fn count(dump: &Dump) -> usize {
    let own = dump.tasks.iter().filter(|task| task.pool.is_some());
    own.map(|task| task.waits.len()).sum()
}

/// A broadcast and a watch channel are told apart.
#[test]
fn channels_have_their_names() {
    let runtime = runtime(2);
    let (sender, mut receiver) = broadcast::channel::<u32>(4);
    let (changes, mut changed) = watch::channel(0_u32);
    let all = runtime.spawn(async move { receiver.recv().await.is_ok() });
    let last = runtime.spawn(async move { changed.changed().await.is_ok() });
    let dump = dump_with("both wait", &runtime, |dump| count(dump) == 2);
    let text = dump.to_string();
    assert!(
        text.contains("waits for a value of a broadcast channel"),
        "{text}"
    );
    assert!(
        text.contains("waits for a new value of a watch channel"),
        "{text}"
    );
    drop((sender, changes));
    all.wait().expect("no panic");
    last.wait().expect("no panic");
}

/// A reader that reads once more waits behind a writer, although there are permits for it.
#[test]
fn a_reader_behind_a_writer_says_so() {
    let runtime = ManuallyDrop::new(runtime(2));
    let (lock, has_read) = (Arc::new(RwLock::new(())), Arc::new(Barrier::new(2)));
    let (to_write, may_write) = (lock.clone(), has_read.clone());
    let waits = Arc::new(Barrier::new(2));
    let go = waits.clone();
    drop(named(&runtime, "reader").spawn(async move {
        let _first = lock.read().await;
        has_read.arrive().await;
        go.arrive().await;
        drop(lock.read().await);
    }));
    drop(named(&runtime, "writer").spawn(async move {
        may_write.arrive().await;
        drop(to_write.write().await);
    }));
    dump_with("the writer waits", &runtime, |dump| {
        dump.to_string().contains(", to write")
    });
    waits.arrive().wait();
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    let writer = dump
        .tasks
        .iter()
        .position(|task| task.name.as_deref() == Some("writer"));
    let writer = writer.expect("it waits");
    let text = dump.to_string();
    let behind = format!(", to read after #{writer}, which waits to write");
    assert!(text.contains(&behind), "{text}");
    assert!(
        text.contains("DEADLOCK: 1 task cannot go on, unless it is cancelled\n"),
        "{text}"
    );
    assert!(dump.to_json().contains(&format!("\"behind\":{writer}")), "{text}");
}

/// The body of a bounded scope has a lock that its jobs want: it waits for a place that they have.
#[test]
fn a_bounded_scope_under_a_lock_is_a_circle() {
    let runtime = ManuallyDrop::new(runtime(2));
    let lock = Arc::new(Mutex::new(()));
    drop(named(&runtime, "body").spawn_job(move || {
        let _guard = lock.lock().wait();
        let lock = &lock;
        let _ = scope_bounded(1, |scope| {
            for _ in 0..3 {
                scope.spawn(move || drop(lock.lock().wait()));
            }
        });
    }));
    let dump = dump_with("the circle", &runtime, |dump| cycle(dump).is_some());
    let names = cycle(&dump).expect("it was found");
    assert_eq!(names, ["", "body"], "{dump}");
    let text = dump.to_string();
    assert!(
        text.contains("a place in a bounded scope (capacity 1, all taken)"),
        "{text}"
    );
    // Another worker may take the job itself, or a job of the runtime that runs it.
    assert!(!text.contains("execution/wait.rs"), "{text}");
}

/// A task that waits for a connection, and one that waits for bytes, with the addresses of their sockets.
#[cfg(all(unix, feature = "net"))]
#[test]
fn sockets_have_their_addresses() {
    use warpweft::net::{TcpListener, TcpStream};
    use warpweft::{WaitDump, WaitsFor};

    let runtime = runtime(2);
    let (at, accepts) = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("it is bound");
        (at, listener)
    });
    let reads = runtime.spawn(async move {
        let (stream, _) = accepts.accept().await.expect("a connection");
        drop(accepts.accept().await);
        drop(stream);
    });
    let connects = runtime.spawn(async move {
        let stream = TcpStream::connect(at).await.expect("it listens");
        let mut byte = [0];
        drop(stream.read(&mut byte).await);
    });
    let dump = dump_with("both wait", &runtime, |dump| {
        let text = dump.to_string();
        text.contains(&format!("(listener at {at}) to be read"))
            && text.contains(&format!(" to {at}) to be read"))
    });
    assert!(
        dump.to_json()
            .contains(&format!("\"descriptor_name\":\"listener at {at}\"")),
        "{dump}"
    );
    let waits = || dump.tasks.iter().flat_map(|task| &task.waits);
    let is_socket = |wait: &&WaitDump| matches!(wait.on, WaitsFor::Socket { .. });
    assert!(
        waits().filter(is_socket).all(|wait| wait.since.is_some()),
        "{dump}"
    );
    assert!(reads.cancel());
    // It ends by itself, if the other one was first.
    let _ = connects.cancel();
}
