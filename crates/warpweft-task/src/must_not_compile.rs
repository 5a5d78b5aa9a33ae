//! Programs that the compiler must reject. Each is next to a similar program that compiles, so that it fails
//! for the right reason.
//!
//! A handle goes to another thread only with a result that may:
//!
//! ```
//! fn assert_send_and_sync<T: Send + Sync>() {}
//! assert_send_and_sync::<warpweft_task::JoinHandle<std::cell::Cell<u8>>>();
//! ```
//!
//! ```compile_fail
//! fn assert_send<T: Send>() {}
//! assert_send::<warpweft_task::JoinHandle<std::rc::Rc<u8>>>();
//! ```
//!
//! ```compile_fail
//! fn assert_sync<T: Sync>() {}
//! assert_sync::<warpweft_task::JoinHandle<std::rc::Rc<u8>>>();
//! ```
//!
//! A closure runs on another thread, so what it captures and what it returns must be `Send`:
//!
//! ```
//! use std::sync::Arc;
//! use warpweft_task::spawn::{SpawnInfo, job};
//! fn spawn(info: SpawnInfo) {
//!     let shared = Arc::new(1);
//!     // SAFETY: never called.
//!     let _ = unsafe { job(move || *shared, info) };
//! }
//! ```
//!
//! ```compile_fail
//! use std::rc::Rc;
//! use warpweft_task::spawn::{SpawnInfo, job};
//! fn spawn(info: SpawnInfo) {
//!     let shared = Rc::new(1);
//!     // SAFETY: never called.
//!     let _ = unsafe { job(move || *shared, info) };
//! }
//! ```
//!
//! ```compile_fail
//! use std::rc::Rc;
//! use warpweft_task::spawn::{SpawnInfo, job};
//! fn spawn(info: SpawnInfo) {
//!     // SAFETY: never called.
//!     let _ = unsafe { job(move || Rc::new(1), info) };
//! }
//! ```
//!
//! It outlives the function that spawned it:
//!
//! ```compile_fail
//! use warpweft_task::spawn::{SpawnInfo, job};
//! fn spawn(info: SpawnInfo) {
//!     let local = 1;
//!     // SAFETY: never called.
//!     let _ = unsafe { job(|| local + 1, info) };
//! }
//! ```
//!
//! So does a future, which must not keep anything across an `await` that is bound to its thread:
//!
//! ```
//! use std::rc::Rc;
//! use warpweft_task::spawn::{SpawnInfo, future};
//! fn spawn(info: SpawnInfo) {
//!     // SAFETY: never called.
//!     let _ = unsafe {
//!         future(
//!             async {
//!                 drop(Rc::new(1));
//!                 std::future::ready(()).await;
//!             },
//!             info,
//!         )
//!     };
//! }
//! ```
//!
//! ```compile_fail
//! use std::rc::Rc;
//! use warpweft_task::spawn::{SpawnInfo, future};
//! fn spawn(info: SpawnInfo) {
//!     // SAFETY: never called.
//!     let _ = unsafe {
//!         future(
//!             async {
//!                 let kept = Rc::new(1);
//!                 std::future::ready(()).await;
//!                 drop(kept);
//!             },
//!             info,
//!         )
//!     };
//! }
//! ```
//!
//! A policy can keep a `TaskRef` and drop it. It cannot run, push, end or copy it.
//!
//! ```
//! fn hook(task: warpweft_task::TaskRef) -> Option<u64> {
//!     Some(task.policy_word())
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn hook(task: warpweft_task::TaskRef) {
//!     let _ = task.run();
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn hook(task: warpweft_task::TaskRef) {
//!     task.push(warpweft_task::Why::Woken);
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn hook(task: warpweft_task::TaskRef) {
//!     task.abandon(warpweft_task::Abandon::Cancelled);
//! }
//! ```
//!
//! ```compile_fail,E0133
//! fn hook(task: warpweft_task::TaskRef) {
//!     let _ = task.into_runnable().run();
//! }
//! ```
//!
//! ```compile_fail,E0308
//! fn hook(task: &warpweft_task::TaskRef) -> warpweft_task::TaskRef {
//!     let copy: warpweft_task::TaskRef = task.clone();
//!     copy
//! }
//! ```
//!
//! ```compile_fail,E0133
//! fn hook(pending: &mut warpweft_task::Pending) {
//!     pending.register(7);
//! }
//! ```
//!
//! A policy cannot exchange a waiting task for another one.
//!
//! ```
//! fn told(mut waiting: warpweft_task::Waiting<'_>, _: &mut warpweft_task::TaskRef) {
//!     waiting.set_policy_word(1);
//! }
//! ```
//!
//! ```compile_fail
//! fn told(mut waiting: warpweft_task::Waiting<'_>, other: &mut warpweft_task::TaskRef) {
//!     std::mem::swap(&mut *waiting, other);
//! }
//! ```
