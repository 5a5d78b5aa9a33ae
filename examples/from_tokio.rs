//! The same program on tokio and on Warpweft, a server and its client: `cargo run --bin from_tokio`.

use std::io;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

mod before {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;

    pub(super) fn run() -> std::io::Result<usize> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let (sender, mut lengths) = mpsc::channel(1);
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await?;
                let mut text = [0; 5];
                stream.read_exact(&mut text).await?;
                sender.send(text.len()).await.map_err(std::io::Error::other)
            });
            let mut client = TcpStream::connect(address).await?;
            client.write_all(b"hello").await?;
            let length = tokio::time::timeout(super::LIMIT, lengths.recv()).await?;
            server.await??;
            Ok(length.unwrap_or(0))
        })
    }
}

mod after {
    use warpweft::net::{TcpListener, TcpStream};
    use warpweft::sync::channel;

    pub(super) fn run() -> std::io::Result<usize> {
        let builder = warpweft::Runtime::builder();
        let runtime = builder.workers(2).build().map_err(std::io::Error::other)?;
        runtime.block_on(async {
            let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
            let address = listener.local_addr()?;
            let (sender, lengths) = channel::bounded(1);
            let server = warpweft::spawn(async move {
                let (stream, _) = listener.accept().await?;
                let mut text = [0; 5];
                stream.read_exact(&mut text).await?;
                sender.send(text.len()).await.map_err(std::io::Error::other)
            });
            let client = TcpStream::connect(address).await?;
            client.write_all(b"hello").await?;
            let length = warpweft::time::timeout(super::LIMIT, lengths.recv()).await?;
            server
                .await
                .map_err(|error| std::io::Error::other(error.to_string()))??;
            Ok(length.unwrap_or(0))
        })
    }
}

fn main() -> io::Result<()> {
    println!(
        "tokio: {} bytes, Warpweft: {} bytes",
        before::run()?,
        after::run()?
    );
    Ok(())
}
