//! Remote items behind TCP on loopback: a connection for each, and a server that answers after a while.
//!
//! ```text
//!   item ── its number ──▶ server: a task per connection, on its own worker ─────── wait ──┐
//!   item ◀── its number ───────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The server is the same for all contestants. What it takes of the machine, some 10 µs per item, it takes
//! from every contestant alike.

use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::warpweft::net::TcpStream as ServerEnd;
use ::warpweft::{Runtime, time};
use rustix::net::sockopt::set_socket_linger;

use crate::idioms::mixed::Wire;
use crate::idioms::remote::Remote;
use crate::workloads::mixed::{broken, connect};
use harness::LabError;

/// The items' ends of the connections, each until its item takes it.
#[derive(Clone, Copy)]
pub(crate) struct Ends(&'static [Mutex<Option<TcpStream>>]);

/// A server that runs until it is dropped.
pub(crate) struct Server {
    _runtime: Runtime,
    /// The addresses to ask.
    pub(crate) ends: Ends,
}

impl Server {
    /// Starts a server for this number of items, each of which answers after `wait`.
    pub(crate) fn start(items: u64, wait: Duration) -> Result<Self, LabError> {
        let runtime = Runtime::builder()
            .workers(1)
            .name("server")
            .build()
            .map_err(|error| broken(&format!("no server: {error}")))?;
        let mut ends = Vec::new();
        for (server, item) in connect(items as usize)? {
            // Closed without a rest: thousands of connections that linger would use up the ports of the next
            // runs.
            set_socket_linger(&item, Some(Duration::ZERO)).map_err(|error| broken(&error.to_string()))?;
            item.set_nonblocking(true)
                .map_err(|error| broken(&error.to_string()))?;
            runtime.spawn(answer(server, wait)).detach();
            ends.push(Mutex::new(Some(item)));
        }
        Ok(Self {
            _runtime: runtime,
            ends: Ends(ends.leak()),
        })
    }
}

/// Answers what comes over a connection, until its item hangs up.
async fn answer(stream: TcpStream, wait: Duration) {
    let Ok(stream) = ServerEnd::from_std(stream) else {
        return;
    };
    let mut bytes = [0; 8];
    // An item that gets no answer says so.
    while stream.read_exact(&mut bytes).await.is_ok() {
        time::sleep(wait).await;
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

impl Ends {
    /// Asks for an item, and waits for the answer.
    pub(crate) async fn ask<V: Remote>(self, api: V, item: u64) {
        let end = self.0[item as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut wire = end
            .and_then(|end| api.wire(end).ok())
            .expect("each item has a connection, and asks once");
        let mut answer = [0; 8];
        let asked = wire.write_all(&item.to_le_bytes()).await;
        asked
            .and(wire.read_exact(&mut answer).await)
            .expect("the server answers");
        assert_eq!(u64::from_le_bytes(answer), item, "the answer is another item's");
    }
}
