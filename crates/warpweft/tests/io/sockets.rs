//! Sockets: streams both ways, their halves and their ends, datagrams, and what peers do wrong.
#![cfg(feature = "net")]

use crate::inout::both_ways;
use futures_io::{AsyncRead as _, AsyncWrite as _};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use warpweft::io::Async;
use warpweft::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use warpweft::time::{sleep, timeout};
use warpweft::{JoinHandle, Runtime, block_on, spawn};

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const LONG: Duration = Duration::from_secs(60);

/// Echoes until the peer ends its half, then ends its own.
async fn echo(stream: TcpStream) -> io::Result<usize> {
    let mut buffer = [0; 512];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(total),
            read => stream.write_all(&buffer[..read]).await?,
        }
        total += 1;
    }
}

/// Accepts for ever, a task for each connection.
fn server() -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
    let listener = TcpListener::bind(HERE)?;
    let address = listener.local_addr()?;
    let accepting = spawn(async move {
        loop {
            let (stream, _) = listener.accept().await?;
            spawn(echo(stream)).detach();
        }
    });
    Ok((address, accepting))
}

async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(HERE)?;
    let connecting = spawn(TcpStream::connect(listener.local_addr()?));
    let (theirs, _) = listener.accept().await?;
    Ok((connecting.await.expect("no panic")?, theirs))
}

fn run(runtime: &Runtime, program: impl Future<Output = io::Result<()>>) {
    runtime
        .block_on(timeout(LONG, program))
        .expect("in time")
        .expect("no error");
}

#[test]
fn many_clients_are_echoed() {
    both_ways(|runtime| {
        run(runtime, async {
            let (address, accepting) = server()?;
            let clients: Vec<_> = (0..50_u8)
                .map(|number| {
                    spawn(async move {
                        let stream = TcpStream::connect(address).await?;
                        for round in 0..20 {
                            let sent = [number ^ round; 100];
                            stream.write_all(&sent).await?;
                            let mut got = [0; 100];
                            stream.read_exact(&mut got).await?;
                            assert_eq!(sent, got);
                        }
                        stream.shutdown(Shutdown::Write)?;
                        assert_eq!(stream.read(&mut [0; 8]).await?, 0);
                        io::Result::Ok(())
                    })
                })
                .collect();
            for client in clients {
                client.await.expect("no panic")?;
            }
            accepting.cancel();
            assert!(accepting.await.is_err());
            Ok(())
        });
    });
}

#[test]
fn more_than_the_buffers_hold_goes_through() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n ^ (n >> 9)) as u8).collect();
            let sent = bytes.clone();
            let (mut reading, mut writing) = here.into_split();
            let echoed = spawn(async move {
                let mut buffer = vec![0; 70_000];
                loop {
                    match there.read(&mut buffer).await? {
                        0 => return io::Result::Ok(()),
                        read => there.write_all(&buffer[..read]).await?,
                    }
                }
            });
            let sender = spawn(async move {
                futures_lite_write_all(&mut writing, &sent).await?;
                // Dropping the half ends it for the peer.
                drop(writing);
                io::Result::Ok(())
            });
            let mut got = Vec::new();
            let mut buffer = vec![0; 10_000];
            loop {
                match futures_lite_read(&mut reading, &mut buffer).await? {
                    0 => break,
                    read => got.extend_from_slice(&buffer[..read]),
                }
            }
            sender.await.expect("no panic")?;
            echoed.await.expect("no panic")?;
            assert!(got == bytes, "{} of {} bytes", got.len(), bytes.len());
            Ok(())
        });
    });
}

/// Through the traits, as other crates do it.
async fn futures_lite_read(
    stream: &mut (impl futures_io::AsyncRead + Unpin),
    buffer: &mut [u8],
) -> io::Result<usize> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_read(cx, buffer)).await
}

async fn futures_lite_write_all(
    stream: &mut (impl futures_io::AsyncWrite + Unpin),
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, bytes)).await?;
        bytes = &bytes[written..];
    }
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

#[test]
fn either_half_ends_alone() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            here.write_all(b"last words").await?;
            here.shutdown(Shutdown::Write)?;
            let mut got = [0; 10];
            there.read_exact(&mut got).await?;
            assert_eq!(&got, b"last words");
            assert_eq!(there.read(&mut got).await?, 0);
            // The other half goes on.
            there.write_all(b"answer").await?;
            let mut answer = [0; 6];
            here.read_exact(&mut answer).await?;
            assert_eq!(&answer, b"answer");
            let (reading, writing) = here.into_split();
            let (_other, wrong) = pair().await?.0.into_split();
            let back = reading.reunite(wrong).expect_err("not of the same stream");
            let whole = back.0.reunite(writing).expect("of the same stream");
            assert_eq!(whole.local_addr()?, there.peer_addr()?);
            drop(there);
            let error = whole.read_exact(&mut answer).await.expect_err("the end");
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
            Ok(())
        });
    });
}

#[test]
fn vectors_and_peeks() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            here.set_nodelay(true)?;
            let written = here
                .write_vectored(&[IoSlice::new(b"abc"), IoSlice::new(b"defg")])
                .await?;
            assert_eq!(written, 7);
            let mut seen = [0; 3];
            assert_eq!(there.peek(&mut seen).await?, 3);
            assert_eq!(&seen, b"abc");
            let (mut one, mut other) = ([0; 2], [0; 9]);
            let read = there
                .read_vectored(&mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)])
                .await?;
            assert_eq!((read, &one, &other[..5]), (7, b"ab", &b"cdefg"[..]));
            Ok(())
        });
    });
}

/// The system fills some of them at a time, and that is no sign that there is no more.
#[test]
fn more_buffers_than_the_system_takes() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            let sent: Vec<u8> = (0..3000_u32).map(|byte| byte as u8).collect();
            here.write_all(&sent).await?;
            let mut got = Vec::new();
            while got.len() < sent.len() {
                let mut bytes = vec![0; 2000];
                let mut buffers: Vec<_> = bytes.chunks_mut(1).map(IoSliceMut::new).collect();
                let read = there.read_vectored(&mut buffers).await?;
                got.extend_from_slice(&bytes[..read]);
            }
            assert!(got == sent);
            Ok(())
        });
    });
}

#[test]
fn a_read_without_room_does_not_wait() {
    both_ways(|runtime| {
        run(runtime, async {
            let (_here, mut there) = pair().await?;
            // Each knows then that there is nothing to read.
            let waits = timeout(Duration::from_millis(1), there.read(&mut [0])).await;
            assert!(waits.is_err());
            assert_eq!(there.read(&mut []).await?, 0);
            assert_eq!(there.read_vectored(&mut [IoSliceMut::new(&mut [])]).await?, 0);
            assert_eq!(there.peek(&mut []).await?, 0);
            let (_one, other) = std::os::unix::net::UnixStream::pair()?;
            let mut other = &Async::new(other)?;
            assert_eq!(
                poll_fn(|cx| Pin::new(&mut other).poll_read(cx, &mut [])).await?,
                0
            );
            let mut none = [IoSliceMut::new(&mut [])];
            let read = poll_fn(|cx| Pin::new(&mut other).poll_read_vectored(cx, &mut none));
            assert_eq!(read.await?, 0);
            assert_eq!(poll_fn(|cx| there.poll_read_uninit(cx, &mut [])).await?, 0);
            assert_eq!(
                poll_fn(|cx| Pin::new(&mut there).poll_read(cx, &mut [])).await?,
                0
            );
            Ok(())
        });
    });
}

#[test]
fn nobody_listens() {
    both_ways(|runtime| {
        run(runtime, async {
            let address = TcpListener::bind(HERE)?.local_addr()?;
            let error = TcpStream::connect(address).await.expect_err("it is gone");
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
            let error = UnixStream::connect("/nowhere/at/all")
                .await
                .expect_err("no such path");
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            Ok(())
        });
    });
}

#[test]
fn a_connection_that_nobody_answers_times_out() {
    both_ways(|runtime| {
        run(runtime, async {
            // A full backlog answers nothing.
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            socket.bind(&SocketAddr::from(HERE).into())?;
            socket.listen(0)?;
            let address = socket.local_addr()?.as_socket().expect("it is bound");
            let mut waiting = Vec::new();
            let error = loop {
                match TcpStream::connect_timeout(address, Duration::from_millis(50)).await {
                    Ok(stream) => waiting.push(stream),
                    Err(error) => break error,
                }
                assert!(waiting.len() < 100, "the backlog has an end");
            };
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
            assert!(
                error.to_string().contains(&format!("connect to {address}")),
                "{error}"
            );
            Ok(())
        });
    });
}

#[test]
fn a_peer_resets() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            let reader = spawn(async move { (here.read(&mut [0; 8]).await, here) });
            sleep(Duration::from_millis(5)).await;
            // To close with a linger of zero is to reset.
            socket2::SockRef::from(there.get_ref()).set_linger(Some(Duration::ZERO))?;
            drop(there);
            let (read, here) = reader.await.expect("no panic");
            assert_eq!(read.expect_err("reset").kind(), ErrorKind::ConnectionReset);
            let error = here.write_all(b"anybody?").await.expect_err("nobody");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
            Ok(())
        });
    });
}

#[test]
fn a_peer_trickles() {
    both_ways(|runtime| {
        run(runtime, async {
            let listener = TcpListener::bind(HERE)?;
            let address = listener.local_addr()?;
            let trickle = std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).expect("it listens");
                stream.set_nodelay(true).expect("an option");
                for byte in 0..60_u8 {
                    stream.write_all(&[byte]).expect("it reads");
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let (stream, _) = listener.accept().await?;
            let mut got = [0; 60];
            stream.read_exact(&mut got).await?;
            assert!(got.iter().copied().eq(0..60));
            assert_eq!(stream.read(&mut got).await?, 0);
            trickle.join().expect("no panic");
            Ok(())
        });
    });
}

/// A short read says that nothing is left, unless the end has been told of already: then the next read must
/// not wait for it.
#[test]
fn an_end_behind_a_short_read_is_seen() {
    both_ways(|runtime| {
        run(runtime, async {
            let (mine, theirs) = pair().await?;
            let mut buffer = [0; 64];
            for round in 0..50_u8 {
                theirs.write_all(&[round; 3]).await?;
                assert_eq!(mine.read(&mut buffer).await?, 3);
                assert_eq!(buffer[..3], [round; 3]);
            }
            // Bytes and end arrive together, and are told of together, before anybody reads.
            theirs.write_all(b"end").await?;
            theirs.shutdown(Shutdown::Write)?;
            sleep(Duration::from_millis(5)).await;
            assert_eq!(mine.read(&mut buffer).await?, 3);
            assert_eq!(mine.read(&mut buffer).await?, 0);
            assert_eq!(mine.read_vectored(&mut [IoSliceMut::new(&mut buffer)]).await?, 0);
            Ok(())
        });
    });
}

/// A read stops at urgent data although there is more behind them.
#[test]
fn what_stands_behind_urgent_data_is_read() {
    both_ways(|runtime| {
        run(runtime, async {
            let (mine, theirs) = pair().await?;
            theirs.write_all(b"abc").await?;
            let sent = socket2::SockRef::from(&theirs).send_out_of_band(b"!")?;
            assert_eq!(sent, 1);
            theirs.write_all(b"def").await?;
            sleep(Duration::from_millis(5)).await;
            let mut read = Vec::new();
            let mut buffer = [0; 64];
            while read.len() < 6 {
                let length = mine.read(&mut buffer).await?;
                read.extend_from_slice(&buffer[..length]);
            }
            assert_eq!(read, b"abcdef");
            Ok(())
        });
    });
}

#[test]
fn unix_streams() {
    both_ways(|runtime| {
        let path = std::env::temp_dir().join(format!("warpweft-{}-{:p}", std::process::id(), runtime));
        let _ = std::fs::remove_file(&path);
        run(runtime, async {
            let listener = UnixListener::bind(&path)?;
            let connecting = spawn(UnixStream::connect(path.clone()));
            let (theirs, _) = listener.accept().await?;
            let ours = connecting.await.expect("no panic")?;
            ours.write_all(b"over here").await?;
            let mut got = [0; 9];
            assert_eq!(theirs.peek(&mut got).await?, 9);
            theirs.read_exact(&mut got).await?;
            assert_eq!(&got, b"over here");
            let (one, other) = UnixStream::pair()?;
            drop(one);
            assert_eq!(other.read(&mut got).await?, 0);
            Ok(())
        });
        std::fs::remove_file(&path).expect("it was there");
    });
}

#[test]
fn two_tasks_receive_from_one_socket() {
    both_ways(|runtime| {
        run(runtime, async {
            let socket = Arc::new(UdpSocket::bind(HERE)?);
            let address = socket.local_addr()?;
            let received = Arc::new(AtomicUsize::new(0));
            let tasks: Vec<_> = (0..2)
                .map(|_| {
                    let (socket, received) = (Arc::clone(&socket), Arc::clone(&received));
                    spawn(async move {
                        let mut buffer = [0; 16];
                        while socket.recv_from(&mut buffer).await?.0 != 4 {
                            received.fetch_add(1, Ordering::Relaxed);
                        }
                        io::Result::Ok(())
                    })
                })
                .collect();
            let sender = UdpSocket::bind(HERE)?;
            sender.connect(address)?;
            for _ in 0..50 {
                sender.send(b"datagram").await?;
                sleep(Duration::from_micros(50)).await;
            }
            // One for each.
            for _ in &tasks {
                sender.send(b"stop").await?;
            }
            for task in tasks {
                task.await.expect("no panic")?;
            }
            assert_eq!(received.load(Ordering::Relaxed), 50);
            Ok(())
        });
    });
}

#[test]
fn direct_style_from_jobs() {
    both_ways(|runtime| {
        let (address, _accepting) = runtime.block_on(async { server() }).expect("a server");
        let jobs: Vec<_> = (0..4_u8)
            .map(|number| {
                runtime.spawn_job(move || {
                    let stream = block_on(TcpStream::connect(address))?;
                    for round in 0..5 {
                        block_on(stream.write_all(&[number, round]))?;
                        let mut got = [0; 2];
                        block_on(stream.read_exact(&mut got))?;
                        assert_eq!(got, [number, round]);
                    }
                    io::Result::Ok(())
                })
            })
            .collect();
        for job in jobs {
            job.wait().expect("no panic").expect("no error");
        }
    });
}

#[test]
fn without_spare_threads_too() {
    let runtime = Runtime::builder()
        .workers(1)
        .max_threads(1)
        .build()
        .expect("one worker");
    let job = runtime.spawn_job(|| {
        let start = Instant::now();
        block_on(sleep(Duration::from_millis(5)));
        start.elapsed()
    });
    assert!(job.wait().expect("no panic") >= Duration::from_millis(5));
}

#[test]
fn a_read_that_is_dropped_has_taken_nothing() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = pair().await?;
            let mut buffer = [0; 8];
            for round in 0..50_u8 {
                let limit = Duration::from_micros(u64::from(round) * 7);
                let read = timeout(limit, here.read(&mut buffer)).await;
                assert!(read.is_err(), "there is nothing to read");
            }
            there.write_all(b"whole").await?;
            here.read_exact(&mut buffer[..5]).await?;
            assert_eq!(&buffer[..5], b"whole");
            Ok(())
        });
    });
}

#[test]
fn descriptors_are_used_again() {
    both_ways(|runtime| {
        run(runtime, async {
            // Each new pair has the numbers of the last one, whose events may still be on their way.
            for round in 0..200_u8 {
                let (here, there) = UnixStream::pair()?;
                let reader = spawn(async move {
                    let mut byte = [0];
                    here.read_exact(&mut byte).await?;
                    io::Result::Ok(byte[0])
                });
                if round % 3 == 0 {
                    // Goes with its events.
                    let (one, other) = UnixStream::pair()?;
                    other.write_all(b"never read").await?;
                    drop((one, other));
                }
                there.write_all(&[round]).await?;
                assert_eq!(reader.await.expect("no panic")?, round);
            }
            Ok(())
        });
    });
}

#[test]
fn a_socket_outlives_its_runtime_and_says_so() {
    both_ways(|runtime| {
        let (here, there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        runtime.shutdown();
        let error = block_on(here.read(&mut [0; 4])).expect_err("nobody polls");
        assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        assert!(error.to_string().contains("shut down"), "{error}");
        let error = runtime
            .block_on(async { UnixStream::pair() })
            .expect_err("no more sockets");
        assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        // The system's socket is as good as ever.
        let (mut here, mut there) = (here.into_std(), there.into_std());
        there.write_all(b"hm").expect("room");
        let mut got = [0; 2];
        here.read_exact(&mut got).expect("two bytes");
        assert_eq!(&got, b"hm");
    });
}

#[test]
fn a_reader_outside_is_told_that_the_runtime_ends() {
    both_ways(|runtime| {
        let (here, _there) = runtime.block_on(async { UnixStream::pair() }).expect("a pair");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| block_on(here.read(&mut [0; 4])));
            std::thread::sleep(Duration::from_millis(5));
            runtime.shutdown();
            let error = reader.join().expect("no panic").expect_err("nobody polls");
            assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        });
    });
}

#[test]
fn a_file_cannot_be_waited_for() {
    both_ways(|runtime| {
        let file = std::fs::File::open("Cargo.toml").expect("this crate's");
        let error = runtime
            .block_on(async { Async::new(file) })
            .expect_err("always ready");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    });
}

/// A socket buffers nothing that could be flushed, so its end does not wait for room.
#[test]
fn a_full_socket_is_closed_at_once() {
    use futures_io::AsyncWrite;
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    runtime.block_on(async {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("descriptors");
        let one = Async::new(one).expect("a poller");
        let mut io = &one;
        let fill = poll_fn(|cx| {
            loop {
                std::task::ready!(Pin::new(&mut io).poll_write(cx, &[0; 4096]))?;
            }
        });
        let full: Result<io::Result<()>, _> = timeout(Duration::from_millis(5), fill).await;
        assert!(full.is_err(), "there is no room");
        let closed = timeout(LONG, poll_fn(|cx| Pin::new(&mut io).poll_close(cx))).await;
        closed.expect("it does not wait").expect("no error");
    });
}

#[test]
fn a_connection_that_its_peer_has_reset_is_closed_without_an_error() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    runtime.block_on(async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0)).expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("bound"))
            .await
            .expect("it listens");
        let (peer, _) = listener.accept().await.expect("it connects");
        stream.write_all(b"unread").await.expect("there is room");
        peer.peek(&mut [0]).await.expect("it comes");
        // What it has not read makes this a reset.
        drop(peer);
        let read = stream.read(&mut [0]).await.expect_err("it was reset");
        assert_eq!(read.kind(), ErrorKind::ConnectionReset);
        let close = poll_fn(|cx| Pin::new(&mut stream).poll_close(cx));
        close.await.expect("it is closed already");
    });
}
