//! Datagrams by which ranks of one machine wake each other, so that an idle rank makes no wake-ups.
//!
//! MPI tells nobody when a message comes. A rank that has waited for a while sleeps on a datagram socket. A
//! peer that sends it a message, the first in 5 ms, sends it a datagram, too.
//!
//! # Invariants
//!
//! - A rank sleeps only after 20 ms without a message, and while it only receives. A message within 5 ms of
//!   the last datagram to the same rank finds it awake. The peer of a send that is not over repeats it.
//! - This is in use only if every rank has heard every other at the beginning.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use warpweft_platform::atomic::{AtomicU64, Ordering};
use warpweft_platform::clock::now_ns;

/// A rank gets no second datagram within this time.
pub(crate) const WAKE_NS: u64 = 5_000_000;
/// How long a rank waits, at the beginning, until it has heard all others.
const HEAR_NS: u64 = 1_000_000_000;

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
    /// Returns the one of a rank whose peers have these numbers of processes.
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

    /// Sends a datagram to all and listens for all. Returns true if all were heard.
    pub(crate) fn check(&self) -> bool {
        let begin = now_ns();
        let rang = self
            .peers
            .iter()
            .all(|peer| self.socket.send_to_addr(&[0], &peer.address).is_ok());
        let mut heard = 0;
        while rang && heard < self.peers.len() && now_ns() - begin < HEAR_NS {
            match self.socket.recv(&mut [0]) {
                Ok(_) => heard += 1,
                Err(_) => warpweft_platform::thread::yield_now(),
            }
        }
        heard == self.peers.len()
    }

    /// Wakes `rank`, unless this was done in the last 5 ms.
    pub(crate) fn wake_if_due(&self, rank: usize, now: u64) {
        let Some(peer) = self.peers.get(rank) else { return };
        // Ordering: Relaxed. Two threads that send at once do no harm.
        let notified = peer.sent_ns.load(Ordering::Relaxed);
        if now.saturating_sub(notified) >= WAKE_NS {
            peer.sent_ns.store(now, Ordering::Relaxed);
            // Full: then the peer has something to hear.
            let _ = self.socket.send_to_addr(&[0], &peer.address);
        }
    }

    /// Returns a second handle of the socket, to listen on.
    pub(crate) fn ear(&self) -> io::Result<UnixDatagram> {
        self.socket.try_clone()
    }
}
