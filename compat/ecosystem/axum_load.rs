//! An axum server with its clients, in one program that ends: `cargo run --bin axum_load`, in
//! `compat/ecosystem`. It says neither its policy nor its workers, so that `warpweft try` can.

use axum::extract::Path;
use axum::{Router, routing::get};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use warpweft::{Runtime, net::TcpListener};
use warpweft_tokio::{BuilderExt as _, serve};

/// Requests of each client.
const REQUESTS: usize = 100;

async fn sum(Path(n): Path<u64>) -> String {
    let (a, b) = warpweft::join(|| (0..n).sum::<u64>(), || (n..2 * n).sum::<u64>());
    (a + b).to_string()
}

/// Asks on one connection, and counts the right answers.
fn client(address: SocketAddr) -> Result<usize, std::io::Error> {
    let mut stream = TcpStream::connect(address)?;
    for request in 1..=REQUESTS {
        let last = if request == REQUESTS {
            "Connection: close\r\n"
        } else {
            ""
        };
        write!(stream, "GET /sum/1000 HTTP/1.1\r\nHost: x\r\n{last}\r\n")?;
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers)?;
    Ok(answers.matches("1999000").count())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().name("web").tokio_context()?.build()?;
    let router = Router::new().route("/sum/{n}", get(sum));
    let (listener, address) = runtime.block_on(async {
        let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    })?;
    let server = runtime.spawn(async move { serve(listener, router).await });
    let clients: Vec<_> = (0..4).map(|_| thread::spawn(move || client(address))).collect();
    for client in clients {
        let answers = client.join().map_err(|_| "a client panicked")??;
        assert_eq!(answers, REQUESTS, "all requests are answered");
    }
    drop(server);
    Ok(())
}
