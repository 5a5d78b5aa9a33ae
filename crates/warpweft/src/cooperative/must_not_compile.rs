//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so.
//!
//! The messages of the macros are tested in `warpweft-macros`.

/// A constant function cannot read its thread's budget.
///
/// ```compile_fail
/// #[warpweft::cooperative]
/// const fn sum(n: u64) -> u64 { n }
/// ```
struct ConstFn;

/// The quantum is a setting of the runtime, and no argument of the macro.
///
/// ```compile_fail
/// #[warpweft::cooperative(100)]
/// fn sum(n: u64) -> u64 { n }
/// ```
///
/// Without the argument it compiles.
///
/// ```
/// #[warpweft::cooperative]
/// fn sum(n: u64) -> u64 { n }
/// ```
struct Arguments;

/// A check in an `async fn` is an `await`: what is alive there is part of the future.
///
/// ```compile_fail,E0277
/// #[warpweft::cooperative]
/// async fn count(n: u64) {
///     let shared = std::rc::Rc::new(0);
///     for i in 0..n {
///         while *shared > i {}
///     }
/// }
/// warpweft::spawn(count(1));
/// ```
///
/// Without checks it compiles: nothing is awaited.
///
/// ```
/// async fn count(n: u64) {
///     let shared = std::rc::Rc::new(0);
///     for i in 0..n {
///         while *shared > i {}
///     }
/// }
/// warpweft::spawn(count(1)).detach();
/// ```
struct RcAcrossACheck;

/// There is no runtime without workers.
///
/// ```compile_fail
/// #[warpweft::main(workers = 0)]
/// async fn main() {}
/// ```
///
/// ```
/// #[warpweft::main(workers = 1, policy = "lifo")]
/// async fn main() {}
/// ```
struct NoWorkers;

/// Code in direct style does not await.
///
/// ```compile_fail
/// #[warpweft::main]
/// fn main() {}
/// ```
struct PlainMain;
