//! HTTP by [hyper], and crates that need [tokio], inside Warpweft's tasks.
//!
//! # HTTP
//!
//! hyper needs four things of a runtime:
//!
//! | hyper wants | is |
//! |---|---|
//! | [`Executor`](hyper::rt::Executor) | [`WarpweftExecutor`]: tasks of the pool in which it is called |
//! | [`Timer`](hyper::rt::Timer) | [`WarpweftTimer`] |
//! | [`Read`](hyper::rt::Read), [`Write`](hyper::rt::Write) | [`Io`] around a [`TcpStream`](warpweft::net::TcpStream), or anything of `futures-io` |
//!
//! A server. The handler runs in the task of its connection, where it may [`join`](warpweft::join),
//! [`block_on`](warpweft::block_on) and lock as anywhere else in the pool. A panic in it ends only its
//! connection. `examples/server` has the whole server, with a graceful end, and `examples/client.rs` the
//! client.
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::{BodyExt as _, Empty, Full};
//! use hyper::service::service_fn;
//! use hyper::{Request, Response, body::Incoming, client, server};
//! use std::convert::Infallible;
//! use warpweft::net::{TcpListener, TcpStream};
//! use warpweft_tokio::{Io, WarpweftTimer};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! let runtime = warpweft::Runtime::builder().workers(2).build()?;
//! let body = runtime.block_on(async {
//!     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
//!     let address = listener.local_addr()?;
//!     warpweft::spawn(async move {
//!         while let Ok((stream, _peer)) = listener.accept().await {
//!             let connection = server::conn::http1::Builder::new()
//!                 .timer(WarpweftTimer::new())
//!                 .serve_connection(Io::vectored(stream), service_fn(hello));
//!             warpweft::spawn(connection).detach();
//!         }
//!     })
//!     .detach();
//!
//!     let stream = TcpStream::connect(address).await?;
//!     let (mut sender, connection) = client::conn::http1::handshake(Io::vectored(stream)).await?;
//!     warpweft::spawn(connection).detach();
//!     let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
//!     let response = sender.send_request(request).await?;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response.into_body().collect().await?.to_bytes())
//! }).map_err(|error| error.to_string())?;
//! assert_eq!(body, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Crates that need tokio
//!
//! They look for a tokio runtime on their thread, and panic if there is none.
//! [`in_tokio`](InTokioExt::in_tokio) provides one:
//!
//! ```
//! use std::time::Duration;
//! use warpweft_tokio::InTokioExt as _;
//!
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! runtime.block_on(async {
//!     // Outside of a context of tokio, this panics.
//!     async { tokio::time::sleep(Duration::from_millis(1)).await }.in_tokio()?.await;
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! See [`TokioContext`] for its costs and limits.

mod context;
mod from_tokio;
mod io;
#[cfg(feature = "serve")]
mod listener;
mod pool_context;
mod rt;
#[cfg(feature = "serve")]
mod serve;

pub use context::{InTokio, InTokioExt, TokioContext};
pub use from_tokio::FromTokio;
pub use io::Io;
#[cfg(feature = "serve")]
pub use listener::Listener;
pub use pool_context::BuilderExt;
pub use rt::{WarpweftExecutor, WarpweftSleep, WarpweftTimer};
#[cfg(feature = "serve")]
pub use serve::{Peer, Serve, ServeError, serve, serve_hyper};
