//! The clients' side: connections over loopback, and threads of the system that ask and listen.
//!
//! One thread asks at the set rate, by the clock and not by the answers: a message that could not be sent in
//! time is counted from when it should have been. For each connection one listens. All of them sleep unless
//! there is something to do.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::kit::task_recorder::TaskRecorder;
use harness::LabError;

/// The stack of a client's thread.
const STACK: usize = 64 << 10;
/// The length of a message.
pub(super) const BYTES: usize = 24;

/// The message that is sent there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// When it should be sent, in nanoseconds from time zero; for requests, their number.
    pub(super) due: u64,
    /// When it was.
    pub(super) sent: u64,
    /// In which phase.
    pub(super) phase: u64,
}

impl Message {
    pub(super) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (word, number) in bytes.chunks_exact_mut(8).zip([self.due, self.sent, self.phase]) {
            word.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * at..8 * at + 8]);
            u64::from_le_bytes(word)
        };
        Self {
            due: word(0),
            sent: word(1),
            phase: word(2),
        }
    }
}

/// Both ends of `count` connections, the server's first, which do not block.
pub(crate) fn connect(count: usize) -> Result<Vec<(TcpStream, TcpStream)>, LabError> {
    let opened = || -> io::Result<Vec<(TcpStream, TcpStream)>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        (0..count)
            .map(|_| {
                let client = TcpStream::connect(address)?;
                let (server, _) = listener.accept()?;
                server.set_nonblocking(true)?;
                for end in [&server, &client] {
                    end.set_nodelay(true)?;
                }
                Ok((server, client))
            })
            .collect()
    };
    opened().map_err(|error| {
        broken(&format!(
            "{count} connections to this machine cannot be had: {error}"
        ))
    })
}

/// The clients could not do their part.
pub(crate) fn broken(reason: &str) -> LabError {
    LabError::Wrong(reason.to_owned())
}

/// A thread of the clients.
pub(super) fn client<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, LabError> {
    thread::Builder::new()
        .name(String::from("client"))
        .stack_size(STACK)
        .spawn(work)
        .map_err(|error| {
            broken(&format!(
                "no thread for a client: {error}; ask for fewer connections"
            ))
        })
}

/// Listens until the server closes, and notes for each answer how long ago its question was due.
pub(super) fn listen(mut stream: &TcpStream, recorders: &[&'static TaskRecorder]) {
    let mut bytes = [0; BYTES];
    while stream.read_exact(&mut bytes).is_ok() {
        let message = Message::from_bytes(&bytes);
        recorders[message.phase as usize % recorders.len()].finish(message.due, Default::default());
    }
}

/// Sends messages over the connections in turn, `rate` in a second, for as long as `length`. Gives how many.
pub(super) fn ask(
    streams: &[&TcpStream],
    recorder: &'static TaskRecorder,
    phase: u64,
    rate: u64,
    length: Duration,
) -> Result<u64, LabError> {
    let count = (u128::from(rate) * length.as_nanos() / 1_000_000_000).max(1) as u64;
    let (start, zero) = (Instant::now(), recorder.begin());
    for (number, mut stream) in (0..count).zip(streams.iter().copied().cycle()) {
        let offset = Duration::from_nanos((u128::from(number) * 1_000_000_000 / u128::from(rate)) as u64);
        thread::sleep((start + offset).saturating_duration_since(Instant::now()));
        let message = Message {
            due: zero + offset.as_nanos() as u64,
            sent: recorder.now(),
            phase,
        };
        stream
            .write_all(&message.to_bytes())
            .map_err(|error| broken(&format!("message {number} of {count} cannot be sent: {error}")))?;
    }
    thread::sleep((start + length).saturating_duration_since(Instant::now()));
    Ok(count)
}

/// Sends one message and waits for its answer. False if that is another one, or none.
pub(super) fn question(mut stream: &TcpStream, message: Message) -> bool {
    let bytes = message.to_bytes();
    let mut answer = [0; BYTES];
    stream.write_all(&bytes).is_ok() && stream.read_exact(&mut answer).is_ok() && answer == bytes
}

/// Says that nothing more will be asked: the server closes its end, and its listener sees that.
pub(super) fn hang_up(stream: &TcpStream) {
    // It fails if the server has gone already.
    drop(stream.shutdown(Shutdown::Write));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_wire() {
        let message = Message {
            due: 1,
            sent: u64::MAX,
            phase: 3,
        };
        assert_eq!(Message::from_bytes(&message.to_bytes()), message);
    }

    #[test]
    fn a_wrong_answer_and_none_are_found() {
        let message = Message {
            due: 7,
            sent: 8,
            phase: 0,
        };
        let answered = |with: Option<u8>| {
            let (mut server, client) = connect(1).unwrap().remove(0);
            server.set_nonblocking(false).unwrap();
            let asked = client_thread(client, message);
            let mut bytes = [0; BYTES];
            server.read_exact(&mut bytes).unwrap();
            if let Some(change) = with {
                bytes[0] ^= change;
                server.write_all(&bytes).unwrap();
            }
            drop(server);
            asked.join().unwrap()
        };
        assert!(answered(Some(0)));
        assert!(!answered(Some(1)));
        assert!(!answered(None));
    }

    fn client_thread(stream: TcpStream, message: Message) -> thread::JoinHandle<bool> {
        client(move || question(&stream, message)).unwrap()
    }

    #[test]
    fn the_rate_is_kept() {
        let (mut server, client) = connect(1).unwrap().remove(0);
        server.set_nonblocking(false).unwrap();
        let recorder = TaskRecorder::leaked(Instant::now(), 0);
        let start = Instant::now();
        assert_eq!(
            ask(&[&client], recorder, 2, 500, Duration::from_millis(40)).unwrap(),
            20
        );
        assert!(start.elapsed() >= Duration::from_millis(40));
        drop(client);
        let mut bytes = Vec::new();
        server.read_to_end(&mut bytes).unwrap();
        let messages: Vec<Message> = bytes
            .as_chunks::<BYTES>()
            .0
            .iter()
            .map(Message::from_bytes)
            .collect();
        assert_eq!(messages.len(), 20);
        for pair in messages.windows(2) {
            assert_eq!(pair[1].due - pair[0].due, 2_000_000);
            assert!(pair[0].sent <= pair[1].sent && pair[1].phase == 2);
        }
    }
}
