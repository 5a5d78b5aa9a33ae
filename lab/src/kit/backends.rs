//! Slow backends: what a server asks when it fans out. Each is a thread with its own listener. It
//! answers a question of eight bytes with eight bytes, so long after it was read. The questions of different
//! connections wait side by side, as those of a database do whose disk is slow and whose processor is not.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The number of backends.
pub(crate) const BACKENDS: usize = 3;
/// The length of a question, and of an answer.
pub(crate) const BYTES: usize = 8;

/// Their addresses.
pub(crate) type Addresses = [SocketAddr; BACKENDS];

/// The answer of backend number `at`.
pub(crate) fn reply(at: usize, question: u64) -> u64 {
    question.wrapping_mul(31).wrapping_add(at as u64)
}

/// The backends; they end with this.
pub(crate) struct Backends {
    addresses: Addresses,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Backends {
    /// Starts them.
    pub(crate) fn start(delay: Duration) -> io::Result<Self> {
        let mut backends = Self {
            addresses: [SocketAddr::from(([127, 0, 0, 1], 0)); BACKENDS],
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for at in 0..BACKENDS {
            let listener = TcpListener::bind(backends.addresses[at])?;
            backends.addresses[at] = listener.local_addr()?;
            let mut backend = Backend {
                at,
                delay,
                listener,
                streams: Vec::new(),
                due: VecDeque::new(),
            };
            let stop = Arc::clone(&backends.stop);
            let name = format!("backend-{at}");
            backends
                .threads
                .push(thread::Builder::new().name(name).spawn(move || {
                    // Relaxed: what wakes it for the last time is a connection. A backend that fails closes
                    // its connections, which the server reports to its clients.
                    while !stop.load(Ordering::Relaxed) && backend.turn().is_ok() {}
                })?);
        }
        Ok(backends)
    }

    /// Their addresses.
    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // If no thread listens any more, it has ended already.
            drop(TcpStream::connect(address));
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

struct Backend {
    at: usize,
    delay: Duration,
    listener: TcpListener,
    /// `None`: closed. Its place is the next one's.
    streams: Vec<Option<TcpStream>>,
    /// When, on which connection, and what. All wait equally long, so this is in the order of time.
    due: VecDeque<(Instant, usize, u64)>,
}

impl Backend {
    /// Waits until there is something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        let open: Vec<usize> = (0..self.streams.len())
            .filter(|at| self.streams[*at].is_some())
            .collect();
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        fds.extend(
            self.streams
                .iter()
                .flatten()
                .map(|stream| PollFd::new(stream, PollFlags::IN)),
        );
        let timeout = self.due.front().map(|(due, ..)| {
            let left = due.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        poll(&mut fds, timeout.as_ref())?;
        let calls = !fds[0].revents().is_empty();
        let ready: Vec<usize> = open
            .into_iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(at, _)| at)
            .collect();
        for at in ready {
            self.read(at);
        }
        self.answer_due();
        if calls {
            let (stream, _) = self.listener.accept()?;
            stream.set_nodelay(true)?;
            match self.streams.iter_mut().find(|place| place.is_none()) {
                Some(place) => *place = Some(stream),
                None => self.streams.push(Some(stream)),
            }
        }
        Ok(())
    }

    /// Reads a question: it was sent in one piece, or the connection closes.
    fn read(&mut self, at: usize) {
        let mut question = [0; BYTES];
        let read = self.streams[at]
            .as_mut()
            .map_or(Err(ErrorKind::NotConnected.into()), |stream| {
                stream.read_exact(&mut question)
            });
        if read.is_ok() {
            let due = Instant::now() + self.delay;
            self.due.push_back((due, at, u64::from_le_bytes(question)));
        } else {
            self.streams[at] = None;
            self.due.retain(|(_, stream, _)| *stream != at);
        }
    }

    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some((_, at, question)) = self.due.pop_front_if(|(due, ..)| *due <= now) {
            let answer = reply(self.at, question).to_le_bytes();
            // A connection that takes no answer is about to close.
            if let Some(stream) = &mut self.streams[at] {
                drop(stream.write_all(&answer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answers_its_own_and_not_too_early() {
        let delay = Duration::from_millis(3);
        let backends = Backends::start(delay).unwrap();
        for round in 0..2 {
            // Several connections to each: all wait at the same time, and closed ones make room.
            let mut streams: Vec<_> = (0..4 * BACKENDS)
                .map(|at| TcpStream::connect(backends.addresses()[at % BACKENDS]).unwrap())
                .collect();
            for question in 0..3 {
                let start = Instant::now();
                for stream in &mut streams {
                    stream.write_all(&u64::to_le_bytes(question + round)).unwrap();
                }
                for (at, stream) in streams.iter_mut().enumerate() {
                    let mut answer = [0; BYTES];
                    stream.read_exact(&mut answer).unwrap();
                    let expected = reply(at % BACKENDS, question + round);
                    assert_eq!(u64::from_le_bytes(answer), expected);
                }
                assert!(start.elapsed() >= delay);
            }
        }
    }
}
