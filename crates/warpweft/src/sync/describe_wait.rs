//! [`describe_wait`]: what a future of another crate waits for, in words, for dumps.
//!
//! A dump sees no further than this crate. A future that waits for something else is only known to wait, by
//! its task's state. So the code that awaits it may say for what.

use super::lazy_state::{LazyState, WaitState};
use super::wait::Wait;
use super::wait_list::{Waiter, waiter};
use crate::observe::raw::{RawWait, RawWhat};
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;

/// Awaits `future`, and says in [dumps](crate::Runtime::dump) what it waits for: "a reply of the bank".
///
/// It is for futures of other crates, about which a dump says "for something that is not known". It changes
/// nothing of what a dump finds: a task that waits for a lock of this crate in there is known to do so.
///
/// It costs an allocation at the first suspension, and a short lock for each further one. Nothing is paid by
/// a future that is ready at once. The text should be short, and may be a [`String`].
///
/// ```
/// use std::future::poll_fn;
/// use std::task::Poll;
/// use warpweft::{Runtime, describe_wait};
///
/// let runtime = Runtime::builder().workers(1).build()?;
/// let reply = poll_fn(|_| Poll::<()>::Pending);
/// let task = runtime.spawn(async { describe_wait("a reply of the bank", reply).await });
/// let waits = || runtime.dump().to_string().contains("for a reply of the bank, as its code says");
/// while !waits() {}
/// task.cancel();
/// # Ok::<(), warpweft::BuildError>(())
/// ```
pub fn describe_wait<F: IntoFuture>(
    what: impl Into<Cow<'static, str>>,
    future: F,
) -> Wait<impl Future<Output = F::Output>> {
    let what = what.into();
    Wait::new(async move {
        let mut future = pin!(future.into_future());
        let described = LazyState::<Described>::new("described wait");
        poll_fn(|cx| {
            let output = future.as_mut().poll(cx);
            if output.is_pending() {
                let waits = waiter(cx.waker());
                let mut state = described.node().state.lock();
                state.0.get_or_insert_with(|| (what.clone(), waits)).1 = waits;
            }
            output
        })
        .await
    })
}

/// What is waited for, and by which waiter; `None` before the first suspension.
struct Described(Option<(Cow<'static, str>, Waiter)>);

impl WaitState for Described {
    type Beside = ();

    fn empty(_kind: &'static str) -> Self {
        Self(None)
    }

    fn each(&self, (): &(), object: usize, see: &mut dyn FnMut(RawWait)) {
        if let Some((what, waits)) = &self.0 {
            see(RawWait {
                waiter: waits.waiter,
                task: waits.task,
                object,
                since_ns: Some(waits.since_ns),
                told: false,
                what: RawWhat::Described(what.to_string()),
            });
        }
    }
}
