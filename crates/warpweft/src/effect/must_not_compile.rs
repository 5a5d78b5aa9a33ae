//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// A continuation is resumed once.
///
/// ```compile_fail,E0382
/// use warpweft::effect::{Effect, Handler, handle, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = u32;
/// }
/// handle(|| perform(Ask), Handler::new().on(|Ask, k| {
///     drop(k.resume(1));
///     k.resume(2)
/// }));
/// ```
///
/// Once compiles.
///
/// ```
/// use warpweft::effect::{Effect, Handler, handle, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = u32;
/// }
/// assert_eq!(handle(|| perform(Ask), Handler::new().on(|Ask, k| k.resume(2))), 2);
/// ```
struct ResumedTwice;

/// A coroutine is not run twice either.
///
/// ```compile_fail,E0382
/// use warpweft::effect::{Handler, Coroutine};
/// let body = Coroutine::new(|| 1);
/// Handler::new().run(body);
/// Handler::new().run(body);
/// ```
struct RunTwice;

/// A continuation stays on its thread, as the body does.
///
/// ```compile_fail,E0277
/// use warpweft::effect::{Continuation, Effect};
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = u32;
/// }
/// fn is_send<T: Send>() {}
/// is_send::<Continuation<Ask, ()>>();
/// ```
struct ContinuationIsSent;

/// It is not shared either.
///
/// ```compile_fail,E0277
/// use warpweft::effect::{Continuation, Effect};
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = u32;
/// }
/// fn is_sync<T: Sync>() {}
/// is_sync::<Continuation<Ask, ()>>();
/// ```
struct ContinuationIsShared;

/// A coroutine stays, too.
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<warpweft::effect::Coroutine<u32>>();
/// ```
struct CoroutineIsSent;

/// It is not shared either.
///
/// ```compile_fail,E0277
/// fn is_sync<T: Sync>() {}
/// is_sync::<warpweft::effect::Coroutine<u32>>();
/// ```
struct CoroutineIsShared;

/// A handler may have clauses that are not `Send`, and is `Send` only if they all are.
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<warpweft::effect::Handler<'static, u32>>();
/// ```
struct HandlerIsSent;

/// A future that holds a continuation across an `await` stays on its thread, too.
///
/// ```compile_fail
/// use warpweft::effect::Coroutine;
/// warpweft::spawn(async {
///     let body = Coroutine::new(|| 1);
///     warpweft::yield_now().await;
///     drop(body);
/// });
/// ```
struct CoroutineAcrossAwait;

/// A body may outlive this frame, so it cannot borrow from it.
///
/// ```compile_fail,E0373
/// let word = String::from("short-lived");
/// warpweft::effect::handle(|| word.len(), warpweft::effect::Handler::new());
/// ```
struct BodyBorrows;

/// An effect leaves its frame: it does not borrow.
///
/// ```compile_fail,E0478
/// struct Show<'a>(&'a str);
/// impl<'a> warpweft::effect::Effect for Show<'a> {
///     type Answer = ();
/// }
/// ```
struct EffectBorrows;

/// A clause may borrow, as long as the handler lives.
///
/// ```compile_fail,E0505
/// use warpweft::effect::{Effect, Handler, Coroutine, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Answer = usize;
/// }
/// let word = String::from("borrowed");
/// let mut handler = Handler::new().on(|Ask, k| k.resume(word.len()));
/// drop(word);
/// handler.run(Coroutine::new(|| perform(Ask)));
/// ```
struct ClauseBorrowsWhatIsGone;
