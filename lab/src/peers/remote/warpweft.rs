//! This project's runtime: a join for futures, and the same workers for all.

use std::future::Future;
use std::time::Duration;
use std::{io, net};

use ::warpweft::net::TcpStream;
use ::warpweft::{Runtime, join_async, time};

use super::{Remote, RemotePool};
use crate::harness::record::Counters;
use crate::peers::forks::Branch;
use crate::peers::warpweft::{Free, Verbs, counters};

impl Remote for Verbs {
    fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> impl Future<Output = (A, B)> + Send {
        join_async(first, second)
    }

    fn wait(self, wait: Duration) -> impl Future<Output = ()> + Send {
        time::sleep(wait)
    }

    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        work.run(Free)
    }
}

/// A runtime, seen from outside.
pub(in crate::peers) struct Hiding(pub(in crate::peers) Runtime);

impl RemotePool for Hiding {
    type Remote = Verbs;

    fn remote(&self) -> Verbs {
        Verbs
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.0
            .spawn(root)
            .wait()
            .expect("a task of the workload panicked")
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(&self.0))
    }
}
