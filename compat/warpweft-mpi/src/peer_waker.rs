//! Datagrams by which ranks of one machine wake each other, so that an idle rank makes no wake-ups.
//!
//! MPI gives no notice when a message comes. A rank that has waited for a while sleeps on a datagram socket.
//! A peer that sends it a message, the first in 5 ms, sends it a datagram, too.
//!
//! # Invariants
//!
//! - A rank sleeps only after 20 ms without a message, and while it only receives. A message within 5 ms of
//!   the last datagram to the same rank finds it awake. The peer of a send that is not over repeats it.
//! - This is in use only if a datagram of each rank reached each other one at the beginning.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::clock::now_ns;
use warpweft_platform::thread::yield_now;

/// A rank gets no second datagram within this time.
pub(crate) const WAKE_NS: u64 = 5_000_000;
/// The longest time, at the beginning, until a datagram of each rank has come.
const CHECK_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct PeerWaker {
    socket: UnixDatagram,
    peers: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    address: SocketAddr,
    sent_ns: AtomicU64,
}

/// Returns the abstract name of the socket of the process `pid`.
fn address_of(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("warpweft-mpi-{pid}"))
}

/// Makes the socket of this process.
pub(crate) fn listen() -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&address_of(std::process::id())?)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl PeerWaker {
    /// Wakes the processes with these numbers, in the order of their ranks.
    pub(crate) fn new(socket: UnixDatagram, pids: &[u32]) -> io::Result<Self> {
        let peers = pids.iter().map(|pid| {
            Ok(Peer {
                address: address_of(*pid)?,
                sent_ns: AtomicU64::new(0),
            })
        });
        Ok(Self {
            peers: peers.collect::<io::Result<_>>()?,
            socket,
        })
    }

    /// Sends a datagram to all and receives one of each. Returns true if all came.
    pub(crate) fn check(&self) -> bool {
        let begin = now_ns();
        let (mut sent, mut received) = (0, 0);
        while received < self.peers.len() && now_ns() - begin < CHECK_NS {
            // A socket holds few datagrams, so those of others are taken in between.
            while let Some(peer) = self.peers.get(sent)
                && self.socket.send_to_addr(&[0], &peer.address).is_ok()
            {
                sent += 1;
            }
            if self.socket.recv(&mut [0]).is_ok() {
                received += 1;
            } else {
                yield_now();
            }
        }
        sent == self.peers.len() && received == self.peers.len()
    }

    /// Wakes `rank`, unless this was done in the last 5 ms.
    pub(crate) fn wake_if_due(&self, rank: usize, now: u64) {
        let Some(peer) = self.peers.get(rank) else { return };
        // Ordering: Relaxed. Two threads that send at once do no harm.
        let notified = peer.sent_ns.load(Ordering::Relaxed);
        if now.saturating_sub(notified) >= WAKE_NS {
            peer.sent_ns.store(now, Ordering::Relaxed);
            // An error is a full socket, and then the peer is awake.
            let _ = self.socket.send_to_addr(&[0], &peer.address);
        }
    }

    /// Returns a second handle of the socket, to receive on.
    pub(crate) fn socket(&self) -> io::Result<UnixDatagram> {
        self.socket.try_clone()
    }
}
