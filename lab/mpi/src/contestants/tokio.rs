//! A runtime of tokio beside MPI: one thread makes all calls of MPI, and tasks ask it through a channel.
//!
//! The thread looks at windows of requests in rotation. It looks without a pause for a while after the last
//! event. Then it sleeps between two looks, a little longer each time but never for long: else a round trip
//! would measure this pause. A new request wakes it.

use super::{Contestant, refusal};
use crate::idioms::{ForkJoin, Futures};
use crate::workload::{Outcome, Report, Workload};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use warpweft_mpi::MpiError;
use warpweft_mpi::raw::{RawMpi, RawRequest, WINDOW};

/// The time without a pause after the last event, and the shortest and longest pause.
const AWAKE: Duration = Duration::from_micros(50);
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_micros(50);

/// What the thread of MPI posts, and where the bytes go in the end.
type Envelope = (Post, oneshot::Sender<Vec<u8>>);

enum Post {
    Send(usize, i32, Vec<u8>),
    Recv(usize, i32, Vec<u8>),
    AllToAll(Vec<u8>),
    AllGather(Vec<u8>),
    Barrier,
}

#[derive(Debug, Clone)]
pub(crate) struct Tokio {
    asks: Sender<Envelope>,
    rank: usize,
    size: usize,
}

impl Contestant for Tokio {
    const NAME: &'static str = "tokio";

    fn run<W: Workload>(workload: W, workers: usize) -> Result<Report, MpiError> {
        let (asks, asked) = mpsc::channel();
        let (begun, begin) = mpsc::channel();
        // It begins and ends MPI, as the standard asks of one thread.
        let server = thread::spawn(move || {
            let mpi = RawMpi::init()?;
            begun
                .send((mpi.rank(), mpi.size()))
                .expect("the main thread waits");
            serve(mpi, &asked)
        });
        let Ok((rank, ranks)) = begin.recv() else {
            server.join().expect("a panic ends the process")?;
            unreachable!("the thread of MPI begins or fails");
        };
        let refusal = refusal::<Self>(&workload, (rank, ranks), workers);
        let report = refusal.unwrap_or_else(|| {
            let tokio = Self {
                asks: asks.clone(),
                rank,
                size: ranks,
            };
            let runtime = Builder::new_multi_thread()
                .worker_threads(workers)
                .enable_time()
                .build()
                .expect("the system gives threads");
            let program = runtime.spawn(workload.futures(tokio));
            let figures = runtime.block_on(program).expect("a panic ends the process");
            Report {
                rank,
                ranks,
                outcome: Outcome::Figures(figures),
            }
        });
        drop(asks);
        server.join().expect("a panic ends the process")?;
        Ok(report)
    }
}

/// Makes all calls of MPI, until no task can ask any more and all requests are over.
fn serve(mut mpi: RawMpi, asked: &Receiver<Envelope>) -> Result<(), MpiError> {
    let (mut requests, mut askers) = (Vec::new(), Vec::new());
    let (mut next, mut over, mut is_closed) = (0, Vec::new(), false);
    let (mut last_event, mut pause) = (Instant::now(), SHORTEST);
    loop {
        let ask = if is_closed {
            None
        } else if requests.is_empty() {
            asked.recv().map_or_else(
                |_| {
                    is_closed = true;
                    None
                },
                Some,
            )
        } else if next > 0 || last_event.elapsed() < AWAKE {
            match asked.try_recv() {
                Ok(ask) => Some(ask),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    is_closed = true;
                    None
                }
            }
        } else {
            pause = (pause * 2).min(LONGEST);
            match asked.recv_timeout(pause) {
                Ok(ask) => Some(ask),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    is_closed = true;
                    None
                }
            }
        };
        if let Some((what, asker)) = ask {
            requests.push(post(&mut mpi, what)?);
            askers.push(asker);
            (last_event, pause) = (Instant::now(), SHORTEST);
            // What is asked at once is posted at once.
            while let Ok((what, asker)) = asked.try_recv() {
                requests.push(post(&mut mpi, what)?);
                askers.push(asker);
            }
        }
        if requests.is_empty() {
            if is_closed {
                return mpi.finalize();
            }
            continue;
        }
        let end = requests.len().min(next + WINDOW);
        mpi.test_some(&mut requests[next..end], &mut over)?;
        if !over.is_empty() {
            (last_event, pause) = (Instant::now(), SHORTEST);
        } else if end == requests.len() {
            // Ranks share CPUs with workers.
            thread::yield_now();
        }
        // From the last one on: each takes the place of the one that leaves.
        for index in over.drain(..).rev() {
            let bytes = requests.swap_remove(next + index).into_bytes();
            // A task that does not wait any more is no error.
            let _ = askers.swap_remove(next + index).send(bytes);
        }
        next = if end < requests.len() { end } else { 0 };
    }
}

fn post(mpi: &mut RawMpi, what: Post) -> Result<RawRequest, MpiError> {
    match what {
        Post::Send(to, tag, bytes) => mpi.isend(to, tag, bytes),
        Post::Recv(from, tag, buffer) => mpi.irecv(from, tag, buffer),
        Post::AllToAll(bytes) => mpi.ialltoall(bytes),
        Post::AllGather(bytes) => mpi.iallgather(bytes),
        Post::Barrier => mpi.ibarrier(),
    }
}

impl Tokio {
    /// Asks the thread of MPI at once; the result is awaited.
    fn ask(&self, what: Post) -> impl Future<Output = Vec<u8>> + Send + 'static {
        let (asker, answer) = oneshot::channel();
        self.asks
            .send((what, asker))
            .expect("the thread of MPI lives longer");
        async { answer.await.expect("the thread of MPI answers all") }
    }
}

impl ForkJoin for Tokio {
    /// One after the other: tokio has no fork-join.
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        (a(), b())
    }
}

impl Futures for Tokio {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        self.ask(Post::Send(to, tag, bytes))
    }

    fn recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        self.ask(Post::Recv(from, tag, buffer))
    }

    fn all_to_all(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        self.ask(Post::AllToAll(bytes))
    }

    fn all_gather(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static {
        self.ask(Post::AllGather(bytes))
    }

    fn barrier(&self) -> impl Future<Output = ()> + Send + 'static {
        let barrier = self.ask(Post::Barrier);
        async { drop(barrier.await) }
    }

    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        let task = tokio::spawn(task);
        async { task.await.expect("a panic ends the process") }
    }

    /// In the task itself: tokio has no other place on its workers.
    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an `async fn` would borrow `self`"
    )]
    fn compute<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static {
        async { job() }
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        tokio::time::sleep(time)
    }

    fn yield_now(&self) -> impl Future<Output = ()> + Send + 'static {
        tokio::task::yield_now()
    }
}
