//! Messages of a Rust type, one tag for each port.

use crate::comm::{Comm, Source};
use crate::error::{MpiError, MpiErrorKind};
use crate::functions::mark_of;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::type_name;
use std::marker::PhantomData;

/// A tag of a communicator on which all messages are of type `T`. Each rank makes its own end by
/// [`Comm::port`], with the same tag.
///
/// A message carries a mark of its type. A receiver of another type gets an error, and not nonsense.
#[derive(Debug, Clone)]
pub struct Port<T> {
    comm: Comm,
    tag: i32,
    of: PhantomData<fn(T) -> T>,
}

/// A message that a [`Port`] received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter<T> {
    /// The rank that sent it.
    pub source: usize,
    /// What it sent.
    pub value: T,
}

impl Comm {
    /// Returns the end of this rank of the port with this tag.
    #[must_use]
    pub fn port<T: Serialize + DeserializeOwned>(&self, tag: i32) -> Port<T> {
        Port {
            comm: self.clone(),
            tag,
            of: PhantomData,
        }
    }
}

impl<T: Serialize + DeserializeOwned> Port<T> {
    /// Sends a value to the rank `to`. Waits until its bytes may be freed. For some of them MPI waits until
    /// the receiver asks, so two ranks that send to each other must receive at the same time.
    ///
    /// # Errors
    ///
    /// As [`Comm::send`]; the value cannot be serialised.
    pub async fn send(&self, to: usize, value: &T) -> Result<(), MpiError> {
        let bytes = mark::<T>().to_le_bytes().to_vec();
        let bytes = postcard::to_extend(value, bytes).map_err(|error| {
            MpiError::new(
                MpiErrorKind::Type,
                format!("a `{}` cannot be sent: {error}", type_name::<T>()),
            )
        })?;
        self.comm.send(to, self.tag, bytes).await.map(drop)
    }

    /// Receives the next value.
    ///
    /// # Errors
    ///
    /// The message is of another type; as [`Comm::recv_any_length`].
    pub async fn recv(&self, from: impl Into<Source>) -> Result<Letter<T>, MpiError> {
        let message = self.comm.recv_any_length(from, self.tag).await?;
        let wrong = |why: String| {
            MpiError::new(
                MpiErrorKind::Type,
                format!(
                    "the message of rank {} with tag {} is no `{}`: {why}",
                    message.source,
                    self.tag,
                    type_name::<T>()
                ),
            )
        };
        let Some((theirs, bytes)) = message.bytes.split_first_chunk() else {
            return Err(wrong(format!("it has {} bytes", message.bytes.len())));
        };
        if u64::from_le_bytes(*theirs) != mark::<T>() {
            return Err(wrong(String::from(
                "the sender's port is of another type, or the ranks run different programs",
            )));
        }
        let value = postcard::from_bytes(bytes).map_err(|error| wrong(error.to_string()))?;
        Ok(Letter {
            source: message.source,
            value,
        })
    }
}

/// Returns the mark of a type, a hash of its name.
fn mark<T>() -> u64 {
    mark_of(type_name::<T>())
}

#[cfg(test)]
mod tests {
    use super::mark;

    #[test]
    fn types_differ_by_their_marks() {
        assert_ne!(mark::<u32>(), mark::<i32>());
        assert_ne!(mark::<Vec<u8>>(), mark::<Vec<u16>>());
        assert_eq!(mark::<String>(), mark::<String>());
    }
}
