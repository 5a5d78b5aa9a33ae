//! The global pool, which is built when it is first used.

use crate::builder::{ThreadPoolBuildError, ThreadPoolBuilder};
use crate::registry::{Registry, Target, User, with_current};
use crate::thread_builder::ThreadSpawn;
use std::sync::{Mutex, OnceLock, PoisonError};

static GLOBAL: OnceLock<User> = OnceLock::new();
/// Is held while the pool is built.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds the global pool.
///
/// # Errors
///
/// It exists already, or it cannot be built.
pub(crate) fn build<S: ThreadSpawn>(
    builder: ThreadPoolBuilder<S>,
) -> Result<&'static Registry, ThreadPoolBuildError> {
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if GLOBAL.get().is_some() {
        return Err(ThreadPoolBuildError::already_initialized());
    }
    let registry = builder.build_registry()?;
    Ok(GLOBAL.get_or_init(|| registry))
}

/// Returns the global pool.
///
/// # Panics
///
/// If it cannot be built.
pub(crate) fn get() -> &'static Registry {
    if let Some(registry) = GLOBAL.get() {
        return registry;
    }
    match build(ThreadPoolBuilder::new()) {
        Ok(registry) => registry,
        // Another thread may have built it.
        Err(error) => match GLOBAL.get() {
            Some(registry) => registry,
            None => panic!("the global thread pool cannot be built: {error}"),
        },
    }
}

/// Calls `body` with the pool of the calling thread, or else with the global one.
pub(crate) fn with_target<R>(body: impl FnOnce(Target<'_>) -> R) -> R {
    with_current(|current| match current {
        Some(target) => body(target),
        None => body(Target::of(get())),
    })
}
