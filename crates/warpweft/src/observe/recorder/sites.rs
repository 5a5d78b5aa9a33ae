//! Where recorded tasks were spawned: a table that gives each site and name a small number.
//!
//! # Invariants
//!
//! - A number keeps its meaning for as long as the pool lives. There are at most 65 535; further sites all
//!   get number 0, "unknown".
//! - The word of a task without a name is the address of its spawn site, which is a static. Only such words
//!   are kept in a worker's cache.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;
use warpweft_platform::sync::Mutex;
use warpweft_task::TaskInfo;

/// The longest name that is kept, in bytes. The rest is cut off.
const LONGEST: usize = 64;

/// Where a recorded task was spawned, and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TaskSite {
    /// The [name](crate::TaskBuilder::name) of the task, if it has one: its first 64 bytes.
    pub name: Option<Box<str>>,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
}

impl TaskSite {
    /// Copies the name.
    pub(super) fn of(info: TaskInfo<'_>) -> Self {
        let name = info.name().map(|name| {
            let end = (0..=name.len().min(LONGEST))
                .rev()
                .find(|&end| name.is_char_boundary(end));
            Box::from(&name[..end.unwrap_or(0)])
        });
        Self {
            name,
            spawned_at: info.location(),
        }
    }
}

/// The name, or else file and line.
impl fmt::Display for TaskSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "{}:{}", self.spawned_at.file(), self.spawned_at.line()),
        }
    }
}

/// Gives each value a number, from 1 on.
#[derive(Debug)]
pub(super) struct Numbers<T: ?Sized> {
    numbers: HashMap<Arc<T>, u16>,
    all: Vec<Arc<T>>,
}

impl<T: ?Sized> Default for Numbers<T> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            all: Vec::new(),
        }
    }
}

impl<T: ?Sized + Eq + Hash> Numbers<T> {
    /// Returns the number of a value; 0 if there are no more numbers.
    pub(super) fn number(&mut self, value: impl Borrow<T> + Into<Arc<T>>) -> u16 {
        if let Some(&number) = self.numbers.get(value.borrow()) {
            return number;
        }
        let Ok(number) = u16::try_from(self.all.len() + 1) else {
            return 0;
        };
        let value = value.into();
        self.numbers.insert(Arc::clone(&value), number);
        self.all.push(value);
        number
    }

    /// Returns the values, by number minus one.
    pub(super) fn all(&self) -> &[Arc<T>] {
        &self.all
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Sites(Mutex<Numbers<TaskSite>>);

impl Sites {
    /// Returns the number of a site. Takes a lock.
    #[cold]
    pub(crate) fn number(&self, site: TaskSite) -> u16 {
        self.0.lock().number(site)
    }

    /// Returns the sites, by number minus one.
    pub(crate) fn all(&self) -> Vec<Arc<TaskSite>> {
        self.0.lock().all().to_vec()
    }
}

/// The sites that a worker met lately.
#[derive(Debug)]
pub(crate) struct Cache([(usize, u16); ENTRIES]);

const ENTRIES: usize = 64;

impl Default for Cache {
    fn default() -> Self {
        Self([(0, 0); ENTRIES])
    }
}

impl Cache {
    /// Returns the number of a task's site, if it is here. `word` is as for [`number`](Self::number).
    #[inline]
    pub(crate) fn get(&self, word: *const ()) -> Option<u16> {
        let word = word.addr();
        let (kept, number) = self.0[word / 8 % ENTRIES];
        (kept == word).then_some(number)
    }

    /// Returns the number of a task's site. `word` is the task's
    /// [`origin_word`](warpweft_task::TaskRef::origin_word).
    pub(crate) fn number<'task>(
        &mut self,
        word: *const (),
        sites: &Sites,
        info: impl FnOnce() -> TaskInfo<'task>,
    ) -> u16 {
        let word = word.addr();
        let entry = &mut self.0[word / 8 % ENTRIES];
        if entry.0 == word {
            return entry.1;
        }
        let info = info();
        let is_static = info.name().is_none();
        let number = sites.number(TaskSite::of(info));
        if is_static {
            *entry = (word, number);
        }
        number
    }
}
