//! The beginning and the end of MPI in this process, and communicators.

use crate::api::{Api, WORLD};
use crate::bell::{self, Bell};
use crate::engine::{self, Buffer, Completed, Engine, Peer, PeerKind};
use crate::error::{MpiError, MpiErrorKind};
use crate::neighbour::{self, Goodbye};
use crate::request::Request;
use std::fmt;
use std::io;
use std::sync::Arc;
use warpweft::Runtime;
use warpweft::io::Async;

/// The largest tag that every MPI has.
const TAGS: i32 = 32767;

/// MPI in this process, from [`init`](Self::init) to [`finalize`](Self::finalize).
#[derive(Debug)]
pub struct Mpi {
    world: Comm,
    goodbye: Option<Goodbye>,
    finished: bool,
}

/// A communicator: ranks that send each other messages which no other communicator sees.
#[derive(Clone)]
pub struct Comm {
    pub(crate) engine: Arc<Engine>,
    pub(crate) handle: engine::Comm,
    rank: usize,
    size: usize,
}

/// Of whom a message is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Of that rank only.
    Rank(usize),
    /// Of any rank, in the order in which they come.
    Any,
}

impl From<usize> for Source {
    fn from(rank: usize) -> Self {
        Self::Rank(rank)
    }
}

/// A message that was received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The rank that sent it.
    pub source: usize,
    /// Its tag.
    pub tag: i32,
    /// What was sent.
    pub bytes: Vec<u8>,
}

impl Mpi {
    /// Begins MPI in this process, which a launcher such as `mpirun -n 4 program` started. All ranks call
    /// this. A program that was started without a launcher is the only rank.
    ///
    /// `runtime` polls for MPI from now on, and must live until [`finalize`](Self::finalize).
    ///
    /// # Errors
    ///
    /// There is no MPI (the error says what to install), it allows one thread only, it was begun in this
    /// process before, or the runtime has an engine already.
    pub fn init(runtime: &Runtime) -> Result<Self, MpiError> {
        let api = Api::find()?;
        api.init()?;
        let (rank, size) = (api.rank(WORLD)?, api.size(WORLD)?);
        let handle = engine::Comm(api.duplicate(WORLD)?);
        let engine = Arc::new(Engine::new(api));
        let progress = runtime.set_progress(Arc::clone(&engine) as _);
        engine.has_turns(progress.map_err(|error| MpiError::library(error.to_string()))?);
        let world = Comm {
            engine,
            handle,
            rank,
            size,
        };
        let mut mpi = Self {
            world,
            goodbye: None,
            finished: false,
        };
        if size > 1 {
            mpi.meet(runtime)?;
        }
        Ok(mpi)
    }

    /// Has the ranks ring each other's bells, and watch each other.
    fn meet(&mut self, runtime: &Runtime) -> Result<(), MpiError> {
        let system = |error: io::Error| MpiError::library(format!("the ranks cannot meet: {error}"));
        let world = &self.world;
        let socket = bell::listen().map_err(system)?;
        let listener = std::net::TcpListener::bind("0.0.0.0:0").map_err(system)?;
        let card = neighbour::Card::of(&listener).map_err(system)?;
        let cards = world.all_gather(card.to_bytes()).wait()?;
        let cards: Vec<_> = cards
            .chunks_exact(neighbour::Card::BYTES)
            .map(neighbour::Card::from_bytes)
            .collect();
        let pids: Vec<u32> = cards.iter().map(|card| card.pid).collect();
        let bell = Bell::new(socket, &pids).map_err(system)?;
        let heard = cards.iter().all(|other| other.host == card.host) && bell.check();
        let all_heard = world
            .all_reduce(vec![i64::from(heard)], crate::Reduce::Min)
            .wait()?;
        if all_heard == [1] {
            let ear = Async::new(bell.ear().map_err(system)?).map_err(system)?;
            let engine = Arc::clone(&world.engine);
            engine.has_bell(bell);
            let listens = async move {
                let mut bytes = [0; 16];
                // Until the runtime ends.
                while ear.read_with(|socket| socket.recv(&mut bytes)).await.is_ok() {
                    engine.rung();
                }
            };
            drop(runtime.spawn(listens));
        }
        self.goodbye = Some(neighbour::watch(runtime, world, listener, &cards).map_err(system)?);
        Ok(())
    }

    /// Returns the number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.world.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.world.size
    }

    /// Returns the communicator of all ranks. It is a copy of `MPI_COMM_WORLD`, so messages of other parts of
    /// the program do not meet its own.
    #[must_use]
    pub fn world(&self) -> &Comm {
        &self.world
    }

    /// Returns the version text of the library.
    ///
    /// # Errors
    ///
    /// MPI was finalised.
    pub fn library(&self) -> Result<String, MpiError> {
        self.world.engine.call(|api| Ok(api.version()))
    }

    /// Ends all ranks of the job at once, with this exit code.
    pub fn abort(&self, code: i32) -> ! {
        let _ = self.world.engine.call(|api| {
            api.abort(code);
            Ok(())
        });
        std::process::exit(code)
    }

    /// Ends MPI in this process. All ranks call this; it waits for the others. Each has received what it
    /// wants by then.
    ///
    /// # Errors
    ///
    /// MPI fails, or messages were outstanding: then they fail, too, and the error has their number.
    pub fn finalize(mut self) -> Result<(), MpiError> {
        self.finished = true;
        self.world.barrier().wait()?;
        if let Some(goodbye) = self.goodbye.take() {
            goodbye.say();
        }
        let engine = &self.world.engine;
        let left = engine.waits();
        // MPI cannot end while it still reads or writes a buffer.
        let ends = engine.cancel_all();
        let ended = engine.call(|api| if ends { api.finalize() } else { Ok(()) });
        engine.finish();
        ended?;
        if left.is_empty() {
            return Ok(());
        }
        let list: Vec<String> = left.iter().take(5).map(ToString::to_string).collect();
        Err(MpiError::new(
            MpiErrorKind::Finished,
            format!(
                "{} messages of rank {} were outstanding at `Mpi::finalize`, among them: {}; wait for each, \
                 or drop it before",
                left.len(),
                self.world.rank,
                list.join(", ")
            ),
        ))
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if !self.finished {
            eprintln!(
                "warpweft-mpi: rank {} of {} ends without `Mpi::finalize`; the job ends",
                self.world.rank, self.world.size
            );
            self.abort(1);
        }
    }
}

impl Comm {
    /// Returns the number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Copies this communicator: the messages of the two never meet. All ranks call this, in the same order,
    /// and it waits for them.
    ///
    /// # Errors
    ///
    /// MPI fails, or was finalised.
    pub fn duplicate(&self) -> Result<Self, MpiError> {
        // MPI's own call blocks, under the engine's lock. With all ranks there it takes no longer than a
        // round of messages.
        self.barrier().wait()?;
        let copy = self.engine.call(|api| api.duplicate(self.handle.0))?;
        Ok(Self {
            engine: Arc::clone(&self.engine),
            handle: engine::Comm(copy),
            ..*self
        })
    }

    /// Sends `bytes` to the rank `to`. The result is the bytes: the buffer may be used again.
    ///
    /// A result says that the buffer is free, and not that the message was received. Costs an allocation and
    /// a call of MPI.
    ///
    /// # Errors
    ///
    /// There is no such rank, the tag is negative or above 32767, the message has 2 GiB or more, MPI fails, or
    /// was finalised.
    pub fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Request<Vec<u8>> {
        let posted = self.check(Some(to), Some(tag)).and_then(|()| {
            self.engine.post(
                Peer {
                    kind: PeerKind::Send,
                    rank: Some(to),
                    tag: Some(tag),
                },
                Buffer::From(bytes),
                |api, buffer| {
                    let Buffer::From(bytes) = buffer else {
                        unreachable!("it was given above")
                    };
                    // SAFETY: the engine keeps the bytes until the request is over, and writes nothing.
                    unsafe { api.isend(bytes, to, tag, self.handle.0) }
                },
            )
        });
        Request::new(&self.engine, posted, |completed| Ok(bytes_of(completed.buffer)))
    }

    /// Receives the next message with this tag, of at most `capacity` bytes. Messages of one rank with one tag
    /// come in the order in which they were sent.
    ///
    /// # Errors
    ///
    /// The message is longer, there is no such rank, the tag is negative or above 32767, MPI fails, or was
    /// finalised.
    pub fn recv(&self, from: impl Into<Source>, tag: i32, capacity: usize) -> Request<Message> {
        self.recv_into(from, tag, vec![0; capacity])
    }

    /// As [`recv`](Self::recv), into a buffer that is used again. Its length is the capacity.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn recv_into(&self, from: impl Into<Source>, tag: i32, buffer: Vec<u8>) -> Request<Message> {
        let (rank, source) = match from.into() {
            Source::Rank(rank) => (Some(rank), rank as i32),
            Source::Any => (None, crate::api::ANY_SOURCE),
        };
        let posted = self.check(rank, Some(tag)).and_then(|()| {
            self.engine.post(
                Peer {
                    kind: PeerKind::Receive,
                    rank,
                    tag: Some(tag),
                },
                Buffer::To(buffer),
                |api, buffer| {
                    let Buffer::To(bytes) = buffer else {
                        unreachable!("it was given above")
                    };
                    // SAFETY: the engine keeps the bytes until the request is over, and does not use them.
                    unsafe { api.irecv(bytes, source, tag, self.handle.0) }
                },
            )
        });
        Request::new(&self.engine, posted, to_message)
    }

    /// Receives the next message with this tag, of any length. Costs a look for it in each turn, so prefer
    /// [`recv`](Self::recv) where the length is known.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv), but for the length.
    pub fn recv_any_length(&self, from: impl Into<Source>, tag: i32) -> Request<Message> {
        let rank = match from.into() {
            Source::Rank(rank) => Some(rank),
            Source::Any => None,
        };
        let posted = self.check(rank, Some(tag)).and_then(|()| {
            let peer = Peer {
                kind: PeerKind::Receive,
                rank,
                tag: Some(tag),
            };
            self.engine.probe(peer, self.handle)
        });
        Request::new(&self.engine, posted, to_message)
    }

    pub(crate) fn check(&self, rank: Option<usize>, tag: Option<i32>) -> Result<(), MpiError> {
        if let Some(rank) = rank.filter(|rank| *rank >= self.size) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                format!("there is no rank {rank}: the job has the ranks 0 to {}", self.size - 1),
            ));
        }
        if let Some(tag) = tag.filter(|tag| !(0..=TAGS).contains(tag)) {
            return Err(MpiError::new(
                MpiErrorKind::Argument,
                format!("{tag} is no tag: tags are 0 to {TAGS}"),
            ));
        }
        Ok(())
    }
}

fn to_message(completed: Completed) -> Result<Message, MpiError> {
    Ok(Message {
        source: completed.source,
        tag: completed.tag,
        bytes: bytes_of(completed.buffer),
    })
}

/// Returns the bytes that were sent or received.
pub(crate) fn bytes_of(buffer: Buffer) -> Vec<u8> {
    match buffer {
        Buffer::None => Vec::new(),
        Buffer::From(bytes) | Buffer::To(bytes) | Buffer::Both(_, bytes) => bytes,
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, way) = match self.kind {
            PeerKind::Send => ("a send", "to"),
            PeerKind::Receive => ("a receive", "of"),
            PeerKind::Collective => return f.write_str("a collective of all ranks"),
        };
        match self.rank {
            Some(rank) => write!(f, "{what} {way} rank {rank}")?,
            None => write!(f, "{what} {way} any rank")?,
        }
        self.tag.map_or(Ok(()), |tag| write!(f, " with tag {tag}"))
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Comm")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
