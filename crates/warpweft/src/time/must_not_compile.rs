//! Programs with timers that the compiler must refuse. `cargo test --doc` checks that it does so, each for
//! its own reason.

/// Timers go to other threads.
///
/// ```
/// use warpweft::time::{Elapsed, Interval, Sleep};
/// fn anywhere<T: Send + Sync + Unpin + 'static>() {}
/// anywhere::<Sleep>();
/// anywhere::<Interval>();
/// anywhere::<Elapsed>();
/// ```
///
/// A time limit is `Send` if its future is.
///
/// ```
/// use std::{future::ready, sync::Arc, time::Duration};
/// fn anywhere<T: Send>(_: T) {}
/// anywhere(warpweft::time::timeout(Duration::MAX, ready(Arc::new(1))));
/// ```
///
/// So this one stays on its thread.
///
/// ```compile_fail
/// use std::{future::ready, rc::Rc, time::Duration};
/// fn anywhere<T: Send>(_: T) {}
/// anywhere(warpweft::time::timeout(Duration::MAX, ready(Rc::new(1))));
/// ```
struct WhatMayGoWhere;

/// Only one task at a time waits for the next tick.
///
/// ```compile_fail,E0499
/// # async fn f(mut interval: warpweft::time::Interval) {
/// let (one, other) = (interval.tick(), interval.tick());
/// one.await;
/// other.await;
/// # }
/// ```
///
/// ```
/// # async fn f(mut interval: warpweft::time::Interval) {
/// interval.tick().await;
/// interval.tick().await;
/// # }
/// ```
struct TwoTicksAtATime;

/// A tick does not outlive its interval.
///
/// ```compile_fail,E0597
/// # async fn f() {
/// let tick = {
///     let mut interval = warpweft::time::interval(std::time::Duration::from_millis(1));
///     interval.tick()
/// };
/// tick.await;
/// # }
/// ```
struct TickWithoutAnInterval;

/// A time limit does not outlive what its future borrows.
///
/// ```compile_fail,E0597
/// # use std::time::Duration;
/// # async fn f(stream: warpweft::net::TcpStream) {
/// let read = {
///     let mut buffer = [0; 8];
///     warpweft::time::timeout(Duration::from_millis(1), stream.read(&mut buffer))
/// };
/// read.await.unwrap().unwrap();
/// # }
/// ```
struct LimitOfABorrow;
