//! This project's futures: channels, promises, semaphores, timers, sockets, and joins beside them.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use ::warpweft::net::TcpStream;
use ::warpweft::sync::{Mutex, Semaphore, channel, oneshot};
use ::warpweft::{TaskBuilder, join_async, time};
use harness::Counters;

use super::{Api, Free, Pool, counters};
use crate::idioms::channels::{Actors, OPEN, Sleeps, Store, Unit, async_channels, oneshot_promises};
use crate::idioms::forks::Branch;
use crate::idioms::mixed::{Mixed, MixedPool, Wire};
use crate::idioms::parks::{Parks, WakerParkSlot};
use crate::idioms::remote::{Remote, RemotePool};

impl<T: Unit> Store<T> for (channel::Sender<T>, channel::Receiver<T>) {
    fn with_room(room: usize) -> Self {
        channel::bounded(room)
    }

    #[inline]
    async fn put(&self, unit: T) {
        self.0.send(unit).await.expect(OPEN);
    }

    #[inline]
    async fn take(&self) -> T {
        self.1.recv().await.expect(OPEN)
    }
}

async_channels!(Api, channel::bounded, Mutex, |received| received.ok());
oneshot_promises!(Api, oneshot);

impl Actors for Api {
    type Semaphore = Semaphore;
    type Buffer<T: Unit> = (channel::Sender<T>, channel::Receiver<T>);

    fn semaphore(permits: usize) -> Semaphore {
        Semaphore::new(permits)
    }

    #[inline]
    async fn acquire(semaphore: &Semaphore) {
        semaphore.acquire(1).await.expect(OPEN).forget();
    }

    #[inline]
    fn release(semaphore: &Semaphore) {
        semaphore.add(1);
    }
}

impl Sleeps for Api {
    fn sleep_until(deadline: Instant) -> impl Future<Output = ()> + Send {
        ::warpweft::time::sleep_until(deadline)
    }
}

impl Parks for Api {
    type ParkSlot = WakerParkSlot;
}

impl Wire for TcpStream {
    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        TcpStream::read_exact(self, buffer).await
    }

    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        TcpStream::write_all(self, bytes).await
    }
}

impl Mixed for Api {
    type Wire = TcpStream;

    fn wire(self, stream: std::net::TcpStream) -> io::Result<TcpStream> {
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

impl MixedPool for Pool<'_> {
    type Api = Api;

    fn api(&self) -> Api {
        Api
    }

    fn serve(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    fn compute(&self, work: impl Branch<Out = ()> + 'static) {
        TaskBuilder::new()
            .on(self.0)
            .spawn_detached(move || work.run(Free));
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}

impl Remote for Api {
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

    fn wire(self, stream: std::net::TcpStream) -> io::Result<TcpStream> {
        TcpStream::from_std(stream)
    }

    async fn computed<R: Branch<Out: 'static> + 'static>(self, work: R) -> R::Out {
        work.run(Free)
    }
}

impl RemotePool for Pool<'_> {
    type Remote = Api;

    fn remote(&self) -> Api {
        Api
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.0
            .spawn(root)
            .wait()
            .expect("a task of the workload panicked")
    }

    fn counters(&self) -> Option<Counters> {
        Some(counters(self.0))
    }
}
