//! TCP and UDP sockets, and on Unix those within a machine.
//!
//! ```
//! use warpweft::net::{TcpListener, TcpStream};
//!
//! let runtime = warpweft::Runtime::builder().workers(2).build()?;
//! runtime.block_on(async {
//!     let listener = TcpListener::bind(([127, 0, 0, 1], 0))?;
//!     let address = listener.local_addr()?;
//!     let server = warpweft::spawn(async move {
//!         let (stream, _peer) = listener.accept().await?;
//!         let mut buffer = [0; 64];
//!         loop {
//!             match stream.read(&mut buffer).await? {
//!                 0 => return Ok::<_, std::io::Error>(()),
//!                 read => stream.write_all(&buffer[..read]).await?,
//!             }
//!         }
//!     });
//!     let stream = TcpStream::connect(address).await?;
//!     stream.write_all(b"hello").await?;
//!     let mut echo = [0; 5];
//!     stream.read_exact(&mut echo).await?;
//!     assert_eq!(&echo, b"hello");
//!     drop(stream);
//!     server.await.expect("no panic")
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Methods take `&self`: one task may read while another one writes. `into_split` makes two halves for two
//!   owners.
//! - Streams, and references to them, are [`AsyncRead`](futures_io::AsyncRead) and
//!   [`AsyncWrite`](futures_io::AsyncWrite), also vectored.
//! - A future that is dropped has read or written nothing, except that `write_all` and `read_exact` may be
//!   half done.
//! - A socket belongs to the runtime where it was made (see [`Async`](crate::io::Async)), and can be used
//!   anywhere.
//! - In a closure each method works through [`block_on`](crate::block_on).
//! - Where an address is wanted, a text `"host:port"` or a pair `("host", port)` does, too: see [`Target`].
//! - [`SocketOptions`] sets what a socket has to know before it is bound or connected.
//!
//! Errors name the address that was bound, connected or sent to. [`os_error`](crate::io::os_error) finds the
//! system's number in them.
//!
//! All kinds have the same verbs:
//!
//! | | TCP | UDP | Unix stream | Unix datagram |
//! |---|---|---|---|---|
//! | `bind` | listener | yes | listener | yes; also `unbound` |
//! | `accept`, `poll_accept`, `incoming` | yes | | yes | |
//! | `connect` | yes; also `connect_timeout` | yes | yes | yes |
//! | `pair` | | | yes | yes |
//! | `read`, `read_exact`, `read_vectored`, `write`, `write_all`, `write_vectored`, `AsyncRead`, `AsyncWrite` | yes | | yes | |
//! | `send`, `send_vectored`, `send_to`, `try_send_to`, `recv`, `recv_from` | | yes | | yes |
//! | `peek` | yes | yes; also `peek_from` | yes | yes; also `peek_from` |
//! | `shutdown` | yes | | yes | yes |
//! | `into_split`, `reunite` | yes | | yes | |
//! | `local_addr`, `peer_addr` | yes | yes | yes | yes |
//! | `from_std`, `TryFrom`, `into_std`, `get_ref` | yes | yes | yes | yes |
//! | `peer_cred` | | | on Linux | |

#[cfg(unix)]
pub(crate) mod datagram;
pub(crate) mod halves;
pub(crate) mod incoming;
pub(crate) mod names;
pub(crate) mod options;
#[cfg(unix)]
mod paths;
pub(crate) mod stream;
pub(crate) mod tcp;
pub(crate) mod udp;
#[cfg(unix)]
pub(crate) mod unix;

#[cfg(unix)]
pub use datagram::UnixDatagram;
pub use halves::{OwnedReadHalf, OwnedWriteHalf, ReuniteError};
pub use incoming::Incoming;
pub use names::{Target, lookup};
pub use options::SocketOptions;
pub use stream::{Socket, Stream};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
#[cfg(any(target_os = "linux", target_os = "android"))]
pub use unix::PeerCred;
#[cfg(unix)]
pub use unix::{UnixListener, UnixStream};
