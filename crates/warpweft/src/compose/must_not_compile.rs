//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// A closure for another pool runs on another thread: what it borrows must be `Sync`.
///
/// ```compile_fail,E0277
/// # fn with(pool: &warpweft::Pool) {
/// let count = std::cell::Cell::new(0);
/// let _ = pool.run(|| count.set(1));
/// # }
/// ```
///
/// It may borrow what is `Sync`:
///
/// ```
/// # fn with(pool: &warpweft::Pool) {
/// let mut count = 0;
/// let _ = pool.run(|| count = 1);
/// # }
/// ```
struct RunsWhatIsNotSend;

/// Its result comes back to the caller's thread.
///
/// ```compile_fail,E0277
/// # fn with(pool: &warpweft::Pool) {
/// let _ = pool.run(|| std::rc::Rc::new(1));
/// # }
/// ```
struct ReturnsWhatIsNotSend;

/// A task that moves to another pool takes everything with it that it owns.
///
/// ```compile_fail
/// # fn with(pool: warpweft::Pool) {
/// let _ = warpweft::spawn(async move {
///     let shared = std::rc::Rc::new(1);
///     let _ = pool.enter().await;
///     drop(shared);
/// });
/// # }
/// ```
///
/// ```
/// # fn with(pool: warpweft::Pool) {
/// let _ = warpweft::spawn(async move {
///     let shared = std::sync::Arc::new(1);
///     let _ = pool.enter().await;
///     drop(shared);
/// });
/// # }
/// ```
struct TakesAlongWhatIsNotSend;

/// The future that enters a pool does not outlive the handle to it.
///
/// ```compile_fail,E0597
/// # fn with(pool: &warpweft::Pool) {
/// let enter = {
///     let handle = pool.clone();
///     handle.enter()
/// };
/// drop(enter);
/// # }
/// ```
struct EnterOutlivesItsPool;
