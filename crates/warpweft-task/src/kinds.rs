//! The kinds of work: a job (closure), a future, and a closure that runs on another stack.

use crate::budget;
use crate::header::Header;
use crate::on_stack::{OnStackJob, StackRunner};
use crate::running::{JobRuns, Running};
use crate::task_panic::TaskKind;
use crate::waker::BorrowedWaker;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// Work that runs in steps until it has a result.
pub(crate) trait Work: Send + 'static {
    type Output: Send + 'static;

    /// What a report calls it.
    const KIND: TaskKind;

    /// True if the last step, which returns `Ready` or panics, moves the work out of its place. If not, the
    /// caller drops the work in place.
    const CONSUMED: bool;

    /// Runs until the work waits or has ended.
    ///
    /// # Safety
    ///
    /// `this` is valid, pinned, and no other thread touches it during the call. `step` is not called again
    /// after `Ready` or a panic. `header` is its task's, alive during the call.
    unsafe fn step(this: *mut Self, header: NonNull<Header>) -> Poll<Self::Output>;

    /// True if the worker's loop does not call the step itself, but hands it to [`job`](Work::job).
    const ON_STACK: bool = false;

    /// Hands the step to the code that runs it, on this thread or on the one that takes `job`.
    /// Contract: as for `step`, until the runnable in `job` is used.
    unsafe fn job(_this: *mut Self, job: OnStackJob) {
        job.run();
    }
}

/// A closure. With `HANDLE` it has a handle, through which it may be cancelled while it runs. With `BLOCKS`
/// it may block.
pub(crate) struct Job<F, const HANDLE: bool, const BLOCKS: bool>(pub(crate) F);

impl<T, F, const HANDLE: bool, const BLOCKS: bool> Work for Job<F, HANDLE, BLOCKS>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    type Output = T;
    const KIND: TaskKind = if BLOCKS { TaskKind::Blocking } else { TaskKind::Job };
    const CONSUMED: bool = true;

    unsafe fn step(this: *mut Self, header: NonNull<Header>) -> Poll<T> {
        // SAFETY: a job has one step; the closure is moved out here and the place not used again.
        let Self(closure) = unsafe { this.read() };
        // SAFETY: by contract the task is alive during the call.
        let _runs = HANDLE.then(|| unsafe { JobRuns::new(header) });
        Poll::Ready(closure())
    }
}

/// A closure that `runner` runs, on a stack that it provides.
pub(crate) struct OnStack<F, H> {
    pub(crate) closure: F,
    /// Present until `job` has taken it.
    pub(crate) runner: Option<H>,
}

impl<T: Send + 'static, F: FnOnce() -> T + Send + 'static, H: StackRunner> Work for OnStack<F, H> {
    type Output = T;
    const KIND: TaskKind = TaskKind::Fiber;
    const CONSUMED: bool = true;
    const ON_STACK: bool = true;

    unsafe fn step(this: *mut Self, header: NonNull<Header>) -> Poll<T> {
        struct Ends<H: StackRunner>(PhantomData<H>);
        impl<H: StackRunner> Drop for Ends<H> {
            fn drop(&mut self) {
                H::runs(None);
            }
        }
        // SAFETY: there is one step; the closure is moved out here and its place not used again.
        let Self { closure, .. } = unsafe { this.read() };
        // SAFETY: by contract the task is alive during the call.
        H::runs(Some(unsafe { Running::new(header) }));
        let _ends = Ends::<H>(PhantomData);
        Poll::Ready(closure())
    }

    unsafe fn job(this: *mut Self, job: OnStackJob) {
        // SAFETY: `this` is valid, and no other thread uses it until the runnable is used.
        let runner = unsafe { &mut (*this).runner }.take();
        match runner {
            Some(runner) => runner.start(job),
            None => job.run(),
        }
    }
}

pub(crate) struct Async<F>(pub(crate) F);

impl<F: Future<Output: Send + 'static> + Send + 'static> Work for Async<F> {
    type Output = F::Output;
    const KIND: TaskKind = TaskKind::Future;
    const CONSUMED: bool = false;

    unsafe fn step(this: *mut Self, header: NonNull<Header>) -> Poll<F::Output> {
        // SAFETY: the holder of the runnable keeps a reference during the call.
        let waker = unsafe { BorrowedWaker::new(header) };
        // SAFETY: `this` is valid and ours alone during the call.
        let future = unsafe { &mut (*this).0 };
        // SAFETY: the allocation never moves, and the future is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        budget::begin();
        future.poll(&mut Context::from_waker(&waker))
    }
}
