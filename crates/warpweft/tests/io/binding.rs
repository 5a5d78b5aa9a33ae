//! Where sockets are bound: texts, names, lists of addresses, options; and the verbs that all kinds have.
#![cfg(feature = "net")]

use crate::inout::both_ways;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;
use warpweft::net::{
    Incoming, SocketOptions, TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream,
};
use warpweft::time::timeout;
use warpweft::{Runtime, spawn_job};

const HERE: &str = "127.0.0.1:0";
const LONG: Duration = Duration::from_secs(60);

fn run(program: impl Future<Output = io::Result<()>>) {
    let runtime = Runtime::builder().workers(1).build().expect("workers");
    let ended = runtime.block_on(timeout(LONG, program));
    ended.expect("in time").expect("no error");
}

#[test]
fn all_forms_of_an_address_are_bound() {
    both_ways(|runtime| {
        let bound = runtime.block_on(async {
            // The name is looked up in place, on the only worker.
            let name = TcpListener::bind("localhost:0")?;
            assert!(name.local_addr()?.ip().is_loopback());
            let pair = TcpListener::bind(("localhost", 0))?;
            assert!(pair.local_addr()?.ip().is_loopback());
            for listener in [
                TcpListener::bind(HERE)?,
                TcpListener::bind(String::from(HERE))?,
                TcpListener::bind(([127, 0, 0, 1], 0))?,
                TcpListener::bind(("127.0.0.1", 0))?,
            ] {
                assert!(listener.local_addr()?.is_ipv4());
            }
            UdpSocket::bind("localhost:0").map(drop)
        });
        bound.expect("all can be had");
    });
}

#[test]
fn a_job_and_a_fiber_bind_a_name() {
    let runtime = Runtime::builder().workers(1).build().expect("workers");
    let job = runtime.spawn_job(|| TcpListener::bind("localhost:0").map(drop));
    job.wait().expect("no panic").expect("bound");
    let fiber = runtime.spawn_fiber(|| TcpListener::bind("localhost:0").map(drop));
    fiber.wait().expect("no panic").expect("bound");
}

#[test]
fn of_several_addresses_the_first_that_is_free_is_bound() {
    run(async {
        let taken = TcpListener::bind(HERE)?;
        let taken = (taken.local_addr()?, taken);
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = TcpListener::bind([taken.0, free])?;
        assert_ne!(listener.local_addr()?, taken.0);
        let error = TcpListener::bind(taken.0).expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&taken.0.to_string()), "{error}");
        let none: Vec<SocketAddr> = Vec::new();
        let error = UdpSocket::bind(none).expect_err("nowhere");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        Ok(())
    });
}

#[test]
fn what_is_no_address_is_an_error_that_helps() {
    run(async {
        let tcp = TcpListener::bind("localhost").expect_err("no port");
        let udp = UdpSocket::bind("localhost").expect_err("no port");
        let socket = UdpSocket::bind(HERE)?;
        let connected = socket.connect("localhost").expect_err("no port");
        let sent = socket.send_to(b"x", "localhost").await.expect_err("no port");
        for error in [tcp, udp, connected, sent] {
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("`localhost`") && text.contains("no port"), "{text}");
        }
        Ok(())
    });
}

#[test]
fn datagrams_go_to_names() {
    run(async {
        let (one, other) = (UdpSocket::bind(HERE)?, UdpSocket::bind(HERE)?);
        let port = other.local_addr()?.port();
        // Of the addresses of the name, the one of this socket's family is taken.
        assert_eq!(one.try_send_to(b"zeroth", ("localhost", port))?, 6);
        let mut buffer = [0; 16];
        assert_eq!(other.recv(&mut buffer).await?, 6);
        one.send_to(b"first", ("localhost", port)).await?;
        one.connect(format!("127.0.0.1:{port}"))?;
        assert_eq!(one.peer_addr()?, other.local_addr()?);
        one.send_vectored(&[IoSlice::new(b"sec"), IoSlice::new(b"ond")])
            .await?;
        assert_eq!(other.peek(&mut buffer).await?, 5);
        assert_eq!(other.recv(&mut buffer).await?, 5);
        let length = other.recv(&mut buffer).await?;
        assert_eq!(&buffer[..length], b"second");
        let error = other.peer_addr().expect_err("it is not connected");
        assert_eq!(error.kind(), ErrorKind::NotConnected);
        Ok(())
    });
}

/// A list as of a name with addresses of both versions.
#[test]
fn datagrams_go_to_the_version_of_their_socket() {
    run(async {
        let (one, other) = (UdpSocket::bind(HERE)?, UdpSocket::bind(HERE)?);
        let six: SocketAddr = ([0, 0, 0, 0, 0, 0, 0, 1], 9).into();
        one.send_to(b"fits", [six, other.local_addr()?]).await?;
        let mut buffer = [0; 16];
        assert_eq!(other.recv(&mut buffer).await?, 4);
        Ok(())
    });
}

#[test]
fn options_are_set_and_inherited() {
    run(async {
        let options = SocketOptions::new()
            .nodelay(true)
            .keepalive(Duration::from_secs(30))
            .ttl(9)
            .backlog(7)
            .send_buffer(40_000)
            .recv_buffer(50_000);
        let listener = options.listen(HERE)?;
        let client = options.connect(listener.local_addr()?).await?;
        let (served, _) = listener.accept().await?;
        for stream in [&client, &served] {
            let socket = socket2::SockRef::from(stream.get_ref());
            assert!(stream.get_ref().nodelay()?);
            assert!(socket.keepalive()?);
            assert_eq!(stream.get_ref().ttl()?, 9);
        }
        let socket = socket2::SockRef::from(client.get_ref());
        assert!((40_000..=80_000).contains(&socket.send_buffer_size()?));
        assert!((50_000..=100_000).contains(&socket.recv_buffer_size()?));
        Ok(())
    });
}

#[test]
fn a_port_is_shared_if_both_ask() {
    run(async {
        let shared = SocketOptions::new().reuse_port(true);
        let one = shared.listen(HERE)?;
        let address = one.local_addr()?;
        drop(shared.listen(address)?);
        let error = TcpListener::bind(address).expect_err("it does not share");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let one = shared.bind_udp(HERE)?;
        drop(shared.bind_udp(one.local_addr()?)?);
        Ok(())
    });
}

#[test]
fn a_socket_of_version_6_refuses_version_4() {
    run(async {
        // Some machines have no IPv6.
        let Ok(both) = SocketOptions::new().only_v6(false).listen("[::]:0") else {
            return Ok(());
        };
        let port = both.local_addr()?.port();
        TcpStream::connect(("127.0.0.1", port)).await?;
        let only = SocketOptions::new().only_v6(true).listen("[::]:0")?;
        let port = only.local_addr()?.port();
        let error = TcpStream::connect(("127.0.0.1", port))
            .await
            .expect_err("version 4");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        Ok(())
    });
}

#[test]
fn a_listener_of_this_machine_has_the_verbs_of_tcp() {
    let path = std::env::temp_dir().join(format!("warpweft-verbs-{}", std::process::id()));
    run(async {
        let listener = UnixListener::bind(&path)?;
        let client = UnixStream::connect(&path).await?;
        let mut incoming: Incoming<'_, UnixListener> = listener.incoming();
        let next = poll_fn(|cx| futures_core::Stream::poll_next(std::pin::Pin::new(&mut incoming), cx));
        let served = next.await.expect("it never ends")?;
        assert_eq!(served.local_addr()?.as_pathname(), Some(&*path));
        assert_eq!(client.peer_addr()?.as_pathname(), Some(&*path));
        #[cfg(target_os = "linux")]
        {
            let cred = served.peer_cred()?;
            assert_eq!(cred.pid, std::process::id());
            let own = std::fs::metadata("/proc/self")?;
            assert_eq!(cred.uid, std::os::unix::fs::MetadataExt::uid(&own));
        }
        // There and back.
        let listener = UnixListener::try_from(listener.into_std())?;
        let client = UnixStream::try_from(client.into_std())?;
        client.write_all(b"still").await?;
        let mut text = [0; 5];
        served.read_exact(&mut text).await?;
        drop(listener);
        Ok(())
    });
    std::fs::remove_file(&path).expect("its file stays");
}

#[test]
fn datagrams_of_this_machine_have_the_verbs_of_udp() {
    run(async {
        let (one, other) = UnixDatagram::pair()?;
        one.send_vectored(&[IoSlice::new(b"to"), IoSlice::new(b"gether")])
            .await?;
        let mut buffer = [0; 16];
        assert_eq!(other.peek(&mut buffer).await?, 8);
        let (length, sender) = other.peek_from(&mut buffer).await?;
        assert!(length == 8 && sender.is_unnamed(), "{sender:?}");
        assert_eq!(other.recv(&mut buffer).await?, 8);
        assert_eq!(&buffer[..8], b"together");
        assert!(one.peer_addr()?.is_unnamed());
        let one = UnixDatagram::try_from(one.into_std())?;
        other.shutdown(Shutdown::Read)?;
        let error = one.send(b"late").await.expect_err("it ended");
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);

        let path = std::env::temp_dir().join(format!("warpweft-peeked-{}", std::process::id()));
        let named = UnixDatagram::bind(&path)?;
        named.send_to(b"itself", &path).await?;
        let (length, sender) = named.peek_from(&mut buffer).await?;
        assert_eq!((length, sender.as_pathname()), (6, Some(&*path)));
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt as _;
            let name = std::os::unix::net::SocketAddr::from_abstract_name(format!("{}", std::process::id()))?;
            let hidden = std::os::unix::net::UnixDatagram::bind_addr(&name)?;
            hidden.send_to(b"hidden", &path)?;
            named.recv(&mut buffer).await?;
            let (_, sender) = named.peek_from(&mut buffer).await?;
            assert_eq!(sender.as_abstract_name(), name.as_abstract_name());
        }
        std::fs::remove_file(&path)
    });
}

/// A closure binds and sends as a future does.
#[test]
fn direct_style_binds_too() {
    let runtime = Runtime::builder().workers(1).build().expect("workers");
    let sent = runtime.block_on(async {
        spawn_job(|| {
            let (one, other) = (UdpSocket::bind(HERE)?, UdpSocket::bind(HERE)?);
            let other = (other.local_addr()?, other);
            warpweft::block_on(one.send_to(b"direct", other.0.to_string()))
        })
        .await
    });
    assert_eq!(sent.expect("no panic").expect("sent"), 6);
}

#[test]
fn a_silence_is_whole_seconds_that_the_system_takes() {
    run(async {
        let listener = TcpListener::bind(HERE)?;
        for silence in [Duration::ZERO, Duration::from_millis(500), Duration::MAX] {
            let options = SocketOptions::new().keepalive(silence);
            options.connect(listener.local_addr()?).await?;
        }
        Ok(())
    });
}
