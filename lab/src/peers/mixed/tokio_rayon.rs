//! tokio for what waits and rayon for what computes, as people glue them: two pools, each with as many
//! threads as there are workers, and a oneshot from the one to the other.

use std::future::Future;
use std::{io, net};

use ::rayon::{ThreadPool, ThreadPoolBuilder};
use ::tokio::io::{AsyncReadExt, AsyncWriteExt};
use ::tokio::net::TcpStream;
use ::tokio::runtime::{Builder, Runtime};
use ::tokio::sync::oneshot;

use super::{Mixed, MixedPool, Wire};
use crate::error::LabError;
use crate::harness::record::Outcome;
use crate::peers::forks::Branch;
use crate::peers::not_built;
use crate::peers::rayon::Context;
use crate::workloads::{Program, Request};

impl Wire for TcpStream {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        AsyncReadExt::read_exact(self, buffer).await.map(|_| ())
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        AsyncWriteExt::write_all(self, bytes).await
    }
}

/// The verbs. The rayon pool lives as long as the process, as rayon's own does.
#[derive(Clone, Copy)]
struct Verbs(&'static ThreadPool);

impl Mixed for Verbs {
    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    fn compute(self, work: impl Branch<Out = ()> + 'static) {
        self.0.spawn(move || work.run(Context));
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // The task that asked may have been dropped with its runtime: then nobody wants to know.
            drop(sender.send(work.run(Context)));
        });
        receiver.await.expect("a task of the workload panicked")
    }
}

/// The two pools.
struct TwoPools {
    tokio: Runtime,
    verbs: Verbs,
}

impl MixedPool for TwoPools {
    type Verbs = Verbs;

    fn verbs(&self) -> Verbs {
        self.verbs
    }

    fn serve(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tokio.spawn(task));
    }

    fn compute(&self, work: impl Branch<Out = ()> + 'static) {
        self.verbs.compute(work);
    }
}

/// Runs a request on two fresh pools.
pub(in crate::peers) fn run(request: &Request, program: &Program) -> Result<Outcome, LabError> {
    let tokio = Builder::new_multi_thread()
        .worker_threads(request.workers)
        .enable_io()
        .build()
        .map_err(|error| not_built(request, &error))?;
    let rayon = ThreadPoolBuilder::new()
        .num_threads(request.workers)
        .build()
        .map_err(|error| not_built(request, &error))?;
    program.run_mixed(&TwoPools {
        tokio,
        verbs: Verbs(Box::leak(Box::new(rayon))),
    })
}
