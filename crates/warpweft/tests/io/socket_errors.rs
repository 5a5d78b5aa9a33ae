//! Errors of sockets say which address or path they concern, and what is wrong with it.
#![cfg(all(target_os = "linux", feature = "net"))]

use crate::inout::both_ways;
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use warpweft::time::timeout;

const HERE: &str = "127.0.0.1:0";

/// The bytes that Linux allows for a path of a socket.
const LONGEST: usize = 107;

fn run(runtime: &Runtime, program: impl Future<Output = io::Result<()>>) {
    let ended = runtime.block_on(timeout(Duration::from_secs(60), program));
    ended.expect("in time").expect("no error");
}

/// Checks the kind of an error, and that its text has all of `parts`.
fn says(error: &io::Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(
        parts.iter().all(|&part| text.contains(part)),
        "{text} has not all of {parts:?}"
    );
}

/// Returns the number of the system's error below the names.
fn number(error: &io::Error) -> Option<i32> {
    let source = error.get_ref()?.source()?;
    source.downcast_ref::<io::Error>()?.raw_os_error()
}

/// Returns a path that does not exist.
fn path(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn a_connection_that_fails_names_the_address() {
    both_ways(|runtime| {
        run(runtime, async {
            let deaf = TcpListener::bind(HERE)?.local_addr()?;
            let refused = TcpStream::connect(deaf).await.expect_err("no listener");
            let parts = [&*format!("connect to {deaf}: ")];
            says(&refused, ErrorKind::ConnectionRefused, &parts);
            assert_eq!(number(&refused), Some(libc::ECONNREFUSED));
            let by_name = TcpStream::connect(("localhost", deaf.port())).await;
            let port = format!(":{}: ", deaf.port());
            says(
                &by_name.expect_err("no listener"),
                ErrorKind::ConnectionRefused,
                &[&port],
            );
            Ok(())
        });
    });
}

#[test]
fn a_datagram_that_is_not_sent_names_the_address() {
    both_ways(|runtime| {
        run(runtime, async {
            let socket = UdpSocket::bind(HERE)?;
            let error = socket.send_to(b"x", "[::1]:9").await.expect_err("version 6");
            says(
                &error,
                error.kind(),
                &["send to [::1]:9 of version 6 by a socket of version 4: "],
            );
            assert_eq!(number(&error), Some(libc::EAFNOSUPPORT));
            let error = socket.connect("[::1]:9").expect_err("version 6");
            says(&error, error.kind(), &["connect to [::1]:9: "]);
            for error in [
                socket.send(b"x").await.expect_err("no peer"),
                socket
                    .send_vectored(&[IoSlice::new(b"x")])
                    .await
                    .expect_err("no peer"),
            ] {
                says(&error, ErrorKind::NotConnected, &["`connect`", "`send_to`"]);
                assert_eq!(number(&error), Some(libc::EDESTADDRREQ));
            }
            let other = UdpSocket::bind(HERE)?;
            let address = other.local_addr()?.to_string();
            socket.connect(&address)?;
            let error = socket.send(&[0; 70_000]).await.expect_err("too long");
            says(&error, error.kind(), &["send to ", &address]);
            assert_eq!(number(&error), Some(libc::EMSGSIZE));
            Ok(())
        });
    });
}

#[test]
fn a_path_that_cannot_be_had_is_named() {
    both_ways(|runtime| {
        run(runtime, async {
            let used = path("used");
            let name = &*format!("`{}`", used.display());
            let missing = UnixStream::connect(&used).await.expect_err("no listener");
            says(&missing, ErrorKind::NotFound, &["connect to", name]);
            assert_eq!(number(&missing), Some(libc::ENOENT));
            drop(UnixListener::bind(&used)?);
            assert!(std::fs::metadata(&used)?.file_type().is_socket(), "it stays");
            for error in [
                UnixListener::bind(&used).expect_err("it exists"),
                UnixDatagram::bind(&used).expect_err("it exists"),
            ] {
                says(&error, ErrorKind::AddrInUse, &[name, "must be removed first"]);
                assert_eq!(number(&error), Some(libc::EADDRINUSE));
            }
            let refused = UnixStream::connect(&used).await.expect_err("it has ended");
            says(&refused, ErrorKind::ConnectionRefused, &["connect to", name]);
            let sender = UnixDatagram::unbound()?;
            let error = sender.connect(&used).expect_err("it has ended");
            says(&error, error.kind(), &["connect to", name]);
            std::fs::remove_file(&used)
        });
    });
}

#[test]
fn a_path_that_is_none_is_an_error_that_helps() {
    both_ways(|runtime| {
        run(runtime, async {
            let long = path(&"long".repeat(40));
            let length = long.as_os_str().len();
            let (name, length) = (format!("`{}`", long.display()), format!("has {length} bytes"));
            for error in [
                UnixListener::bind(&long).expect_err("too long"),
                UnixDatagram::bind(&long).expect_err("too long"),
                UnixStream::connect(&long).await.expect_err("too long"),
                UnixDatagram::unbound()?.connect(&long).expect_err("too long"),
            ] {
                says(&error, ErrorKind::InvalidInput, &[&name, &length, " at most"]);
            }
            for error in [
                UnixListener::bind("").expect_err("empty"),
                UnixDatagram::bind("").expect_err("empty"),
                UnixStream::connect("").await.expect_err("empty"),
                UnixDatagram::unbound()?.connect("").expect_err("empty"),
            ] {
                says(&error, ErrorKind::InvalidInput, &["an empty path"]);
            }
            // The longest path that fits.
            let folder = std::env::temp_dir();
            let rest = LONGEST - folder.as_os_str().len() - 1;
            let (fits, more) = (folder.join("l".repeat(rest)), folder.join("l".repeat(rest + 1)));
            let _ = std::fs::remove_file(&fits);
            UnixListener::bind(&fits)?;
            let error = UnixListener::bind(&more).expect_err("one too many");
            let most = format!("has {LONGEST} at most");
            says(&error, ErrorKind::InvalidInput, &[&most]);
            std::fs::remove_file(&fits)
        });
    });
}
