//! [`Async`]: any descriptor whose readiness tasks can wait for.

#[cfg(feature = "net")]
mod receive;

use crate::driver::core::Driver;
use crate::driver::pollable::{AsPollable, borrow, lend_pollable};
use crate::driver::source::{Direction, Source};
use crate::runtime::current_driver::current_driver;
use futures_io::{AsyncRead, AsyncWrite};
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A socket, a pipe, an event descriptor or another source whose readiness tasks can wait for.
///
/// It belongs to the driver of the runtime whose task made it, or that the thread has entered; outside of
/// any, to that of the [default runtime](crate::default_runtime). It can be used in any task on any thread.
/// When that runtime has shut down, every attempt is an error of the kind
/// [`NotConnected`](ErrorKind::NotConnected).
///
/// The descriptor must stay open, and the same, as long as the value lives. Therefore the wrapped value is
/// only lent out by `&`.
///
/// ```
/// use std::io::{Read as _, Write as _};
/// use std::os::unix::net::UnixStream;
/// use warpweft::io::Async;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// runtime.block_on(async {
///     let (mut theirs, ours) = UnixStream::pair()?;
///     let ours = Async::new(ours)?;
///     theirs.write_all(b"hello")?;
///     let mut buffer = [0; 8];
///     let read = ours.read_with(|mut socket| socket.read(&mut buffer)).await?;
///     assert_eq!(&buffer[..read], b"hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Async<T: AsPollable> {
    driver: Arc<Driver>,
    source: Arc<Source>,
    key: usize,
    /// `None` only after `into_inner`, until `drop`.
    io: Option<T>,
}

impl<T: AsPollable> Async<T> {
    /// Makes `io` non-blocking and registers it.
    ///
    /// # Errors
    ///
    /// The descriptor cannot be waited for (a regular file), the runtime is shutting down, this is a forked
    /// child, or the system provides no poller. Outside of any runtime, the [default
    /// one](crate::try_default_runtime) cannot be built. `io` is dropped.
    pub fn new(io: T) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&io, true)?;
        Self::new_nonblocking(io)
    }

    /// Registers `io`, which is already non-blocking.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn new_nonblocking(io: T) -> io::Result<Self> {
        let (driver, _) = current_driver()?;
        let (key, source) = driver.enter()?;
        // SAFETY: `drop` deletes the registration. Until then the descriptor stays open, because no caller
        // gets `io` by value or by `&mut`.
        let added = unsafe { driver.poller().add(borrow(&io), key) };
        if let Err(error) = added {
            driver.strike(key);
            return Err(explain(error));
        }
        #[cfg(unix)]
        source.set_descriptor(u64::from(
            std::os::fd::AsRawFd::as_raw_fd(&borrow(&io)).unsigned_abs(),
        ));
        Ok(Self {
            driver,
            source,
            key,
            io: Some(io),
        })
    }

    /// Returns the wrapped value.
    pub fn get_ref(&self) -> &T {
        match &self.io {
            Some(io) => io,
            None => unreachable!("only `into_inner` takes it, and ends the value"),
        }
    }

    /// Returns the wrapped value, no longer registered. It stays non-blocking.
    #[must_use]
    pub fn into_inner(mut self) -> T {
        self.deregister();
        match self.io.take() {
            Some(io) => io,
            None => unreachable!("only this function takes it"),
        }
    }

    /// Returns true if it was made by the parent of this forked process.
    #[cfg(feature = "net")]
    pub(crate) fn is_in_forked_child(&self) -> bool {
        self.driver.check().is_err()
    }

    fn deregister(&self) {
        // In a forked child the poller is the parent's, and deleting would remove the parent's registration.
        if let Some(io) = self.io.as_ref().filter(|_| self.driver.check().is_ok()) {
            // This cannot fail for a descriptor that is registered and open; otherwise there is nothing to
            // delete.
            let _ = self.driver.poller().delete(borrow(io), self.key);
        }
        // Events on their way then find no source.
        if self.driver.check().is_ok() {
            self.driver.strike(self.key);
        }
    }

    /// Checks that a wait can end, and has the poller report the direction.
    fn prepare_wait(&self, direction: Direction) -> io::Result<()> {
        self.driver.check()?;
        self.driver
            .poller()
            .arm(borrow(self.get_ref()), self.key, direction)
    }

    /// Attempts `operation`, which reads, until it does not fail with `WouldBlock`. Waits in between.
    ///
    /// Several tasks may do this at a time. Dropping the future removes it from the list of waiters.
    ///
    /// `operation` must return [`WouldBlock`](ErrorKind::WouldBlock) only if the system has said so in that
    /// call. The system announces what comes after that, and not what was there: an operation that reads a
    /// part and asks for the rest waits beside bytes that are there.
    ///
    /// # Errors
    ///
    /// Any other error of `operation`; or the runtime has shut down.
    pub async fn read_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::In, operation).await
    }

    /// As [`read_with`](Self::read_with), for an operation that writes.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with).
    pub async fn write_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Direction::Out, operation).await
    }

    async fn attempt<R>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut waiter_id = self.source.waiter_id(direction);
        let check = || self.prepare_wait(direction);
        poll_fn(|cx| waiter_id.poll(cx, check, || operation(self.get_ref()), |_| false)).await
    }

    /// One attempt of an operation that reads; if it would block, the task is woken when it may not.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with).
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let check = || self.prepare_wait(Direction::In);
        self.source
            .poll_anonymous(Direction::In, cx, check, || operation(self.get_ref()), |_| false)
    }

    /// Attempts an operation that writes once. If it would block, the task is woken when it may succeed.
    ///
    /// # Errors
    ///
    /// As [`read_with`](Self::read_with).
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let check = || self.prepare_wait(Direction::Out);
        self.source
            .poll_anonymous(Direction::Out, cx, check, || operation(self.get_ref()), |_| false)
    }

    /// Waits until it may be readable. Another task can be faster, and the system is sometimes wrong, so
    /// prefer [`read_with`](Self::read_with).
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub async fn readable(&self) -> io::Result<()> {
        self.await_ready(Direction::In, rustix::event::PollFlags::IN)
            .await
    }

    /// Waits until it may be writable; as [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub async fn writable(&self) -> io::Result<()> {
        self.await_ready(Direction::Out, rustix::event::PollFlags::OUT)
            .await
    }

    async fn await_ready(&self, direction: Direction, flags: rustix::event::PollFlags) -> io::Result<()> {
        self.attempt(direction, |io| {
            let mut fds = [rustix::event::PollFd::new(io, flags)];
            match rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default()))? {
                0 => Err(ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        })
        .await
    }
}

fn explain(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::PermissionDenied {
        return io::Error::new(
            ErrorKind::Unsupported,
            "this descriptor cannot be waited for: it is always ready, as a regular file or a directory is",
        );
    }
    error
}

impl<T: AsPollable> Drop for Async<T> {
    fn drop(&mut self) {
        if self.io.is_some() {
            self.deregister();
        }
    }
}

lend_pollable!([T: AsPollable] Async<T>, get_ref());

impl<T: AsPollable + fmt::Debug> fmt::Debug for Async<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Async").field(self.get_ref()).finish()
    }
}

/// Returns true if there is no room for a byte. Then nothing is to be waited for.
pub(crate) fn are_empty(buffers: &[IoSliceMut<'_>]) -> bool {
    buffers.iter().all(|buffer| buffer.is_empty())
}

impl<T: AsPollable> AsyncRead for &Async<T>
where
    for<'a> &'a T: Read,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_read_with(cx, |mut io| io.read(buffer))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        if are_empty(buffers) {
            return Poll::Ready(Ok(0));
        }
        self.poll_read_with(cx, |mut io| io.read_vectored(buffers))
    }
}

/// `poll_flush` flushes what `T` buffers; sockets and pipes do not buffer. `poll_close` does the same. A
/// descriptor closes when the value is dropped. The streams of [`net`](crate::net) end their writing half.
impl<T: AsPollable> AsyncWrite for &Async<T>
where
    for<'a> &'a T: Write,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |mut io| io.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |mut io| io.write_vectored(buffers))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // At once: what has nothing to flush need not wait for room.
        loop {
            match self.get_ref().flush() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.poll_write_with(cx, |mut io| io.flush());
                }
                flushed => return Poll::Ready(flushed),
            }
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
