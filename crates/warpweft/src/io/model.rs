//! A source for the model checkers: what the system would do to a socket, a model does to this.

use crate::driver::core::Driver;
use crate::driver::poller::Ready;
use crate::driver::source::{Direction, Source};
use crate::runtime::current_driver::current_driver;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::thread::yield_now;

/// A pipe for units.
#[derive(Debug)]
pub struct Pipe {
    driver: Arc<Driver>,
    source: Arc<Source>,
    key: usize,
    units: AtomicUsize,
}

impl Pipe {
    /// A pipe of the current runtime's driver.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn new() -> io::Result<Self> {
        let (driver, _) = current_driver()?;
        let (key, source) = driver.enter()?;
        Ok(Self {
            driver,
            source,
            key,
            units: AtomicUsize::new(0),
        })
    }

    /// A unit comes in.
    pub fn fire(&self) {
        self.units.fetch_add(1, Ordering::Release);
        self.driver.poller().fire(Ready {
            key: self.key,
            readable: true,
            writable: false,
            marked: false,
        });
    }

    /// Takes a unit.
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub async fn take(&self) -> io::Result<()> {
        let mut waiter_id = self.source.waiter_id(Direction::In);
        let attempt = || {
            self.units
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, |units| units.checked_sub(1))
                .map(drop)
                .map_err(|_| io::ErrorKind::WouldBlock.into())
        };
        poll_fn(|cx| waiter_id.poll(cx, || self.driver.check(), attempt, |()| false)).await
    }

    /// Takes all units there are, as a read does that has room for more.
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub async fn take_all(&self) -> io::Result<usize> {
        let mut waiter_id = self.source.waiter_id(Direction::In);
        let attempt = || {
            let units = self.units.swap(0, Ordering::Acquire);
            // It takes its time: what comes now is another worker's to find in the poller.
            yield_now();
            match units {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                units => Ok(units),
            }
        };
        poll_fn(|cx| waiter_id.poll(cx, || self.driver.check(), attempt, |_| true)).await
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.driver.strike(self.key);
    }
}
