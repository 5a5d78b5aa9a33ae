//! An echo server that sends back what its clients send, until Ctrl-C.
//!
//! ```text
//! cargo run --release --bin echo_server -- 127.0.0.1:7000
//! cargo run --release --bin echo_client -- 127.0.0.1:7000 100 1000
//! ```

use futures_lite::future::or;
use std::io;
use std::time::Duration;
use warpweft::net::{TcpListener, TcpStream};
use warpweft::time::{sleep, timeout};
use warpweft::{Runtime, signal, spawn};

/// The server closes a connection that is silent for this long.
const PATIENCE: Duration = Duration::from_secs(60);

async fn serve(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 16 << 10];
    loop {
        match timeout(PATIENCE, stream.read(&mut buffer)).await?? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => spawn(async move {
                if let Err(error) = serve(stream).await {
                    eprintln!("{peer}: {error}");
                }
            })
            .detach(),
            Err(error) => {
                // If no descriptor is left, a client that leaves gives one back.
                eprintln!("accept: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = std::env::args().nth(1);
    let address = text.as_deref().unwrap_or("127.0.0.1:7000");
    let runtime = Runtime::builder().name("echo").build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address)?;
        println!("listening at {}; Ctrl-C ends", listener.local_addr()?);
        or(signal::ctrl_c(), accept(listener)).await
    })?;
    println!("{:#?}", runtime.counters().total());
    Ok(())
}
