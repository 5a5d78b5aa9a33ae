//! Repeating what fails for a while.

use super::sleep::{nanoseconds, sleep};
use super::timeout::timeout_at;
use crate::cooperative::pause::pause;
use crate::execution::block_on::block_on;
use crate::execution::stack_context::{StackContext, here};
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use warpweft_platform::clock;
use warpweft_platform::random::Rng;

/// How often, and with which delays, an operation that fails is tried again.
///
/// The delay before the second attempt is [`first_delay`](Self::first_delay), and doubles with each attempt,
/// up to [`longest_delay`](Self::longest_delay). Of each delay the second half is random, so that clients
/// that failed together do not come back together ("equal jitter" of M. Brooker, [Exponential Backoff And
/// Jitter][jitter], 2015). The delays are [sleeps](super::sleep): a runtime under the simulator has them in
/// virtual time, and draws the same ones for the same seed. A delay of zero still lets others run: the task
/// yields, and a time limit or a cancellation is noticed there.
///
/// [jitter]: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use std::time::Duration;
/// use warpweft::time::Retry;
///
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let retry = Retry::new().attempts(4).first_delay(Duration::from_millis(1));
/// let mut failures = 0;
/// let text = runtime.block_on(retry.run(|| {
///     failures += 1;
///     let fails = failures < 3;
///     async move { if fails { Err(Error::from(ErrorKind::ConnectionRefused)) } else { Ok("there") } }
/// }))?;
/// assert_eq!((text, failures), ("there", 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Retry {
    attempts: u32,
    first_delay: Duration,
    longest_delay: Duration,
    limit: Option<Duration>,
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

impl Retry {
    /// Returns five attempts, with delays of 50 ms to 10 s, and no limit of time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            attempts: 5,
            first_delay: Duration::from_millis(50),
            longest_delay: Duration::from_secs(10),
            limit: None,
        }
    }

    /// Sets how many attempts there are at most, with the first one; 0 counts as 1, and `u32::MAX` is no
    /// limit.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the delay before the second attempt. All delays are zero if this one is.
    #[must_use]
    pub fn first_delay(mut self, delay: Duration) -> Self {
        self.first_delay = delay;
        self
    }

    /// Sets the longest delay.
    #[must_use]
    pub fn longest_delay(mut self, delay: Duration) -> Self {
        self.longest_delay = delay;
        self
    }

    /// Limits the time of all attempts and delays together. [`run`](Self::run) drops an attempt that is
    /// under way at that moment. A delay that would end later is not begun: the last error is returned at
    /// once.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Awaits what `operation` returns, again and again until it is `Ok`. Each error is worth another
    /// attempt.
    ///
    /// If the future is dropped, the attempt is dropped.
    ///
    /// # Errors
    ///
    /// [`RetryError`], with the last error.
    pub async fn run<T, E, F>(&self, operation: impl FnMut() -> F) -> Result<T, RetryError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        self.run_if(|_| true, operation).await
    }

    /// As [`run`](Self::run), but an error for which `is_worth_it` returns false is returned at once.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use warpweft::net::TcpStream;
    /// use warpweft::time::Retry;
    ///
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let refused = |error: &std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
    /// let failed = runtime.block_on(Retry::new().run_if(refused, || TcpStream::connect("no port")));
    /// assert_eq!(failed.err().map(|error| error.attempts), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RetryError`], with the last error.
    pub async fn run_if<T, E, F>(
        &self,
        mut is_worth_it: impl FnMut(&E) -> bool,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, RetryError<E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut attempts = Attempts::new(self);
        loop {
            let attempt = operation();
            let result = match attempts.deadline() {
                Some(deadline) => timeout_at(deadline, attempt).await,
                None => Ok(attempt.await),
            };
            let Ok(result) = result else {
                return Err(attempts.out_of_time());
            };
            match result {
                Ok(output) => return Ok(output),
                Err(error) => {
                    let delay = attempts.after(error, &mut is_worth_it)?;
                    attempts.check(wait(delay).await)?;
                }
            }
        }
    }

    /// Calls `operation` again and again until it returns `Ok`: [`run`](Self::run) in direct style, for
    /// closures and fibers. The delays give the worker away. In a closure none is shorter than 50 µs, because
    /// it cannot yield as a fiber does. A call that is under way when the time is over runs to its end, and
    /// counts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use warpweft::time::Retry;
    ///
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// let job = runtime.spawn_job(|| {
    ///     let retry = Retry::new().attempts(2).first_delay(Duration::from_millis(1));
    ///     retry.call(|| std::fs::read("/no/such/file"))
    /// });
    /// let failed = job.wait()?.expect_err("there is none");
    /// assert_eq!(failed.attempts, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RetryError`], with the last error.
    pub fn call<T, E>(&self, operation: impl FnMut() -> Result<T, E>) -> Result<T, RetryError<E>> {
        self.call_if(|_| true, operation)
    }

    /// As [`call`](Self::call), but an error for which `is_worth_it` returns false is returned at once.
    ///
    /// # Errors
    ///
    /// [`RetryError`], with the last error.
    pub fn call_if<T, E>(
        &self,
        mut is_worth_it: impl FnMut(&E) -> bool,
        mut operation: impl FnMut() -> Result<T, E>,
    ) -> Result<T, RetryError<E>> {
        let mut attempts = Attempts::new(self);
        loop {
            match operation() {
                Ok(output) => return Ok(output),
                Err(error) => {
                    let delay = attempts.after(error, &mut is_worth_it)?;
                    attempts.check(wait_here(delay))?;
                }
            }
        }
    }
}

/// How much too early a sleep may end, in nanoseconds. What is left of a runtime that has shut down
/// does not sleep.
const EARLY_NS: u64 = 1_000_000;

/// Returns when a delay that begins now has passed, nearly.
fn end_of(delay: Duration) -> u64 {
    let delay = nanoseconds(delay).saturating_sub(EARLY_NS);
    clock::now_ns().saturating_add(delay)
}

/// Waits, and yields at least once: otherwise a task whose delays are zero keeps its worker for ever. Returns
/// false if the wait was cut short.
async fn wait(delay: Duration) -> bool {
    let end_ns = end_of(delay);
    let mut sleep = sleep(delay);
    if poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx).is_ready())).await {
        pause().await;
    } else {
        sleep.await;
    }
    clock::now_ns() >= end_ns
}

/// The shortest delay in a closure. A hand-over to another thread and back takes up to half of it.
const SHORTEST: Duration = Duration::from_micros(50);

/// Does what [`wait`] does in direct style. A stack that cannot yield sleeps.
fn wait_here(delay: Duration) -> bool {
    let end_ns = end_of(delay);
    let is_long = delay >= SHORTEST || here().is_some_and(StackContext::give_way);
    block_on(sleep(if is_long { delay } else { SHORTEST }));
    clock::now_ns() >= end_ns
}

/// The attempts of one call.
struct Attempts<'a, E> {
    retry: &'a Retry,
    made: u32,
    delay_ns: u64,
    /// When the time is over, by the clock of the platform.
    end_ns: Option<u64>,
    last: Option<E>,
}

impl<'a, E> Attempts<'a, E> {
    fn new(retry: &'a Retry) -> Self {
        let end = |limit| clock::now_ns().saturating_add(nanoseconds(limit));
        Self {
            retry,
            made: 0,
            delay_ns: nanoseconds(retry.first_delay.min(retry.longest_delay)),
            end_ns: retry.limit.map(end),
            last: None,
        }
    }

    /// `None` if the time has no end, or one beyond the clock's.
    fn deadline(&self) -> Option<Instant> {
        self.end_ns.and_then(clock::moment)
    }

    fn out_of_time(&mut self) -> RetryError<E> {
        RetryError {
            attempts: self.made + 1,
            last: self.last.take(),
            reason: GaveUp::Time,
        }
    }

    /// Returns the error of the whole if the delay has not passed: the runtime shuts down.
    fn check(&mut self, has_passed: bool) -> Result<(), RetryError<E>> {
        if has_passed {
            return Ok(());
        }
        Err(RetryError {
            attempts: self.made,
            last: self.last.take(),
            reason: GaveUp::Shutdown,
        })
    }

    /// Returns the delay after an attempt that failed, or the error of the whole.
    fn after(
        &mut self,
        error: E,
        is_worth_it: &mut impl FnMut(&E) -> bool,
    ) -> Result<Duration, RetryError<E>> {
        self.made = self.made.saturating_add(1);
        let is_last = self.made == self.retry.attempts && self.made != u32::MAX;
        let reason = if !is_worth_it(&error) {
            Some(GaveUp::NotWorthIt)
        } else if is_last {
            Some(GaveUp::Attempts)
        } else {
            None
        };
        let delay = jittered(self.delay_ns);
        let now = clock::now_ns();
        let in_vain = match self.end_ns {
            Some(end) if now > end => Some(GaveUp::Time),
            Some(end) if now.saturating_add(delay) > end => Some(GaveUp::NextTooLate),
            _ => None,
        };
        if let Some(reason) = reason.or(in_vain) {
            return Err(RetryError {
                attempts: self.made,
                last: Some(error),
                reason,
            });
        }
        self.last = Some(error);
        self.delay_ns = self
            .delay_ns
            .saturating_mul(2)
            .min(nanoseconds(self.retry.longest_delay));
        Ok(Duration::from_nanos(delay))
    }
}

/// Returns half of the delay, and a random part of the other half.
fn jittered(delay_ns: u64) -> u64 {
    let half = delay_ns / 2;
    let below = usize::try_from(half).unwrap_or(usize::MAX).saturating_add(1);
    (delay_ns - half).saturating_add(Rng::thread_below(below) as u64)
}

/// Why there is no further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GaveUp {
    /// There were as many as are allowed.
    Attempts,
    /// The time is over.
    Time,
    /// The time would be over before the next attempt, because its delay is longer than the rest.
    NextTooLate,
    /// The error is none that goes away.
    NotWorthIt,
    /// The runtime shuts down: delays end at once.
    Shutdown,
}

/// The error of an operation that was tried again and again: see [`Retry`].
#[derive(Debug)]
#[non_exhaustive]
pub struct RetryError<E> {
    /// How many attempts there were.
    pub attempts: u32,
    /// The error of the last one that ended; `None` if the time was over before any had.
    pub last: Option<E>,
    /// Why there is no further one.
    pub reason: GaveUp,
}

impl<E: fmt::Display> fmt::Display for RetryError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.attempts == 1 { "" } else { "s" };
        write!(f, "gave up after {} attempt{plural}", self.attempts)?;
        f.write_str(match self.reason {
            GaveUp::Attempts => ", as many as are allowed",
            GaveUp::Time => ", because the time is over",
            GaveUp::NextTooLate => ", because the time would be over before the next attempt",
            GaveUp::NotWorthIt => ", because the error does not go away",
            GaveUp::Shutdown => ", because the runtime shuts down",
        })?;
        match &self.last {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl<E: Error + 'static> Error for RetryError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.last.as_ref().map(|error| error as _)
    }
}

impl From<RetryError<Self>> for io::Error {
    /// The kind is that of the last error, or [`TimedOut`](ErrorKind::TimedOut) without one.
    fn from(error: RetryError<Self>) -> Self {
        let kind = error.last.as_ref().map_or(ErrorKind::TimedOut, Self::kind);
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::jittered;

    #[test]
    fn a_delay_keeps_its_first_half() {
        for delay in [0, 1, 2, 7, 1_000_000, u64::MAX] {
            for _ in 0..50 {
                let jittered = jittered(delay);
                assert!((delay / 2..=delay).contains(&jittered), "{jittered} of {delay}");
            }
        }
    }
}
