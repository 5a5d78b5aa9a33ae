//! The clients' side: connections over loopback, and threads of the system that ask and listen.
//!
//! One thread asks at the set rate, by the clock and not by the answers: a message that could not be sent in
//! time is counted from when it should have been. For each connection one listens. All of them sleep unless
//! there is something to do.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::kit::task_recorder::{Counts, TaskRecorder};
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

    /// Its words, and whether it is of no phase: their sums show that what came is what was sent.
    fn counts(self, has_phase: bool) -> Counts {
        [self.due, self.sent, self.phase, u64::from(!has_phase)]
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

/// The messages of a phase: how many, and what they count in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) count: u64,
    pub(super) counts: Counts,
}

impl Sent {
    fn add(&mut self, message: Message) {
        self.count += 1;
        for (sum, word) in self.counts.iter_mut().zip(message.counts(true)) {
            *sum = sum.wrapping_add(word);
        }
    }
}

/// Notes a message that came, in the recorder of its phase; `since` is the time from which it counts. One of
/// no phase is noted as well, so that nobody waits for it, and counts as wrong.
pub(super) fn note(recorders: &[&'static TaskRecorder], message: Message, since: u64) {
    let phase = usize::try_from(message.phase).ok();
    let recorder = phase.and_then(|phase| recorders.get(phase));
    let counts = message.counts(recorder.is_some());
    let any = recorders[message.phase as usize % recorders.len()];
    recorder.unwrap_or(&any).finish(since, counts);
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
        note(recorders, message, message.due);
    }
}

/// Sends messages over the connections in turn, `rate` in a second, for as long as `length`. Gives what it
/// sent.
pub(super) fn ask(
    streams: &[&TcpStream],
    recorder: &'static TaskRecorder,
    phase: u64,
    rate: u64,
    length: Duration,
) -> Result<Sent, LabError> {
    let mut sent = Sent::default();
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
        sent.add(message);
    }
    thread::sleep((start + length).saturating_duration_since(Instant::now()));
    Ok(sent)
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
    use crate::kit::task_recorder::record;

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
    fn an_echo_that_is_changed_changes_the_sums_of_its_phase() {
        let message = |due, phase| Message { due, sent: 5, phase };
        let asked = [message(1, 0), message(2, 1), message(3, 1)];
        let noted = |change: fn(&mut Message)| {
            let recorders = [0; 2].map(|_| TaskRecorder::leaked(Instant::now(), 0));
            for mut message in asked {
                if message.due == 3 {
                    change(&mut message);
                }
                note(&recorders, message, 0);
            }
            let done = recorders.iter().map(|recorder| recorder.done()).sum::<u64>();
            assert_eq!(done, 3, "nobody waits for one that is wrong");
            recorders.map(|recorder| record(&[recorder], 0).counts)
        };
        let mut sent = [Sent::default(); 2];
        asked
            .iter()
            .for_each(|message| sent[message.phase as usize].add(*message));
        let expected = sent.map(|sent| sent.counts);
        assert_eq!(noted(|_| ()), expected);
        let changes: [fn(&mut Message); 4] = [
            |message| message.due = 4,
            |message| message.sent = 0,
            |message| message.phase = 0,
            // In no phase.
            |message| message.phase = 3,
        ];
        for change in changes {
            assert_ne!(noted(change), expected);
        }
        assert_eq!(noted(changes[3])[1][3], 1);
        assert_eq!(noted(|message| message.phase = u64::MAX)[1][3], 1);
    }

    #[test]
    fn the_rate_is_kept() {
        let (mut server, client) = connect(1).unwrap().remove(0);
        server.set_nonblocking(false).unwrap();
        let recorder = TaskRecorder::leaked(Instant::now(), 0);
        let start = Instant::now();
        let sent = ask(&[&client], recorder, 2, 500, Duration::from_millis(40)).unwrap();
        assert_eq!(sent.count, 20);
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
        let mut came = Sent::default();
        messages.iter().for_each(|message| came.add(*message));
        assert_eq!(came, sent);
        for pair in messages.windows(2) {
            assert_eq!(pair[1].due - pair[0].due, 2_000_000);
            assert!(pair[0].sent <= pair[1].sent && pair[1].phase == 2);
        }
    }
}
