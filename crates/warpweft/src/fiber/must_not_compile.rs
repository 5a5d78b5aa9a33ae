//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// A fiber that has not started may start on another thread: no `Rc`.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// let _ = warpweft::fiber::spawn(move || drop(shared));
/// ```
///
/// An `Rc` that it makes itself is allowed, across waits: it stays on its thread.
///
/// ```
/// let fiber = warpweft::fiber::spawn(|| {
///     let shared = std::rc::Rc::new(1);
///     warpweft::fiber::wait(warpweft::yield_now());
///     *shared
/// });
/// assert_eq!(fiber.wait().ok(), Some(1));
/// ```
struct RcIntoAFiber;

/// Nor may its result be bound to the thread that it ran on.
///
/// ```compile_fail,E0277
/// let _ = warpweft::fiber::spawn(|| std::rc::Rc::new(1));
/// ```
struct RcOutOfAFiber;

/// A fiber without a scope may outlive this frame, so it cannot borrow from it.
///
/// ```compile_fail,E0373
/// let word = String::from("short-lived");
/// let _ = warpweft::fiber::spawn(|| word.len());
/// ```
struct BorrowWithoutAScope;

/// What a scope's fibers borrow must live longer than the scope.
///
/// ```compile_fail,E0597
/// warpweft::fiber::scope(|scope| {
///     let word = String::from("short-lived");
///     scope.spawn(|_| drop(word.len()));
/// });
/// ```
///
/// What is outside of the scope does.
///
/// ```
/// let word = String::from("long-lived");
/// warpweft::fiber::scope(|scope| {
///     scope.spawn(|_| assert_eq!(word.len(), 10));
/// });
/// ```
struct BorrowFromInsideAScope;

/// The scope itself does not leave its body.
///
/// ```compile_fail
/// let mut escaped = None;
/// warpweft::fiber::scope(|scope| escaped = Some(scope));
/// ```
struct ScopeEscapes;

/// Two fibers of a scope do not write to the same place.
///
/// ```compile_fail,E0499
/// let mut n = 0;
/// warpweft::fiber::scope(|scope| {
///     scope.spawn(|_| n += 1);
///     scope.spawn(|_| n += 1);
/// });
/// ```
struct BothWrite;

/// The maker of a local future may start on another thread: it captures no `Rc`.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// let _ = warpweft::spawn_local(move || async move { drop(shared) });
/// ```
///
/// Nor does a pinned one: the caller is not that worker.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// let _ = warpweft::TaskBuilder::new().spawn_pinned_local(0, move || async move { drop(shared) });
/// ```
///
/// What it makes may hold one, over its waits:
///
/// ```
/// let local = warpweft::spawn_local(|| async {
///     let shared = std::rc::Rc::new(1);
///     warpweft::yield_now().await;
///     *shared
/// });
/// assert_eq!(local.wait().ok(), Some(1));
/// ```
///
/// A future that is spawned as such may not: it moves between threads.
///
/// ```compile_fail
/// let _ = warpweft::spawn(async {
///     let shared = std::rc::Rc::new(1);
///     warpweft::yield_now().await;
///     *shared
/// });
/// ```
struct RcIntoALocalFuture;

/// The result of a local future leaves its thread.
///
/// ```compile_fail,E0277
/// let _ = warpweft::spawn_local(|| async { std::rc::Rc::new(1) });
/// ```
struct RcOutOfALocalFuture;

/// A local future may outlive this frame, so it cannot borrow from it.
///
/// ```compile_fail,E0373
/// let word = String::from("short-lived");
/// let _ = warpweft::spawn_local(|| async { word.len() });
/// ```
struct LocalFutureThatBorrows;
