//! An axum server whose handlers compute on all workers and use a timer of tokio. It ends gracefully at
//! Ctrl-C: `cargo run --release --bin axum_server -- 127.0.0.1:7080`, in `compat/ecosystem`.

use axum::extract::Path;
use axum::{Router, routing::get};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use warpweft::{Runtime, net::TcpListener, signal};
use warpweft_tokio::{BuilderExt as _, serve};

/// Computes on all workers, beside other requests.
async fn sum(Path(n): Path<u32>) -> String {
    fn sum(from: u64, to: u64) -> u64 {
        if to - from < 1 << 14 {
            return (from..to).sum();
        }
        let middle = from.midpoint(to);
        let (left, right) = warpweft::join(|| sum(from, middle), || sum(middle, to));
        left + right
    }
    format!("{}\n", sum(0, u64::from(n) + 1))
}

/// What crates do that are made for tokio.
async fn wait(Path(milliseconds): Path<u64>) -> String {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    format!("{milliseconds} ms\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1);
    let address: SocketAddr = text.as_deref().unwrap_or("127.0.0.1:7080").parse()?;
    let runtime = Runtime::builder().name("web").tokio_context()?.build()?;
    let router = Router::new()
        .route("/", get(|| async { "Hello, World!" }))
        .route("/sum/{n}", get(sum))
        .route("/wait/{milliseconds}", get(wait));
    runtime.block_on(async {
        let listener = TcpListener::bind(address)?;
        println!("listening at http://{}; Ctrl-C ends", listener.local_addr()?);
        serve(listener, router)
            .on_error(|error| eprintln!("{error}"))
            .with_graceful_shutdown(async {
                // If there is no signal to be had, the server ends at once.
                let _ = signal::ctrl_c().await;
            })
            .await
    })?;
    println!("all requests are answered");
    Ok(())
}
