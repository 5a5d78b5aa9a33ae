//! Functions that other ranks may call, and the check that all ranks have the same ones.

use crate::comm::Comm;
use crate::error::{MpiError, MpiErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// A function that [`Functions::register`] made known, by its name and its types.
pub struct Function<A, R> {
    pub(crate) name: &'static str,
    of: PhantomData<fn(A) -> R>,
}

impl<A, R> Clone for Function<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Function<A, R> {}

impl<A, R> fmt::Debug for Function<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, type_name::<fn(A) -> R>())
    }
}

/// What a function gives: the bytes of its result, or why there are none.
pub(crate) type Answer = Result<Vec<u8>, String>;

type Run = dyn Fn(Vec<u8>) -> Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync;

/// The functions that this rank runs for others. All ranks register the same ones; the order does not matter.
/// [`Comm::serve`] begins to run them.
#[derive(Default)]
pub struct Functions {
    entries: Vec<Entry>,
}

struct Entry {
    name: &'static str,
    signature: &'static str,
    run: Arc<Run>,
}

/// The name of a function, and its types.
type Signature = (String, String);

impl Functions {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function by a name that no other one has, and returns the handle by which all ranks call it.
    ///
    /// A call runs as a task of its own, so the function may wait. Its argument and its result are carried
    /// by serde.
    pub fn register<A, R, F, Fut>(&mut self, name: &'static str, function: F) -> Function<A, R>
    where
        A: Serialize + DeserializeOwned + Send + 'static,
        R: Serialize + DeserializeOwned,
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send,
    {
        let function = Arc::new(function);
        let run = move |bytes: Vec<u8>| {
            let function = Arc::clone(&function);
            let answer = async move {
                let argument = postcard::from_bytes(&bytes)
                    .map_err(|error| format!("its argument cannot be read ({error})"))?;
                let result = function(argument).await;
                postcard::to_allocvec(&result).map_err(|error| format!("its result cannot be sent ({error})"))
            };
            // Its caller waits, also if what reads the argument or writes the result panics.
            let answer = async move { caught(answer).await? };
            Box::pin(answer) as Pin<Box<dyn Future<Output = Answer> + Send>>
        };
        self.entries.push(Entry {
            name,
            signature: type_name::<fn(A) -> R>(),
            run: Arc::new(run),
        });
        Function {
            name,
            of: PhantomData,
        }
    }

    /// Checks that all ranks have the same functions. All ranks call this, and all get the same error.
    pub(crate) async fn agree(self, comm: &Comm) -> Result<Registry, MpiError> {
        let mut own: Vec<Signature> = self
            .entries
            .iter()
            .map(|entry| (entry.name.to_owned(), entry.signature.to_owned()))
            .collect();
        own.sort_unstable();
        let bytes = postcard::to_allocvec(&own)
            .map_err(|error| MpiError::new(MpiErrorKind::Type, format!("names cannot be sent: {error}")))?;
        let len = (bytes.len() as u64).to_le_bytes();
        let mark = [mark(&bytes).to_le_bytes(), len].concat();
        let marks = comm.all_gather(mark.clone()).await?;
        let lists = if marks.chunks_exact(16).all(|other| other == mark) {
            vec![own]
        } else {
            every_list(comm, bytes, &marks).await?
        };
        if let Some(why) = difference(&lists) {
            return Err(MpiError::new(MpiErrorKind::Remote, why));
        }
        let runs = self
            .entries
            .into_iter()
            .map(|entry| (mark_of(entry.name), entry.run));
        Ok(Registry { runs: runs.collect() })
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.entries.iter().map(|entry| (entry.name, entry.signature)))
            .finish()
    }
}

/// The functions of all ranks, by the mark of their names.
pub(crate) struct Registry {
    runs: HashMap<u64, Arc<Run>>,
}

impl Registry {
    pub(crate) fn has(&self, function: u64) -> bool {
        self.runs.contains_key(&function)
    }

    /// Runs a function. A panic of it, or of what carries its values, is an answer, too.
    pub(crate) async fn run(&self, function: u64, argument: Vec<u8>) -> Answer {
        match self.runs.get(&function) {
            Some(run) => run(argument).await,
            None => Err(String::from(
                "no function has this mark: do all ranks run the same program?",
            )),
        }
    }
}

/// Returns the mark of a name.
pub(crate) fn mark_of(name: &str) -> u64 {
    mark(name.as_bytes())
}

/// Returns a hash that is the same in each process (FNV-1a).
fn mark(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Gathers the lists of all ranks, which have different lengths.
async fn every_list(comm: &Comm, mut own: Vec<u8>, marks: &[u8]) -> Result<Vec<Vec<Signature>>, MpiError> {
    let lens = marks.chunks_exact(16).map(|pair| {
        let len = pair.last_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        usize::try_from(len).unwrap_or(0)
    });
    let most = lens.max().unwrap_or(0);
    own.resize(most, 0);
    let all = comm.all_gather(own).await?;
    let lists = all.chunks_exact(most).map(|bytes| {
        // The zeros behind a list are left over.
        postcard::take_from_bytes(bytes).map(|(list, _)| list)
    });
    lists
        .collect::<Result<_, _>>()
        .map_err(|error| MpiError::new(MpiErrorKind::Type, format!("names cannot be read: {error}")))
}

/// Returns what is wrong with the lists of the ranks, if anything.
fn difference(lists: &[Vec<Signature>]) -> Option<String> {
    let mut marks = BTreeMap::new();
    for (name, _) in lists.iter().flatten() {
        let other = marks.entry(mark_of(name)).or_insert(name);
        if *other != name {
            return Some(format!(
                "`{other}` and `{name}` have the same mark: rename one of them"
            ));
        }
    }
    for name in marks.into_values() {
        let found: Vec<_> = lists
            .iter()
            .map(|list| list.iter().filter(|(other, _)| other == name).collect::<Vec<_>>())
            .collect();
        if let Some(rank) = found.iter().position(|entries| entries.len() > 1) {
            return Some(format!("`{name}` is registered twice on rank {rank}"));
        }
        let has = |rank: &usize| !found[*rank].is_empty();
        let with = (0..lists.len()).find(has)?;
        if let Some(without) = (0..lists.len()).find(|rank| !has(rank)) {
            return Some(format!(
                "`{name}` is registered on rank {with}, and not on rank {without}"
            ));
        }
        if let Some(other) = (0..lists.len()).find(|rank| found[*rank] != found[with]) {
            return Some(format!(
                "`{name}` is `{}` on rank {with}, and `{}` on rank {other}",
                found[with][0].1, found[other][0].1
            ));
        }
    }
    None
}

/// Runs a future to its end. Returns the text of its panic, if it has one.
async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // The future is not polled again after a panic.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(panic) => Poll::Ready(Err(format!("it panicked: {}", text_of(panic.as_ref())))),
        }
    })
    .await
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "its payload is no text",
    }
}

#[cfg(test)]
mod tests {
    use super::{Functions, Signature, difference};
    use serde::{Deserialize, Serialize};

    fn list(entries: &[(&str, &str)]) -> Vec<Signature> {
        entries
            .iter()
            .map(|(name, signature)| ((*name).to_owned(), (*signature).to_owned()))
            .collect()
    }

    #[test]
    fn ranks_that_differ_are_named() {
        let whole = list(&[("count", "fn(u8) -> u8"), ("sum", "fn(u8) -> u16")]);
        assert_eq!(difference(&[whole.clone(), whole.clone()]), None);
        assert_eq!(difference(&[vec![], vec![]]), None);
        let says = |other: &[(&str, &str)], part: &str| {
            let text = difference(&[whole.clone(), list(other)]).expect("they differ");
            assert!(text.contains(part), "{text}");
        };
        says(
            &[("count", "fn(u8) -> u8")],
            "`sum` is registered on rank 0, and not on rank 1",
        );
        says(
            &[
                ("count", "fn(u8) -> u8"),
                ("more", "fn()"),
                ("sum", "fn(u8) -> u16"),
            ],
            "`more` is registered on rank 1, and not on rank 0",
        );
        says(
            &[("count", "fn(u8) -> u8"), ("sum", "fn(u8) -> u32")],
            "`sum` is `fn(u8) -> u16` on rank 0, and `fn(u8) -> u32` on rank 1",
        );
        says(
            &[
                ("count", "fn(u8) -> u8"),
                ("sum", "fn(u8) -> u16"),
                ("sum", "fn(u8) -> u16"),
            ],
            "`sum` is registered twice on rank 1",
        );
    }

    /// Panics on its way, in one of the two directions.
    #[derive(Deserialize)]
    #[serde(try_from = "bool")]
    struct Panics;

    impl TryFrom<bool> for Panics {
        type Error = &'static str;

        fn try_from(panics: bool) -> Result<Self, Self::Error> {
            assert!(!panics, "on the way in");
            Ok(Self)
        }
    }

    impl Serialize for Panics {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("on the way out")
        }
    }

    #[test]
    fn a_panic_of_what_carries_a_value_is_an_answer() {
        let mut functions = Functions::new();
        functions.register("same", |panics: Panics| async move { panics });
        let answer = |argument| warpweft::block_on((functions.entries[0].run)(vec![argument]));
        assert_eq!(answer(1), Err(String::from("it panicked: on the way in")));
        assert_eq!(answer(0), Err(String::from("it panicked: on the way out")));
        assert!(answer(9).is_err_and(|why| why.contains("cannot be read")));
    }
}
