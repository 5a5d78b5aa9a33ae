//! A sort for each request; see the folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::mixed::MixedPool;
use crate::workloads::check;
use crate::workloads::lane::{Lane, land};

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
    /// Runs it: a tenth of the requests first, which is not measured.
    pub(super) fn run<P: MixedPool>(&self, pool: &P) -> Result<Outcome, LabError> {
        self.requests(pool, (self.n / 10).max(1))?;
        self.requests(pool, self.n)
    }

    /// So many requests, over fresh connections.
    fn requests<P: MixedPool>(&self, pool: &P, n: u64) -> Result<Outcome, LabError> {
        let verbs = pool.verbs();
        let lane = Lane::leaked(Instant::now(), 0);
        let taken = Arc::new(AtomicU64::new(0));
        let mut clients = Vec::new();
        let ends = connect(self.connections)?;
        lane.begin();
        for (server, ours) in ends {
            pool.serve(answer(verbs, server, Between::Sort(self.input)));
            let taken = Arc::clone(&taken);
            clients.push(client(move || {
                // Relaxed: the number only has to be unique.
                loop {
                    let number = taken.fetch_add(1, Ordering::Relaxed);
                    if number >= n {
                        hang_up(&ours);
                        return true;
                    }
                    let sent = lane.now();
                    let message = Message {
                        due: number,
                        sent,
                        phase: 0,
                    };
                    if !question(&ours, message) {
                        return false;
                    }
                    lane.finish(sent, Default::default());
                }
            })?);
        }
        let mut right = true;
        for client in clients {
            right &= client.join().map_err(|_| broken("a client panicked"))?;
        }
        check("every request was answered, and every sort right", &right, &true)?;
        let landed = land(&[lane], n);
        let elapsed = landed.elapsed.max(Duration::from_nanos(1));
        Ok(Outcome::new(n, elapsed).with_latency(&landed.histogram))
    }
}
