//! hyper's executor and its timer.

use hyper::rt::{Executor, Sleep, Timer};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use warpweft::time;

/// Spawns hyper's tasks in the pool of the calling task, or outside of any pool in the [default
/// runtime](warpweft::default_runtime).
///
/// Costs one allocation per task. The panic hook reports the panic of a task, which harms no other task.
///
/// # Panics
///
/// Outside of any pool, if the default runtime cannot be built.
///
/// ```
/// use hyper::rt::Executor as _;
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let seen = runtime.block_on(async {
///     let (sender, receiver) = warpweft::sync::oneshot::channel();
///     warpweft_tokio::WarpweftExecutor::new().execute(async { drop(sender.send(7)) });
///     receiver.await
/// });
/// assert_eq!(seen, Ok(7));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct WarpweftExecutor(());

impl WarpweftExecutor {
    /// Returns the executor. All values are equal.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl<F> Executor<F> for WarpweftExecutor
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        warpweft::spawn(future).detach();
    }
}

/// hyper's timer: the sleeps of [`warpweft::time`], with its accuracy and its panics.
///
/// A sleep costs one allocation, because hyper wants it in a box; to reset it costs none.
///
/// ```
/// use hyper::rt::Timer as _;
/// use std::time::{Duration, Instant};
/// let runtime = warpweft::Runtime::builder().workers(1).build()?;
/// let start = Instant::now();
/// runtime.block_on(warpweft_tokio::WarpweftTimer::new().sleep(Duration::from_millis(2)));
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// # Ok::<(), warpweft::BuildError>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct WarpweftTimer(());

impl WarpweftTimer {
    /// Returns the timer. All values are equal.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Timer for WarpweftTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(WarpweftSleep(time::sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(WarpweftSleep(time::sleep_until(deadline)))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<WarpweftSleep>() {
            Some(own) => own.get_mut().0.reset(deadline),
            // The sleep is another timer's: hyper was given two.
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// A [`Sleep`](time::Sleep) with hyper's trait.
#[derive(Debug)]
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct WarpweftSleep(time::Sleep);

impl Future for WarpweftSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Sleep for WarpweftSleep {}

#[cfg(test)]
mod tests {
    use super::{WarpweftSleep, WarpweftTimer};
    use hyper::rt::{Sleep, Timer as _};
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::{Duration, Instant};

    struct Foreign;

    impl Future for Foreign {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl Sleep for Foreign {}

    #[test]
    fn a_sleep_of_ours_is_reset_in_place_and_a_foreign_one_is_replaced() {
        let runtime = warpweft::Runtime::builder().workers(1).build().expect("a worker");
        runtime.block_on(async {
            let timer = WarpweftTimer::new();
            let mut sleep = timer.sleep(Duration::from_secs(3600));
            let place = std::ptr::from_ref(&*sleep).cast::<()>();
            timer.reset(&mut sleep, Instant::now() + Duration::from_millis(1));
            assert_eq!(std::ptr::from_ref(&*sleep).cast::<()>(), place);
            sleep.await;
            let mut sleep: Pin<Box<dyn Sleep>> = Box::pin(Foreign);
            timer.reset(&mut sleep, Instant::now() + Duration::from_millis(1));
            assert!(sleep.as_mut().downcast_mut_pin::<WarpweftSleep>().is_some());
            sleep.await;
        });
    }
}
