//! tokio for what waits and rayon for what computes, as people glue them: two pools, each with as many
//! threads as there are workers, and a oneshot from the one to the other.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use std::{io, net};

use ::rayon::ThreadPool;
use ::tokio::net::TcpStream;
use ::tokio::runtime::Runtime;
use ::tokio::sync::oneshot;
use harness::{Caveat, LabError, Outcome, Peer, PeerInfo, Request};

use super::rayon::Context;
use super::{Contestant, rayon, tokio};
use crate::idioms::forks::Branch;
use crate::idioms::mixed::{Mixed, MixedPool};
use crate::idioms::remote::{Remote, RemotePool};
use crate::idioms::{HttpPool, Idiom};
use crate::kit::answer::{Compute, digest};
use crate::kit::backends::Addresses;
use crate::program::{Program, measured};

/// Both.
pub(crate) struct TokioRayon;

impl Peer for TokioRayon {
    fn info(&self) -> PeerInfo {
        PeerInfo {
            name: "tokio+rayon",
            about: "two pools, tokio for what waits and rayon for what computes, as people glue them",
            packages: &[],
        }
    }
}

impl Contestant for TokioRayon {
    fn lacks(&self, idiom: Idiom) -> Option<&'static str> {
        match idiom {
            Idiom::Http | Idiom::Remote | Idiom::Mixed => None,
            Idiom::Scope => {
                Some("its tasks cannot borrow from the one that waits for them: there is no scope")
            }
            Idiom::Loops => Some("its loops are rayon's: see rayon"),
            _ => Some("two pools, one that waits and one that joins: see mixed and http"),
        }
    }

    fn caveat(&self, idiom: Idiom) -> Option<Caveat> {
        (idiom == Idiom::Mixed).then_some(TWO_POOLS)
    }

    fn play<P: Program>(&self, request: &Request, program: &P) -> Result<Outcome, LabError> {
        let pools = TwoPools {
            tokio: tokio::runtime(request, P::idiom(&request.params))?,
            api: Api(Box::leak(Box::new(rayon::pool(request)?))),
        };
        measured(
            program,
            || None,
            |program| match P::idiom(&request.params) {
                Idiom::Http => program.http(&pools),
                Idiom::Remote => program.remote(&pools),
                _ => program.mixed(&pools),
            },
        )
    }
}

/// The remark that a reader must know.
pub(crate) const TWO_POOLS: Caveat = Caveat::same("two pools, each with as many threads as workers");

/// The calls of a task. The rayon pool lives as long as the process, as rayon's own does.
#[derive(Clone, Copy)]
struct Api(&'static ThreadPool);

impl Api {
    /// Computes on rayon's threads; the task waits for the result in a channel.
    async fn on_rayon<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = oneshot::channel();
        self.0.spawn(move || {
            // The task that asked may have been dropped with its runtime: then the result is not wanted.
            drop(sender.send(work()));
        });
        receiver.await.expect("a task of the workload panicked")
    }
}

impl Compute for Api {
    async fn compute(&self, rounds: u64) -> u64 {
        self.on_rayon(move || digest(rounds)).await
    }
}

impl Mixed for Api {
    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    fn compute(self, work: impl Branch<Out = ()> + 'static) {
        self.0.spawn(move || work.run(Context));
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        self.on_rayon(move || work.run(Context)).await
    }
}

impl Remote for Api {
    fn both<A: Send + 'static, B: Send + 'static>(
        self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> impl Future<Output = (A, B)> + Send {
        tokio::both(first, second)
    }

    fn wait(self, wait: Duration) -> impl Future<Output = ()> + Send {
        ::tokio::time::sleep(wait)
    }

    type Wire = TcpStream;

    fn wire(self, stream: net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        self.on_rayon(move || work.run(Context)).await
    }
}

/// The two pools.
struct TwoPools {
    tokio: Runtime,
    api: Api,
}

impl HttpPool for TwoPools {
    fn serve(&self, backends: Option<Addresses>) -> io::Result<SocketAddr> {
        tokio::serve(&self.tokio, self.api, backends)
    }
}

impl MixedPool for TwoPools {
    type Api = Api;

    fn api(&self) -> Api {
        self.api
    }

    fn serve(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.tokio.spawn(task));
    }

    fn compute(&self, work: impl Branch<Out = ()> + 'static) {
        self.api.compute(work);
    }
}

impl RemotePool for TwoPools {
    type Remote = Api;

    fn remote(&self) -> Api {
        self.api
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        tokio::run(&self.tokio, root)
    }
}
