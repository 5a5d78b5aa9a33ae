//! HTTP by [hyper], and the crates of [tokio]'s ecosystem, on Warpweft's workers.
//!
//! | you use | you write |
//! |---|---|
//! | axum, tonic, tower services | [`serve`]`(listener, router).await`, on a pool with a context |
//! | hyper's services | [`serve_hyper`]`(listener, service_fn(handler)).await` |
//! | reqwest, sqlx, redis, tokio's sockets and timers |
//! [`Runtime::builder().tokio_context()?`](BuilderExt::tokio_context), then nothing more |
//! | one of these for one future only | `future.`[`in_tokio`](InTokioExt::in_tokio)`()?.await` |
//! | `axum::serve`, tonic's `Server`, `tokio::spawn` | the same as on tokio, on a pool with a context: they
//! take turns on its workers |
//! | tokio-util's codecs, TLS crates for tokio | [`Io`]`::vectored(stream)` around a stream of ours |
//! | crates for `futures-io` with streams of tokio | [`FromTokio`]`::new(stream)` |
//! | hyper's connections yourself | [`Io`], [`WarpweftExecutor`], [`WarpweftTimer`] |
//! | tokio's channels, locks, `select!`, `join!` | the same as on tokio; no context is needed |
//!
//! # Crates that need tokio
//!
//! They look for a runtime of tokio on their thread. Without one they panic:
//!
//! ```text
//! there is no reactor running, must be called from the context of a Tokio 1.x runtime
//! ```
//!
//! [`tokio_context`](BuilderExt::tokio_context) puts all threads of a pool into a context. Child tasks
//! inherit it, and tasks of `tokio::spawn` run on the pool's workers:
//!
//! ```
//! use std::time::Duration;
//! use warpweft_tokio::BuilderExt as _;
//!
//! let runtime = warpweft::Runtime::builder().workers(2).tokio_context()?.build()?;
//! runtime.block_on(async {
//!     let child = warpweft::spawn(async { tokio::time::sleep(Duration::from_millis(1)).await });
//!     child.await
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! For one future, on any pool, there is [`in_tokio`](InTokioExt::in_tokio). Its context is a thread that the
//! whole process shares, and child tasks do not inherit it:
//!
//! ```
//! use std::time::Duration;
//! use warpweft_tokio::InTokioExt as _;
//!
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! runtime.block_on(async {
//!     async { tokio::time::sleep(Duration::from_millis(1)).await }.in_tokio()?.await;
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The documentation of both says what they cost, and where their limits are.
//!
//! # Servers
//!
//! [`serve`] accepts connections, and makes each a task of the pool. So handlers run on all workers, and may
//! [`join`](warpweft::join), [`block_on`](warpweft::block_on) and lock. A panic in one ends only its
//! connection. `compat/ecosystem/axum_server.rs` is a whole program with axum. [`Serve::admission`] refuses
//! requests that would be answered too late.
//!
//! # hyper by hand
//!
//! hyper needs four things of a runtime:
//!
//! | hyper wants | is |
//! |---|---|
//! | [`Executor`](hyper::rt::Executor) | [`WarpweftExecutor`]: tasks of the pool in which it is called |
//! | [`Timer`](hyper::rt::Timer) | [`WarpweftTimer`] |
//! | [`Read`](hyper::rt::Read), [`Write`](hyper::rt::Write) | [`Io`] around a
//! [`TcpStream`](warpweft::net::TcpStream), or anything of `futures-io` |
//!
//! A server and a client without [`serve`]:
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
//!                 .serve_connection(Io::socket(stream), service_fn(hello));
//!             warpweft::spawn(connection).detach();
//!         }
//!     })
//!     .detach();
//!
//!     let stream = TcpStream::connect(address).await?;
//!     let (mut sender, connection) = client::conn::http1::handshake(Io::socket(stream)).await?;
//!     warpweft::spawn(connection).detach();
//!     let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
//!     let response = sender.send_request(request).await?;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(response.into_body().collect().await?.to_bytes())
//! }).map_err(|error| error.to_string())?;
//! assert_eq!(body, "hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds | what it costs |
//! |---|---|---|---|
//! | `serve` | on | [`serve`] and [`serve_hyper`], for HTTP/1 and HTTP/2 | `hyper-util`, `h2` |
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

#[cfg(feature = "serve")]
mod admission;
#[cfg(feature = "serve")]
mod connection_timer;
mod context;
mod context_end;
mod from_tokio;
mod io;
#[cfg(feature = "serve")]
mod listener;
mod pool_context;
mod round;
mod rt;
#[cfg(feature = "serve")]
mod serve;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod tick_alarm;

#[cfg(feature = "serve")]
pub use admission::{AdmittedBody, Admitting};
pub use context::{InTokio, InTokioExt, TokioContext};
pub use from_tokio::FromTokio;
pub use io::Io;
#[cfg(feature = "serve")]
pub use listener::Listener;
pub use pool_context::BuilderExt;
pub use rt::{WarpweftExecutor, WarpweftSleep, WarpweftTimer};
#[cfg(feature = "serve")]
pub use serve::{Peer, Serve, ServeError, serve, serve_hyper};
