//! What blocking closures must not be able to do. Each example fails to compile, for the reason in its
//! heading.
//!
//! # A closure that is sent elsewhere borrows nothing
//!
//! ```compile_fail,E0373
//! let word = String::from("woven");
//! let length = warpweft::spawn_blocking(|| word.len());
//! drop(length);
//! ```
//!
//! # … and takes nothing with it that is not `Send`
//!
//! ```compile_fail,E0277
//! let word = std::rc::Rc::new(1);
//! drop(warpweft::spawn_blocking(move || *word));
//! ```
//!
//! # … nor brings it back
//!
//! ```compile_fail,E0277
//! drop(warpweft::spawn_blocking(|| std::rc::Rc::new(1)));
//! ```
//!
//! # `try_spawn_blocking` asks the same
//!
//! ```compile_fail,E0277
//! let word = std::rc::Rc::new(1);
//! drop(warpweft::try_spawn_blocking(move || *word));
//! ```
//!
//! # What `blocking` borrows does not leave its frame
//!
//! ```compile_fail,E0597
//! let word: &str = {
//!     let inside = String::from("woven");
//!     warpweft::blocking(|| inside.as_str())
//! };
//! assert_eq!(word, "woven");
//! ```
//!
//! # The futures themselves may be sent
//!
//! ```
//! fn sent(_: impl Send + Sync) {}
//! let runtime = warpweft::Runtime::builder().workers(1).build()?;
//! sent(runtime.spawn_blocking(|| 1));
//! sent(runtime.spawn_blocking(|| 1).admitted());
//! # Ok::<(), warpweft::BuildError>(())
//! ```
