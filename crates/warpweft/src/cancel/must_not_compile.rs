//! Programs that must not compile.
//!
//! What runs under a token keeps its bounds: a task owns what it uses.
//!
//! ```compile_fail,E0373
//! let numbers = [1, 2, 3];
//! let token = warpweft::cancel::CancelToken::new();
//! let _ = token.run(|| warpweft::spawn_job(|| numbers.len()));
//! ```
//!
//! The waiting future of a token owns a share of it, so it may outlive the token; the future that runs under
//! a token borrows what it borrows.
//!
//! ```compile_fail,E0597
//! let token = warpweft::cancel::CancelToken::new();
//! let run = {
//!     let number = 1;
//!     token.run_async(async { &number; })
//! };
//! let _ = warpweft::block_on(run);
//! ```
//!
//! Running a future that is not `Send` under a token does not make it `Send`.
//!
//! ```compile_fail,E0277
//! let token = warpweft::cancel::CancelToken::new();
//! let local = std::rc::Rc::new(1);
//! warpweft::spawn(token.run_async(async move {
//!     std::future::pending::<()>().await;
//!     drop(local);
//! }));
//! ```
