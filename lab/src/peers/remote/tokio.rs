//! tokio, alone and with a rayon pool beside.

use std::future::Future;
use std::time::Duration;
use std::{io, net};

use ::rayon::{ThreadPool, ThreadPoolBuilder};
use ::tokio::net::TcpStream;
use ::tokio::runtime::{Builder, Runtime};
use ::tokio::{sync::oneshot, time};

use super::{Remote, RemotePool};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::forks::Branch;
use crate::peers::sequential::Calls;
use crate::peers::{not_built, rayon};
use crate::workloads::{Program, Request};

/// The verbs; with a rayon pool if it computes there. That one lives as long as the process, as rayon's own
/// does.
#[derive(Clone, Copy)]
struct Verbs(Option<&'static ThreadPool>);

impl Remote for Verbs {
    async fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> (A, B) {
        let second = ::tokio::spawn(second);
        let first = first.await;
        (first, second.await.expect("a task of the workload panicked"))
    }

    fn wait(self, wait: Duration) -> impl Future<Output = ()> + Send {
        time::sleep(wait)
    }

    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        let Some(rayon) = self.0 else {
            return work.run(Calls);
        };
        let (sender, receiver) = oneshot::channel();
        rayon.spawn(move || {
            // The task that asked may have been dropped with its runtime: then nobody wants to know.
            drop(sender.send(work.run(rayon::Context)));
        });
        receiver.await.expect("a task of the workload panicked")
    }
}

/// A runtime, seen from outside.
struct Pool {
    tokio: Runtime,
    verbs: Verbs,
}

impl RemotePool for Pool {
    type Remote = Verbs;

    fn remote(&self) -> Verbs {
        self.verbs
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        let root = self.tokio.spawn(root);
        self.tokio
            .block_on(root)
            .expect("a task of the workload panicked")
    }
}

/// Runs a request on a fresh runtime, and on a fresh pool of rayon's if it has one beside.
pub(in crate::peers) fn run(request: &Request, program: &Program, beside: bool) -> Result<Outcome, LabError> {
    let tokio = Builder::new_multi_thread()
        .worker_threads(request.workers)
        .enable_all()
        .build()
        .map_err(|error| not_built(request, &error))?;
    let rayon = beside
        .then(|| ThreadPoolBuilder::new().num_threads(request.workers).build())
        .transpose()
        .map_err(|error| not_built(request, &error))?;
    program.run_remote(&Pool {
        tokio,
        verbs: Verbs(rayon.map(|pool| &*Box::leak(Box::new(pool)))),
    })
}
