//! Programs that the compiler must refuse. `cargo test --doc` checks that it does so, each for its own
//! reason.

/// A mutex does not make an `Rc` safe for two threads.
///
/// ```compile_fail,E0277
/// use std::{rc::Rc, sync::Arc};
/// let mutex = Arc::new(warpweft::sync::Mutex::new(Rc::new(1)));
/// warpweft::spawn_job(move || drop(mutex.lock().wait()));
/// ```
///
/// For an `Arc` it compiles.
///
/// ```
/// use std::sync::Arc;
/// let runtime = warpweft::Runtime::builder().build().unwrap();
/// let mutex = Arc::new(warpweft::sync::Mutex::new(Arc::new(1)));
/// runtime.spawn_job(move || drop(mutex.lock().wait())).wait().unwrap();
/// ```
struct MutexOfRc;

/// A guard that threads share gives `&T` to both, so a `Cell` is refused.
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// let mutex = warpweft::sync::Mutex::new(Cell::new(1));
/// let guard = mutex.lock().wait();
/// warpweft::join(|| guard.get(), || guard.get());
/// ```
///
/// A number compiles.
///
/// ```
/// let mutex = warpweft::sync::Mutex::new(1);
/// let guard = mutex.lock().wait();
/// warpweft::join(|| *guard, || *guard);
/// ```
struct SharedGuardOfCell;

/// A guard that threads share gives the mutex to both, and the mutex gives the value: it must be `Send`, too.
///
/// ```compile_fail,E0277
/// static OTHER: std::sync::Mutex<i32> = std::sync::Mutex::new(0);
/// let mutex = warpweft::sync::Mutex::new(OTHER.lock().unwrap());
/// let guard = mutex.lock().wait();
/// warpweft::join(|| **guard, || **guard);
/// ```
///
/// A reference to a number compiles.
///
/// ```
/// static OTHER: i32 = 0;
/// let mutex = warpweft::sync::Mutex::new(&OTHER);
/// let guard = mutex.lock().wait();
/// warpweft::join(|| **guard, || **guard);
/// ```
struct SharedGuardOfAGuard;

/// The guard of a writer that another thread has may become that of a reader, beside readers here: what it
/// guards must be `Sync`.
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// let lock = warpweft::sync::RwLock::new(Cell::new(1));
/// let guard = lock.write().wait();
/// warpweft::join(move || drop(guard), || ());
/// ```
///
/// A number compiles.
///
/// ```
/// let lock = warpweft::sync::RwLock::new(1);
/// let guard = lock.write().wait();
/// warpweft::join(move || drop(guard), || ());
/// ```
struct WriterOfCellElsewhere;

/// A reference into the value does not outlive the guard.
///
/// ```compile_fail,E0597
/// let mutex = warpweft::sync::Mutex::new(vec![1]);
/// let first = {
///     let guard = mutex.lock().wait();
///     &guard[0]
/// };
/// assert_eq!(*first, 1);
/// ```
struct ReferenceOutOfTheGuard;

/// A task that may outlive this stack does not borrow a mutex from it.
///
/// ```compile_fail,E0597
/// let mutex = warpweft::sync::Mutex::new(1);
/// warpweft::spawn(async { *mutex.lock().await += 1 });
/// ```
struct GuardOfTheStack;

/// There are several readers: what they share must be `Sync`.
///
/// ```compile_fail,E0277
/// use std::{cell::Cell, sync::Arc};
/// let lock = Arc::new(warpweft::sync::RwLock::new(Cell::new(1)));
/// warpweft::spawn_job(move || lock.read().wait().get());
/// ```
struct RwLockOfCell;

/// A read guard gives no right to change.
///
/// ```compile_fail,E0594
/// let lock = warpweft::sync::RwLock::new(1);
/// *lock.read().wait() += 1;
/// ```
struct WriteByReader;

/// A cell that threads share gives `&T` to all of them.
///
/// ```compile_fail,E0277
/// use std::{cell::Cell, sync::Arc};
/// let cell = Arc::new(warpweft::sync::OnceCell::new());
/// warpweft::spawn_job(move || cell.set(Cell::new(1)));
/// ```
struct OnceCellOfCell;

/// What goes through a channel goes to another thread.
///
/// ```compile_fail,E0277
/// let (sender, receiver) = warpweft::sync::channel::unbounded();
/// warpweft::spawn_job(move || receiver.recv().wait());
/// sender.try_send(std::rc::Rc::new(1)).unwrap();
/// ```
struct RcThroughAChannel;

/// And through a promise.
///
/// ```compile_fail,E0277
/// let (sender, receiver) = warpweft::sync::oneshot::channel();
/// warpweft::spawn_job(move || receiver.wait());
/// sender.send(std::rc::Rc::new(1)).unwrap();
/// ```
struct RcThroughAPromise;

/// A promise is fulfilled once.
///
/// ```compile_fail,E0382
/// let (sender, receiver) = warpweft::sync::oneshot::channel();
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// drop(receiver);
/// ```
struct PromiseKeptTwice;

/// All receivers of a broadcast look at one value, on several threads.
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// let (sender, mut receiver) = warpweft::sync::broadcast::channel(1);
/// warpweft::spawn_job(move || drop(receiver.recv().wait()));
/// sender.send(Cell::new(1)).unwrap();
/// ```
struct BroadcastOfCell;

/// Receivers of a watch channel do so, too.
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// let (sender, mut receiver) = warpweft::sync::watch::channel(Cell::new(1));
/// warpweft::spawn_job(move || drop(receiver.get()));
/// drop(sender);
/// ```
struct WatchOfCell;
