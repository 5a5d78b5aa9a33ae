//! Streams, pipelines and bounded scopes under a token.

use super::{Alive, HOUR, in_time, runtime, until};
use futures_core::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use warpweft::cancel::CancelToken;
use warpweft::stream::{ParStream, next, pipeline};
use warpweft::time::sleep;
use warpweft::{JoinError, scope_bounded};

/// Numbers without an end.
struct Numbers(u32, Arc<AtomicUsize>);

impl Stream for Numbers {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        self.0 += 1;
        self.1.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(self.0))
    }
}

/// How the items of a source are worked at.
#[derive(Debug, Clone, Copy)]
enum Form {
    Ordered,
    Unordered,
    Pipeline,
}

/// Takes the first items, and waits for one that never comes.
async fn consume(form: Form, alive: Alive, taken: Arc<AtomicUsize>, begun: Arc<AtomicUsize>) {
    let source = Numbers(0, taken);
    let item = move |n| {
        let (held, begun) = (alive.hold(), Arc::clone(&begun));
        async move {
            begun.fetch_add(1, Ordering::Relaxed);
            let _held = held;
            if n > 3 {
                sleep(HOUR).await;
            }
            n
        }
    };
    type Results = Pin<Box<dyn Stream<Item = Result<u32, JoinError>> + Send>>;
    let mut results: Results = match form {
        Form::Ordered => Box::pin(source.map_each(item).par_buffered(4).expect("room")),
        Form::Unordered => Box::pin(source.map_each(item).par_buffered_unordered(4).expect("room")),
        Form::Pipeline => {
            let stages = pipeline(source).stage(4, item).stage(2, |n| async move { n });
            Box::pin(stages.build().expect("room"))
        }
    };
    while let Some(result) = next(&mut results).await {
        if let Err(error) = result {
            // Its tasks may have ended before the code that waits for them is looked at.
            assert!(matches!(error, JoinError::Cancelled), "{error:?}");
            sleep(HOUR).await;
        }
    }
}

#[test]
fn a_stream_ends_with_its_items_and_takes_no_more() {
    for form in [Form::Ordered, Form::Unordered, Form::Pipeline] {
        let runtime = runtime(2);
        let (token, alive) = (CancelToken::new(), Alive::default());
        let (taken, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let task = runtime.spawn(token.run_async(consume(form, alive.clone(), taken.clone(), begun.clone())));
        until(|| begun.load(Ordering::Relaxed) >= 7);
        token.cancel();
        assert!(task.wait().expect("no panic").is_err(), "{form:?}");
        until(|| alive.count() == 0);
        let at_the_end = taken.load(Ordering::Relaxed);
        drop(runtime);
        assert_eq!(taken.load(Ordering::Relaxed), at_the_end, "{form:?}");
    }
}

#[test]
fn a_bounded_scope_ends_while_it_waits_for_room() {
    in_time(|| {
        let runtime = runtime(2);
        let (token, begun) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let (ours, counts) = (token.clone(), Arc::clone(&begun));
        let fiber = runtime.spawn_fiber(move || {
            ours.run(|| {
                let spawned = scope_bounded(2, |scope| {
                    for _ in 0..1000 {
                        let counts = Arc::clone(&counts);
                        scope.spawn(move || {
                            counts.fetch_add(1, Ordering::Relaxed);
                            warpweft::block_on(sleep(HOUR));
                        });
                    }
                });
                spawned.expect("room for two");
            })
        });
        until(|| begun.load(Ordering::Relaxed) == 2);
        token.cancel();
        assert!(fiber.wait().expect("no panic").is_err());
        assert_eq!(begun.load(Ordering::Relaxed), 2, "no job began afterwards");
    });
}
