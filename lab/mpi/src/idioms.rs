//! The two ways in which programs wait for messages: futures that are awaited, and calls that return late.
//!
//! A failure of MPI ends the job with a panic: no measure can continue after it.

use std::ops::DerefMut;
use std::time::Duration;
use warpweft_mpi::Comm;
use warpweft_mpi::raw::{RawMpi, RawRequest};

/// Why a result of MPI is not an error.
pub(crate) const FAILED: &str = "MPI does not fail";

/// Two computations at once.
pub(crate) trait ForkJoin {
    /// Computes both, in parallel where the contestant can.
    fn join<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B);
}

/// Tasks that await messages.
pub(crate) trait Futures: ForkJoin + Clone + Send + Sync + 'static {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;

    /// Sends. The message is on its way before the future is polled. The result is the bytes.
    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static;
    /// Receives a message that fills the buffer. It is posted before the future is polled.
    fn recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static;
    fn all_to_all(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static;
    fn all_gather(&self, bytes: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send + 'static;
    fn barrier(&self) -> impl Future<Output = ()> + Send + 'static;

    /// Begins a task. Its result is awaited.
    fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;
    /// Computes, in the place where this contestant has a task compute.
    fn compute<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = T> + Send + 'static;
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static;
    /// Lets other tasks run, and the runtime look at MPI.
    fn yield_now(&self) -> impl Future<Output = ()> + Send + 'static;
}

/// Threads that make calls of MPI.
pub(crate) trait Calls: ForkJoin {
    fn rank(&self) -> usize;
    fn size(&self) -> usize;

    /// MPI for one call. Where threads share it, it is locked as long as the result lives.
    fn mpi(&self) -> impl DerefMut<Target = RawMpi>;

    /// Sends, and returns when the bytes may be used again.
    fn send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> Vec<u8> {
        self.wait(self.post_send(to, tag, bytes))
    }

    /// Receives a message that is at most as long as the buffer.
    fn recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> Vec<u8> {
        self.wait(self.post_recv(from, tag, buffer))
    }

    fn post_send(&self, to: usize, tag: i32, bytes: Vec<u8>) -> RawRequest {
        self.mpi().isend(to, tag, bytes).expect(FAILED)
    }

    fn post_recv(&self, from: usize, tag: i32, buffer: Vec<u8>) -> RawRequest {
        self.mpi().irecv(from, tag, buffer).expect(FAILED)
    }

    fn post_all_to_all(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi().ialltoall(bytes).expect(FAILED)
    }

    fn post_all_gather(&self, bytes: Vec<u8>) -> RawRequest {
        self.mpi().iallgather(bytes).expect(FAILED)
    }

    fn post_barrier(&self) -> RawRequest {
        self.mpi().ibarrier().expect(FAILED)
    }

    /// Looks once. Returns true if the request is over.
    fn test(&self, request: &mut RawRequest) -> bool {
        self.mpi().test(request).expect(FAILED)
    }

    /// Waits for the request. It may be over already.
    fn wait(&self, request: RawRequest) -> Vec<u8>;
    /// Does `parts` parts of some work while the requests travel. A contestant whose calls block waits first.
    fn meanwhile(&self, requests: &mut [RawRequest], parts: usize, work: &mut dyn FnMut(usize));
    /// Does a job for each number below `count`, at the same time where the contestant has threads.
    fn for_each(&self, count: usize, job: &(dyn Fn(&Self, usize) + Sync));

    fn barrier(&self) {
        self.wait(self.post_barrier());
    }
}

/// Tasks of Warpweft, which have more of `warpweft-mpi` than messages.
pub(crate) trait WarpweftTasks: Futures {
    fn comm(&self) -> &Comm;
    fn workers(&self) -> usize;
}

/// A thread that looks at many requests by `MPI_Test` and `MPI_Testsome`.
pub(crate) trait TestLoop: Calls {
    /// Waits for all requests. Calls `ended` with each that ends, and its place among those that were given.
    fn wait_for_all(&self, requests: Vec<RawRequest>, ended: impl FnMut(usize, Vec<u8>));
    /// Looks once at the request, and gives its bytes if it is over.
    fn take(&self, request: &mut Option<RawRequest>) -> Option<Vec<u8>>;
    /// Lets another process run, if ranks share a CPU.
    fn idle(&self);
}
