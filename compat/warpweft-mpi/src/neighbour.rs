//! Each rank watches two others, so that a lost rank ends the job with a report.
//!
//! ```text
//!   rank 0 ──▶ rank 1 ──▶ rank 2 ──▶ rank 0      each `──▶` is a stream that carries one byte: goodbye
//! ```
//!
//! The end of a stream without that byte is the end of the process behind it. Both of its neighbours learn of
//! it from the system at once, print what they waited for, and abort the job.

use crate::comm::Comm;
use crate::progress::MpiProgress;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use warpweft::Runtime;
use warpweft::io::Async;
use warpweft_platform::atomic::{AtomicBool, Ordering};
use warpweft_platform::clock::now_ns;
use warpweft_platform::thread::{pause, spawn_named, yield_now};

/// The longest wait for a neighbour at the beginning.
const MEET: Duration = Duration::from_secs(5);
/// After this time a process ends by itself, if MPI cannot abort the job.
const ABORT_NS: u64 = 1_000_000_000;
/// Linux' names have at most 64 bytes, and a zero follows.
const HOST: usize = 72;

/// How the other ranks reach this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contact {
    pub(crate) pid: u32,
    port: u16,
    /// The name of the machine.
    pub(crate) host: String,
}

impl Contact {
    pub(crate) const BYTES: usize = 8 + HOST;

    pub(crate) fn of(listener: &TcpListener) -> io::Result<Self> {
        let mut name = [0_u8; HOST];
        // SAFETY: the buffer has one byte more than is given, which stays zero.
        if unsafe { libc::gethostname(name.as_mut_ptr().cast(), HOST - 1) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            pid: std::process::id(),
            port: listener.local_addr()?.port(),
            host: text_of(&name),
        })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.pid.to_le_bytes().to_vec();
        bytes.extend(self.port.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.host.as_bytes());
        bytes.resize(Self::BYTES, 0);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            pid: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            port: u16::from_le_bytes([bytes[4], bytes[5]]),
            host: text_of(&bytes[8..]),
        }
    }

    /// Where the listener may be: it has addresses of IPv4 only.
    fn addresses(&self, own: &Self) -> io::Result<Vec<SocketAddr>> {
        if self.host == own.host {
            return Ok(vec![SocketAddr::from(([127, 0, 0, 1], self.port))]);
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs()?;
        let found: Vec<_> = found.filter(SocketAddr::is_ipv4).collect();
        if found.is_empty() {
            return Err(io::Error::other(format!(
                "the machine `{}` has no address of IPv4",
                self.host
            )));
        }
        Ok(found)
    }
}

/// Connects to the first of the addresses that answers.
fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::other("there is no address");
    for address in addresses {
        match TcpStream::connect_timeout(address, MEET / addresses.len() as u32) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// The streams of this rank. The end of them without a word is the end of this process.
#[derive(Debug)]
pub(crate) struct Goodbye {
    streams: Vec<TcpStream>,
    said: Arc<AtomicBool>,
}

impl Goodbye {
    /// Announces to the neighbours that this rank ends as it should.
    pub(crate) fn say(mut self) {
        self.said.store(true, Ordering::Release);
        for stream in &mut self.streams {
            // A neighbour that is gone has said goodbye itself, or is being reported.
            let _ = stream.write_all(b"b");
        }
    }
}

/// Waits for `io` by `runtime`. The calling thread may be outside of it, or in another one.
pub(crate) fn register<T: AsFd>(runtime: &Runtime, io: T) -> io::Result<Async<T>> {
    runtime.block_on(async { Async::new(io) })
}

/// Meets both neighbours, and watches them by tasks of `runtime`.
pub(crate) fn watch(
    runtime: &Runtime,
    world: &Comm,
    listener: &TcpListener,
    contacts: &[Contact],
) -> io::Result<Goodbye> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let to_next = connect(&contacts[next].addresses(&contacts[rank])?)?;
    // Other programs may find the port, so a rank sends its number and that of its process.
    let word = |rank: usize| (u64::from(contacts[rank].pid) << 32 | rank as u64).to_le_bytes();
    (&to_next).write_all(&word(rank))?;
    let from_previous = accept(listener, word(previous))?;
    let said = Arc::new(AtomicBool::new(false));
    let goodbye = Goodbye {
        streams: vec![to_next.try_clone()?, from_previous.try_clone()?],
        said: Arc::clone(&said),
    };
    for (stream, neighbour) in [(to_next, next), (from_previous, previous)] {
        stream.set_nonblocking(true)?;
        let stream = register(runtime, stream)?;
        let watcher = Watcher {
            progress: Arc::clone(&world.progress),
            said: Arc::clone(&said),
            rank,
            neighbour,
        };
        drop(runtime.spawn(async move {
            let mut byte = [0];
            let read = stream.read_with(|mut stream| stream.read(&mut byte)).await;
            // The error of a runtime that ends is not one of the neighbour.
            if matches!(read, Ok(0)) || matches!(read, Err(ref error) if is_reset(error)) {
                watcher.lost();
            }
        }));
    }
    Ok(goodbye)
}

/// Waits for the rank that sends this word first.
fn accept(listener: &TcpListener, word: [u8; 8]) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let begin = now_ns();
    let mut hello = [0; 8];
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(MEET))?;
                if (&stream).read_exact(&mut hello).is_ok() && hello == word {
                    stream.set_read_timeout(None)?;
                    return Ok(stream);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => yield_now(),
            Err(error) => return Err(error),
        }
        if now_ns() - begin > MEET.as_nanos() as u64 {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the rank before this one did not connect",
            ));
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

struct Watcher {
    progress: Arc<MpiProgress>,
    said: Arc<AtomicBool>,
    rank: usize,
    neighbour: usize,
}

impl Watcher {
    /// The neighbour has ended without a word.
    fn lost(&self) {
        if self.said.load(Ordering::Acquire) {
            return;
        }
        // In one piece: both neighbours write, and the launcher may end this process soon.
        let lost = format!(
            "warpweft-mpi: rank {} is lost: its process ended without `Mpi::finalize`. Rank {} ends the job.\n",
            self.neighbour, self.rank
        );
        let _ = io::stderr().write_all(lost.as_bytes());
        // Another thread may be inside a call of MPI, with the engine's lock, that waits for the lost rank.
        let _ = spawn_named("warpweft-lost", None, || {
            pause(ABORT_NS);
            std::process::exit(1)
        });
        let waits = self.progress.waits();
        let mut report = String::new();
        for wait in waits.iter().take(10) {
            report += &format!("  rank {} waited for {wait}\n", self.rank);
        }
        if waits.len() > 10 {
            report += &format!("  and for {} more\n", waits.len() - 10);
        }
        let _ = io::stderr().write_all(report.as_bytes());
        let _ = self.progress.call(|api| {
            api.abort(1);
            Ok(())
        });
        // Where the launcher does not end this process.
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Contact, connect};
    use std::net::{SocketAddr, TcpListener};

    #[test]
    fn a_card_is_read_as_it_was_written() {
        let contact = Contact {
            pid: 4_000_000_000,
            port: 65535,
            host: "a".repeat(64),
        };
        assert_eq!(contact.to_bytes().len(), Contact::BYTES);
        assert_eq!(Contact::from_bytes(&contact.to_bytes()), contact);
    }

    #[test]
    fn each_address_is_tried_and_all_are_of_ipv4() {
        let contact = |host: &str| Contact {
            pid: 1,
            port: 7,
            host: host.to_owned(),
        };
        let found = contact("192.0.2.1").addresses(&contact("b")).expect("an address");
        assert_eq!(found, [SocketAddr::from(([192, 0, 2, 1], 7))]);
        let error = contact("::1").addresses(&contact("b")).expect_err("no IPv4");
        assert!(error.to_string().contains("no address of IPv4"), "{error}");

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let here = listener.local_addr().expect("it is bound");
        // Nobody listens there.
        let elsewhere = SocketAddr::from(([127, 0, 0, 2], here.port()));
        let stream = connect(&[elsewhere, here]).expect("the second answers");
        assert_eq!(stream.peer_addr().expect("it is connected"), here);
    }
}
