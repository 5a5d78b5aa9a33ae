//! This project's runtime: one pool for all.

use std::future::Future;
use std::{io, net};

use ::warpweft::net::TcpStream;
use ::warpweft::{Runtime, TaskBuilder};

use super::{Mixed, MixedPool, Wire};
use crate::harness::record::Counters;
use crate::peers::forks::Branch;
use crate::peers::warpweft::{Free, Verbs, counters};

impl Wire for TcpStream {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        TcpStream::read_exact(self, buffer).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        TcpStream::write_all(self, bytes).await
    }
}

impl Mixed for Verbs {
    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    fn compute(self, work: impl Branch<Out = ()> + 'static) {
        ::warpweft::spawn_detached(move || work.run(Free));
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        let job = ::warpweft::spawn_job(move || work.run(Free));
        job.await.expect("a task of the workload panicked")
    }
}

/// A runtime that serves and computes.
pub(in crate::peers) struct OnePool(pub(in crate::peers) Runtime);

impl MixedPool for OnePool {
    type Verbs = Verbs;

    fn verbs(&self) -> Verbs {
        Verbs
    }

    fn serve(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    fn compute(&self, work: impl Branch<Out = ()> + 'static) {
        TaskBuilder::new()
            .on(&self.0)
            .spawn_detached(move || work.run(Free));
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(&self.0))
    }
}
