//! Sockets beyond addresses: names, streams of connections, datagrams inside the machine.
#![cfg(feature = "net")]

use crate::inout::both_ways;
use futures_core::Stream;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use warpweft::net::{Incoming, TcpListener, TcpStream, UnixDatagram, UnixListener, UnixStream, lookup};
use warpweft::time::{sleep, timeout};
use warpweft::{Runtime, spawn};

const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 0);
const LONG: Duration = Duration::from_secs(60);

fn run(runtime: &Runtime, program: impl Future<Output = io::Result<()>>) {
    let ended = runtime.block_on(timeout(LONG, program));
    ended.expect("in time").expect("no error");
}

async fn next(incoming: &mut Incoming<'_>) -> io::Result<TcpStream> {
    let mut incoming = pin!(incoming);
    let next = poll_fn(|cx| incoming.as_mut().poll_next(cx)).await;
    next.expect("it never ends")
}

#[test]
fn a_name_is_looked_up_and_connected_to() {
    both_ways(|runtime| {
        run(runtime, async {
            let listener = TcpListener::bind(HERE)?;
            let address = listener.local_addr()?;
            let port = address.port();
            assert!(lookup(("localhost", port)).await?.contains(&address));
            let targets = [format!("localhost:{port}"), address.to_string()];
            for target in &targets {
                let stream = TcpStream::connect(target).await?;
                assert_eq!(stream.peer_addr()?, address, "{target}");
            }
            TcpStream::connect(("localhost", port)).await?;
            TcpStream::connect((String::from("127.0.0.1"), port)).await?;
            TcpStream::connect_timeout(targets[0].as_str(), LONG).await?;
            Ok(())
        });
    });
}

#[test]
fn of_several_addresses_the_first_that_answers_is_taken() {
    both_ways(|runtime| {
        run(runtime, async {
            let listener = TcpListener::bind(HERE)?;
            let deaf = TcpListener::bind(HERE)?.local_addr()?;
            let address = listener.local_addr()?;
            let stream = TcpStream::connect(&[deaf, address, deaf][..]).await?;
            assert_eq!(stream.peer_addr()?, address);
            let refused = TcpStream::connect(&[deaf, deaf][..]).await.expect_err("deaf");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            let none: &[SocketAddr] = &[];
            let error = TcpStream::connect(none).await.expect_err("nowhere");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            Ok(())
        });
    });
}

#[test]
fn a_target_that_is_none_says_what_would_be_right() {
    both_ways(|runtime| {
        run(runtime, async {
            let error = TcpStream::connect("localhost").await.expect_err("no port");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("host:port"), "{error}");
            // No host has a name with a space.
            assert!(lookup(("no such host", 80)).await.is_err());
            Ok(())
        });
    });
}

#[test]
fn connections_come_as_a_stream() {
    both_ways(|runtime| {
        run(runtime, async {
            const CLIENTS: usize = 40;
            let listener = TcpListener::bind(HERE)?;
            let address = listener.local_addr()?;
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    spawn(async move {
                        let stream = TcpStream::connect(address).await?;
                        let mut byte = [0];
                        stream.read_exact(&mut byte).await.map(|()| byte[0])
                    })
                })
                .collect();
            // Two streams of one listener: each connection goes to one of them.
            let (mut one, mut other) = (listener.incoming(), listener.incoming());
            for _ in 0..CLIENTS / 2 {
                for (incoming, byte) in [(&mut one, 1), (&mut other, 2)] {
                    let stream = next(incoming).await?;
                    stream.write_all(&[byte]).await?;
                }
            }
            let mut sum = 0;
            for client in clients {
                sum += usize::from(client.await.expect("no panic")?);
            }
            assert_eq!(sum, CLIENTS / 2 * 3);
            // No connection arrives, so it waits.
            let waits = timeout(Duration::from_millis(20), next(&mut one)).await;
            assert!(waits.is_err(), "{waits:?}");
            Ok(())
        });
    });
}

#[test]
fn datagrams_wait_for_room_and_for_each_other() {
    both_ways(|runtime| {
        run(runtime, async {
            const MANY: u32 = 3000;
            let (one, other) = UnixDatagram::pair()?;
            // Far more than the system buffers for a socket that does not receive.
            let sends = spawn(async move {
                for n in 0..MANY {
                    one.send(&n.to_le_bytes()).await?;
                }
                Ok::<_, io::Error>(one)
            });
            let mut buffer = [0; 8];
            for n in 0..MANY {
                assert_eq!(other.recv(&mut buffer).await?, 4);
                assert_eq!(buffer[..4], n.to_le_bytes());
            }
            let one = sends.await.expect("no panic")?;
            drop(other);
            let error = one.send(b"x").await.expect_err("it has gone");
            assert!(
                matches!(
                    error.kind(),
                    ErrorKind::ConnectionRefused | ErrorKind::NotConnected
                ),
                "{error}"
            );
            Ok(())
        });
    });
}

/// Returns a path that does not exist.
fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn datagrams_go_by_paths() {
    both_ways(|runtime| {
        run(runtime, async {
            let (here, there) = (path("here"), path("there"));
            let (receiver, sender) = (UnixDatagram::bind(&here)?, UnixDatagram::bind(&there)?);
            let mut buffer = [0; 4];
            assert_eq!(sender.send_to(b"first", &here).await?, 5);
            let (length, from) = receiver.recv_from(&mut buffer).await?;
            // Bytes that do not fit are lost.
            assert_eq!(
                (&buffer[..length], from.as_pathname()),
                (&b"firs"[..], Some(&*there))
            );
            assert_eq!(sender.local_addr()?.as_pathname(), Some(&*there));

            // What does not wait says that there is no room.
            let unbound = UnixDatagram::unbound()?;
            let full = loop {
                if let Err(error) = unbound.try_send_to(b"more", &here) {
                    break error;
                }
            };
            assert_eq!(full.kind(), ErrorKind::ResourceBusy);
            // With a connection it waits.
            unbound.connect(&here)?;
            let waits = spawn(async move { unbound.send(b"last").await });
            while receiver.recv(&mut buffer).await? == 4 && &buffer != b"last" {}
            assert_eq!(waits.await.expect("no panic")?, 4);

            drop(receiver);
            std::fs::remove_file(&here)?;
            assert_eq!(
                sender.send_to(b"x", &here).await.expect_err("gone").kind(),
                ErrorKind::NotFound
            );
            let gone = sender.try_send_to(b"x", &here).expect_err("gone").to_string();
            assert!(gone.contains(&format!("send to `{}`", here.display())), "{gone}");
            std::fs::remove_file(&there)
        });
    });
}

/// Without a connection the system does not report when there is room.
#[test]
fn datagrams_by_paths_wait_for_room() {
    both_ways(|runtime| {
        run(runtime, async {
            const SENDERS: u32 = 3;
            const MANY: u32 = 300;
            let (here, there) = (path("room"), path("elsewhere"));
            let (receiver, elsewhere) = (UnixDatagram::bind(&here)?, UnixDatagram::bind(&there)?);
            // Small ones fill the receiver's queue, large ones the sender's buffer.
            for length in [4, 50_000] {
                let sends: Vec<_> = (0..SENDERS)
                    .map(|sender| {
                        let (here, there) = (here.clone(), there.clone());
                        spawn(async move {
                            let socket = UnixDatagram::unbound()?;
                            // One is connected to another receiver.
                            if sender == 0 {
                                socket.connect(&there)?;
                            }
                            for n in 0..MANY {
                                let mut bytes = vec![0; length];
                                bytes[..4].copy_from_slice(&n.to_le_bytes());
                                socket.send_to(&bytes, &here).await?;
                            }
                            io::Result::Ok(())
                        })
                    })
                    .collect();
                let mut sum = 0;
                let mut buffer = vec![0; length];
                for _ in 0..SENDERS * MANY {
                    assert_eq!(receiver.recv(&mut buffer).await?, length);
                    sum += u32::from_le_bytes(buffer[..4].try_into().expect("four"));
                }
                assert_eq!(sum, SENDERS * MANY * (MANY - 1) / 2);
                for sent in sends {
                    sent.await.expect("no panic")?;
                }
            }
            // A socket that waits for room where it is connected to has room elsewhere.
            let full = path("full");
            let (_never, connected) = (UnixDatagram::bind(&full)?, UnixDatagram::unbound()?);
            connected.connect(&full)?;
            let connected = std::sync::Arc::new(connected);
            let fills = spawn({
                let connected = std::sync::Arc::clone(&connected);
                async move { while connected.send(b"more").await.is_ok() {} }
            });
            while connected.try_send_to(b"more", &full).is_ok() {
                warpweft::yield_now().await;
            }
            sleep(Duration::from_millis(2)).await;
            assert_eq!(connected.send_to(b"there", &there).await?, 5);
            fills.cancel();
            // A wait ends with its receiver.
            let waits = spawn({
                let here = here.clone();
                async move {
                    let socket = UnixDatagram::unbound()?;
                    loop {
                        socket.send_to(b"more", &here).await?;
                    }
                }
            });
            sleep(Duration::from_millis(5)).await;
            assert!(!waits.is_finished(), "there is no room");
            drop((receiver, elsewhere));
            let error: io::Result<()> = waits.await.expect("no panic");
            assert_eq!(
                error.expect_err("it has gone").kind(),
                ErrorKind::ConnectionRefused
            );
            std::fs::remove_file(&there)?;
            std::fs::remove_file(&here)
        });
    });
}

/// The system would end the path there, and take it for another one.
#[test]
fn a_path_with_a_null_byte_is_refused_by_all_verbs() {
    let runtime = Runtime::builder().workers(1).build().expect("a worker");
    runtime.block_on(async {
        for path in ["\0name", "name\0/other"] {
            let socket = UnixDatagram::unbound().expect("a socket");
            let errors = [
                UnixStream::connect(path).await.map(drop),
                UnixListener::bind(path).map(drop),
                UnixDatagram::bind(path).map(drop),
                socket.connect(path).map(drop),
            ];
            for error in errors {
                let error = error.expect_err("no such path");
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains("null byte"), "{error}");
            }
        }
    });
}
