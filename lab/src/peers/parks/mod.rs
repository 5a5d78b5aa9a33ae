//! The idiom of tasks that park and are unparked by name: the least that a scheduler can be asked for.
//!
//! | verbs | warpweft | its fibers | tokio | smol | may | threads |
//! |---|---|---|---|---|---|---|
//! | park | pending, until its waker was called | the same, in one `fiber::wait` for the whole body | as warpweft | as warpweft | `coroutine::park` | `thread::park` |
//! | unpark | `Waker::wake_by_ref` | the same | the same | the same | `Coroutine::unpark` | `Thread::unpark` |
//!
//! Where tasks are futures, waking one *is* unparking it, so all of them have the same [`Place`]: a flag, and
//! the waker that the task had when it came. A task has one waker for its life in each of these runtimes (a
//! debug build checks that).

use super::apps::{self, Apps};
use super::{may, smol, tokio, waits, warpweft};

mod place;

pub(crate) use place::Place;

use place::{CoroutinePlace, ThreadPlace, WakerPlace};

/// From inside a pool whose tasks park.
pub(crate) trait Parks: Apps {
    /// Where one task parks.
    type Place: Place;
}

impl Parks for warpweft::Verbs {
    type Place = WakerPlace;
}

impl Parks for waits::FiberVerbs {
    type Place = WakerPlace;
}

impl Parks for tokio::Verbs {
    type Place = WakerPlace;
}

impl Parks for smol::Verbs {
    type Place = WakerPlace;
}

impl Parks for may::Verbs {
    type Place = CoroutinePlace;
}

impl Parks for apps::threads::Verbs {
    type Place = ThreadPlace;
}
