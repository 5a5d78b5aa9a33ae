//! A source for the model checkers: a model plays the system's part.

use crate::driver::core::Driver;
use crate::driver::source::{Direction, Source};
use crate::driver::sources::Ready;
use crate::runtime::current_driver::current_driver;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use warpweft_platform::atomic::{AtomicUsize, Ordering};
use warpweft_platform::thread::yield_now;

/// A pipe for units instead of bytes.
#[derive(Debug)]
pub struct Pipe {
    driver: Arc<Driver>,
    source: Arc<Source>,
    key: usize,
    units: AtomicUsize,
}

impl Pipe {
    /// Returns a pipe of the current runtime's driver.
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

    /// Puts a unit in, as the system.
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

    /// Takes all units, as a read with room for more does.
    ///
    /// # Errors
    ///
    /// The runtime has shut down.
    pub async fn take_all(&self) -> io::Result<usize> {
        let mut waiter_id = self.source.waiter_id(Direction::In);
        let attempt = || {
            let units = self.units.swap(0, Ordering::Acquire);
            // The read takes its time: another worker finds in the poller what arrives now.
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
