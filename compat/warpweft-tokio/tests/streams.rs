//! Streams of ours with tokio's traits, and streams of tokio with those of `futures-io`.

use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use warpweft::Runtime;
use warpweft::net::{TcpListener, TcpStream, UnixStream};
use warpweft_tokio::{FromTokio, Io};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("workers")
}

fn unix_pair() -> io::Result<(UnixStream, UnixStream)> {
    let (a, b) = std::os::unix::net::UnixStream::pair()?;
    Ok((UnixStream::from_std(a)?, UnixStream::from_std(b)?))
}

async fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    Ok((client, listener.accept().await?.0))
}

/// Bytes that differ at each place of a buffer.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n % 251) as u8).collect()
}

async fn echo<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(stream: T) -> io::Result<u64> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let copied = tokio::io::copy(&mut reader, &mut writer).await?;
    // The peer reads to the end, which it sees by this.
    writer.shutdown().await?;
    Ok(copied)
}

async fn round_trip<T>(client: T, server: T) -> io::Result<()>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let bytes = pattern(3 << 20);
    let server = warpweft::spawn(echo(server));
    let (mut reader, mut writer) = tokio::io::split(client);
    let sent = bytes.clone();
    let sender = warpweft::spawn(async move {
        let (head, tail) = sent.split_at(1000);
        let written = writer
            .write_vectored(&[IoSlice::new(head), IoSlice::new(tail)])
            .await?;
        writer.write_all(&sent[written..]).await?;
        writer.shutdown().await
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await?;
    assert!(back == bytes);
    sender.await.expect("no panic")?;
    assert_eq!(server.await.expect("no panic")?, bytes.len() as u64);
    Ok(())
}

#[test]
fn our_streams_have_the_traits_of_tokio() {
    for workers in [1, 2] {
        let trips = async {
            let (client, server) = tcp_pair().await?;
            round_trip(Io::socket(client), Io::socket(server)).await?;
            let (client, server) = tcp_pair().await?;
            round_trip(Io::new(client), Io::new(server)).await?;
            let (client, server) = unix_pair()?;
            round_trip(Io::socket(client), Io::socket(server)).await?;
            // Around tokio's own adapters, there and back.
            let (client, server) = unix_pair()?;
            let twice = |stream| Io::new(FromTokio::new(tokio::io::BufStream::new(Io::new(stream))));
            round_trip(twice(client), twice(server)).await
        };
        runtime(workers).block_on(trips).expect("no error");
    }
}

#[test]
fn the_halves_of_a_stream_have_them_too() {
    let trip = async {
        let (client, server) = tcp_pair().await?;
        let (reader, writer) = client.into_split();
        let server = warpweft::spawn(echo(Io::socket(server)));
        let mut writer = Io::vectored(writer);
        writer.write_all(b"warp\nweft\n").await?;
        writer.shutdown().await?;
        let mut lines = BufReader::new(Io::new(reader)).lines();
        assert_eq!(lines.next_line().await?.as_deref(), Some("warp"));
        assert_eq!(lines.next_line().await?.as_deref(), Some("weft"));
        assert_eq!(lines.next_line().await?, None);
        assert_eq!(server.await.expect("no panic")?, 10);
        io::Result::Ok(())
    };
    runtime(1).block_on(trip).expect("no error");
}

/// Reads once into a buffer of `room` bytes that has "warp" already, after a peer has sent `bytes`.
async fn read_once<T>(bytes: &[u8], room: usize, wrap: impl Fn(UnixStream) -> Io<T>) -> io::Result<Vec<u8>>
where
    Io<T>: tokio::io::AsyncRead + Unpin,
{
    let (client, server) = unix_pair()?;
    client.write_all(bytes).await?;
    let mut memory = vec![MaybeUninit::uninit(); room];
    let mut buffer = tokio::io::ReadBuf::uninit(&mut memory);
    buffer.put_slice(b"warp");
    let mut server = wrap(server);
    poll_fn(|cx| tokio::io::AsyncRead::poll_read(Pin::new(&mut server), cx, &mut buffer)).await?;
    let once = buffer.filled().to_vec();
    drop(client);
    // The end adds nothing.
    while buffer.remaining() > 0 {
        let before = buffer.filled().len();
        poll_fn(|cx| tokio::io::AsyncRead::poll_read(Pin::new(&mut server), cx, &mut buffer)).await?;
        if buffer.filled().len() == before {
            break;
        }
    }
    Ok(once)
}

/// A reader that brings what it has read already keeps it.
#[test]
fn a_read_is_appended_to_what_the_buffer_has() {
    let reads = async {
        assert_eq!(read_once(b"weft", 16, Io::new).await?, b"warpweft");
        assert_eq!(read_once(b"weft", 16, Io::socket).await?, b"warpweft");
        assert_eq!(read_once(b"weft", 6, Io::socket).await?, b"warpwe");
        io::Result::Ok(())
    };
    runtime(1).block_on(reads).expect("no error");
}

/// Memory that need not be zeroed is offered whole.
#[test]
fn a_socket_is_offered_the_whole_buffer() {
    let reads = async {
        let bytes = pattern(5000);
        assert_eq!(read_once(&bytes, 8192, Io::socket).await?[4..], bytes);
        assert!(read_once(&bytes, 8192, Io::new).await?.len() < 4 + bytes.len());
        io::Result::Ok(())
    };
    runtime(1).block_on(reads).expect("no error");
}

#[test]
fn streams_of_tokio_have_the_traits_of_futures_io() {
    let trip = async {
        let (client, server) = tokio::io::duplex(100);
        let mut client = FromTokio::new(client);
        let server = warpweft::spawn(echo(server));
        let bytes = pattern(80);
        let (head, tail) = bytes.split_at(30);
        let slices = [IoSlice::new(head), IoSlice::new(tail)];
        let written = poll_fn(|cx| Pin::new(&mut client).poll_write_vectored(cx, &slices)).await?;
        let rest = &bytes[written..];
        if !rest.is_empty() {
            let more = poll_fn(|cx| Pin::new(&mut client).poll_write(cx, rest)).await?;
            assert_eq!(more, rest.len());
        }
        poll_fn(|cx| Pin::new(&mut client).poll_flush(cx)).await?;
        poll_fn(|cx| Pin::new(&mut client).poll_close(cx)).await?;
        let mut back = Vec::new();
        loop {
            let mut part = [0; 7];
            match poll_fn(|cx| Pin::new(&mut client).poll_read(cx, &mut part)).await? {
                0 => break,
                read => back.extend_from_slice(&part[..read]),
            }
        }
        assert_eq!(back, bytes);
        assert_eq!(server.await.expect("no panic")?, 80);

        let mut lines = FromTokio::new(BufReader::new(&b"warp\nweft"[..]));
        let first = poll_fn(|cx| Pin::new(&mut lines).poll_fill_buf(cx).map_ok(<[u8]>::len)).await?;
        assert_eq!(first, 9);
        Pin::new(&mut lines).consume(5);
        assert_eq!(lines.into_inner().buffer(), b"weft");
        io::Result::Ok(())
    };
    runtime(2).block_on(trip).expect("no error");
}
