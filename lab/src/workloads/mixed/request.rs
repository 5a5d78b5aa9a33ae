//! A sort for each request; see the folder.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::idioms::mixed::MixedPool;
use crate::kit::check::check;
use crate::kit::task_recorder::{TaskRecorder, record};
use harness::{LabError, Outcome};

use super::clients::{Message, broken, client, connect, hang_up, question};
use super::server::{Between, Input, answer};

/// The form, ready to run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(super) n: u64,
    pub(super) connections: usize,
    pub(super) input: Input,
}

impl Plan {
    /// Runs it.
    pub(super) fn run<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        let api = pool.api();
        self.twice(|| {
            let ends = connect(self.connections)?.into_iter();
            Ok(ends
                .map(|(server, ours)| {
                    pool.serve(answer(api, server, Between::Sort(self.input)));
                    ours
                })
                .collect())
        })
    }

    /// Runs it with a server of another process.
    pub(super) fn run_at(&self, address: SocketAddr) -> Result<Outcome, LabError> {
        let connected = || {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let refused = |error: io::Error| broken(&format!("the server cannot be reached: {error}"));
        self.twice(|| {
            (0..self.connections)
                .map(|_| connected().map_err(refused))
                .collect()
        })
    }

    /// A tenth of the requests first, which is not measured; then all.
    fn twice(&self, open: impl Fn() -> Result<Vec<TcpStream>, LabError>) -> Result<Outcome, LabError> {
        requests(open()?, (self.n / 10).max(1))?;
        requests(open()?, self.n)
    }
}

/// Makes `n` requests, over fresh connections.
fn requests(connections: Vec<TcpStream>, n: u64) -> Result<Outcome, LabError> {
    let recorder = TaskRecorder::leaked(Instant::now(), 0);
    let taken = Arc::new(AtomicU64::new(0));
    let mut clients = Vec::new();
    recorder.begin();
    for ours in connections {
        let taken = Arc::clone(&taken);
        clients.push(client(move || {
            // Relaxed: the number only has to be unique.
            loop {
                let number = taken.fetch_add(1, Ordering::Relaxed);
                if number >= n {
                    hang_up(&ours);
                    return true;
                }
                let sent = recorder.now();
                let message = Message {
                    due: number,
                    sent,
                    phase: 0,
                };
                if !question(&ours, message) {
                    return false;
                }
                recorder.finish(sent, Default::default());
            }
        })?);
    }
    let mut right = true;
    for client in clients {
        right &= client.join().map_err(|_| broken("a client panicked"))?;
    }
    check("every request was answered, and every sort right", &right, &true)?;
    let recorded = record(&[recorder], n);
    let elapsed = recorded.elapsed.max(Duration::from_nanos(1));
    Ok(Outcome::new(n, elapsed).with_latency(&recorded.histogram))
}
