//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// Both halves write to the same place.
///
/// ```compile_fail,E0499
/// let mut n = 0;
/// warpweft::join(|| n += 1, || n += 1);
/// ```
///
/// With a place for each it compiles.
///
/// ```
/// let (mut n, mut m) = (0, 0);
/// warpweft::join(|| n += 1, || m += 1);
/// ```
struct BothHalvesWrite;

/// The second half may run on another thread: no `Rc`.
///
/// ```compile_fail,E0277
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let _ = runtime.install(|cx| {
///     let shared = std::rc::Rc::new(1);
///     cx.join(|_| (), |_| drop(shared));
/// });
/// ```
struct RcInTheSecondHalf;

/// Nor may its result be bound to the thread that it ran on.
///
/// ```compile_fail,E0277
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let _ = runtime.install(|cx| {
///     let (_, shared) = cx.join(|_| (), |_| std::rc::Rc::new(1));
/// });
/// ```
struct RcOutOfTheSecondHalf;

/// The right to fork on this stack does not go to another thread.
///
/// ```compile_fail,E0277
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let _ = runtime.install(|cx| {
///     cx.join(|_| (), |_| { cx.join(|_| (), |_| ()); });
/// });
/// ```
struct ContextInTheSecondHalf;

/// Nor does it leave the closure that it was given to.
///
/// ```compile_fail,E0521
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let _ = runtime.install(|cx| {
///     let mut kept = None;
///     cx.join(|inner| kept = Some(inner), |_| ());
/// });
/// ```
struct ContextKept;

/// A job of a scope does not borrow from inside the scope's body, which ends before the job.
///
/// ```compile_fail,E0373
/// warpweft::scope(|scope| {
///     let n = 1;
///     scope.spawn(|_| println!("{n}"));
/// });
/// ```
struct JobBorrowsFromTheBody;

/// A scope is not kept.
///
/// ```compile_fail,E0521
/// let mut kept = None;
/// warpweft::scope(|scope| kept = Some(scope));
/// ```
struct ScopeKept;

/// Jobs of a scope may run on other threads.
///
/// ```compile_fail,E0277
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let _ = runtime.install(|cx| {
///     let shared = std::cell::Cell::new(1);
///     cx.scope(|scope| scope.spawn(|_| shared.set(2)));
/// });
/// ```
struct CellInAJob;

/// Two jobs write to the same place.
///
/// ```compile_fail,E0499
/// let mut n = 0;
/// warpweft::scope(|scope| {
///     scope.spawn(|_| n += 1);
///     scope.spawn(|_| n += 1);
/// });
/// ```
struct TwoJobsWrite;

/// The second half of a join of futures is a task: it owns what it uses.
///
/// ```compile_fail,E0597
/// let n = 1;
/// let both = {
///     let n = 2;
///     warpweft::join_async(async {}, async { &n; })
/// };
/// ```
///
/// The first half stays in the frame that awaits, and may borrow from it.
///
/// ```
/// let n = 1;
/// let both = warpweft::join_async(async { assert_eq!(n, 1) }, async {});
/// warpweft::block_on(both);
/// ```
struct SecondFutureBorrows;

/// It also goes to other threads, with its result.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// drop(warpweft::join_async(async {}, async move { drop(shared) }));
/// ```
///
/// ```compile_fail,E0277
/// drop(warpweft::join_async(async {}, async { std::rc::Rc::new(1) }));
/// ```
struct RcInTheSecondFuture;

/// If the first half is bound to a thread, the join is, too.
///
/// ```compile_fail,E0277
/// let shared = std::rc::Rc::new(1);
/// let both = warpweft::join_async(async move { drop(shared) }, async {});
/// drop(warpweft::spawn(both));
/// ```
struct RcInTheFirstFuture;

/// A future of a scope does not borrow from inside the scope's body, which ends before the future.
///
/// ```compile_fail,E0373
/// warpweft::scope(|scope| {
///     let n = 1;
///     drop(scope.spawn_future(async { println!("{n}") }));
/// });
/// ```
///
/// A future may borrow from outside of it.
///
/// ```
/// let n = 1;
/// warpweft::scope(|scope| drop(scope.spawn_future(async { println!("{n}") })));
/// ```
struct FutureBorrowsFromTheBody;

/// The handle of such a future does not leave the scope.
///
/// ```compile_fail
/// let n = 1;
/// let handle = warpweft::scope(|scope| scope.spawn_future(async { n }));
/// ```
struct HandleLeaves;

/// Two futures of a scope write to the same place.
///
/// ```compile_fail,E0499
/// let mut n = 0;
/// warpweft::scope(|scope| {
///     drop(scope.spawn_future(async { n += 1 }));
///     drop(scope.spawn_future(async { n += 1 }));
/// });
/// ```
struct TwoFuturesWrite;

/// Futures of a scope go to other threads, and so do their results.
///
/// ```compile_fail,E0277
/// warpweft::scope(|scope| drop(scope.spawn_future(async { std::rc::Rc::new(1) })));
/// ```
struct RcInAFutureOfAScope;

/// A scope that is a future cannot lend: it may be forgotten, and its frame ends.
///
/// ```compile_fail,E0597
/// let n = 1;
/// let scope = {
///     let n = 2;
///     warpweft::scope_async(|scope| async { drop(scope.spawn(async { &n; })) })
/// };
/// ```
///
/// Its tasks own what they use.
///
/// ```
/// let n = std::sync::Arc::new(1);
/// let scope = warpweft::scope_async(|scope| async move {
///     let n = n.clone();
///     drop(scope.spawn(async move { assert_eq!(*n, 1) }));
/// });
/// warpweft::block_on(scope);
/// ```
struct AsyncScopeLends;

/// A job of a bounded scope does not spawn there: it might wait for a place that none gives back.
///
/// ```compile_fail,E0521
/// warpweft::scope_bounded(1, |scope| {
///     scope.spawn(|| scope.spawn(|| ()));
/// });
/// ```
struct JobSpawnsInItsBoundedScope;
