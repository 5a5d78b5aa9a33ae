//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// The futures of a parallel stream are tasks: they do not borrow from the frame.
///
/// ```compile_fail,E0597
/// use warpweft::{stream::ParStream, sync::channel};
/// let (_sender, receiver) = channel::unbounded::<u32>();
/// let stream = {
///     let n = 1;
///     receiver.into_stream().map_each(|_| async { n + 1 }).par_buffered(2).unwrap()
/// };
/// ```
///
/// They own what they use.
///
/// ```
/// use warpweft::{stream::ParStream, sync::channel};
/// let (_sender, receiver) = channel::unbounded::<u32>();
/// let stream = {
///     let n = 1;
///     receiver.into_stream().map_each(move |_| async move { n + 1 }).par_buffered(2).unwrap()
/// };
/// ```
struct ItemBorrows;

/// They go to other threads.
///
/// ```compile_fail,E0277
/// use warpweft::{stream::ParStream, sync::channel};
/// let (_sender, receiver) = channel::unbounded::<u32>();
/// let shared = std::rc::Rc::new(1);
/// let items = receiver.into_stream().map_each(move |_| {
///     let shared = shared.clone();
///     async move { *shared }
/// });
/// drop(items.par_buffered(2));
/// ```
struct RcInAnItem;

/// The futures of a stage do so, too.
///
/// ```compile_fail,E0277
/// use warpweft::{stream::pipeline, sync::channel};
/// let (_sender, receiver) = channel::unbounded::<u32>();
/// drop(pipeline(receiver.into_stream()).stage(1, |n| async move { std::rc::Rc::new(n) }));
/// ```
struct RcOutOfAStage;

/// A separate task polls the source of a pipeline.
///
/// ```compile_fail,E0597
/// use warpweft::{stream::{ParStream, pipeline}, sync::channel};
/// let (_sender, receiver) = channel::unbounded::<u32>();
/// let n = 1;
/// let source = receiver.into_stream().map_each(|m| m + *&n);
/// let pipeline = {
///     let k = 2;
///     pipeline(source.map_each(|m| m + *&k)).build()
/// };
/// ```
struct SourceBorrows;
