//! The entry of an object that two ends share in the register of objects that dumps look at.

use super::raw::{Watched, objects};
use std::ptr::NonNull;
use std::sync::OnceLock;
use warpweft_task::registry::Entry;

/// An entry that is made at the first wait, and removed with the object.
#[derive(Debug, Default)]
pub(crate) struct Listed(OnceLock<Entry>);

impl Listed {
    /// Enters the object, unless it is there.
    ///
    /// # Safety
    ///
    /// `self` is a part of the object, and dropped before the rest of it. The object does not move.
    pub(crate) unsafe fn register(&self, object: &(dyn Watched + '_)) {
        if self.0.get().is_some() {
            return;
        }
        let Some(objects) = objects() else { return };
        self.0.get_or_init(|| {
            // SAFETY: only the lifetime changes. The entry is removed before the object goes.
            let object: &(dyn Watched + 'static) = unsafe { std::mem::transmute(object) };
            // SAFETY: by contract the object stays until `self` is dropped. What `look` does is done under
            // the object's lock, and touches no value of the user.
            unsafe { objects.insert(NonNull::from(object)) }
        });
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if let (Some(objects), Some(entry)) = (objects(), self.0.take()) {
            objects.remove(entry);
        }
    }
}
