//! What one may wait for, each with its result checked: the columns of the matrix.

use std::sync::Arc;
use std::time::{Duration, Instant};
use warpweft::net::{TcpListener, TcpStream};
use warpweft::sync::{Barrier, Condvar, Mutex, Notify, RwLock, broadcast, channel, oneshot, watch};
use warpweft::time::sleep;
use warpweft::{JoinError, block_on, fiber, join, scope, spawn, spawn_job, yield_now};

pub(crate) fn is_seven(result: Result<u32, JoinError>) {
    assert_eq!(result.expect("no panic"), 7);
}

/// Seven, after some time.
pub(crate) async fn later() -> u32 {
    for _ in 0..3 {
        yield_now().await;
    }
    sleep(Duration::from_micros(200)).await;
    7
}

/// The same in direct style.
pub(crate) fn slowly() -> u32 {
    block_on(later())
}

pub(crate) async fn a_while() {
    assert_eq!(later().await + spawn(later()).await.expect("no panic"), 14);
}

pub(crate) fn halves() {
    let ((first, second), third) = join(|| join(slowly, slowly), || spawn_job(slowly).wait());
    assert_eq!(first + second, 14);
    is_seven(third);
}

pub(crate) fn jobs() {
    let mut sums = [0; 4];
    scope(|scope| {
        for sum in &mut sums {
            scope.spawn(move |_| *sum = slowly());
        }
        assert_eq!(slowly(), 7);
    });
    assert_eq!(sums, [7; 4]);
}

pub(crate) fn fibers() {
    let mut sums = [0; 4];
    fiber::scope(|scope| {
        for sum in &mut sums {
            scope.spawn(move |_| *sum = slowly());
        }
        assert_eq!(slowly(), 7);
    });
    assert_eq!(sums, [7; 4]);
}

/// A task of either kind that holds the lock for a while, and has it already.
async fn holder(mutex: &Arc<Mutex<u32>>) {
    let (has_it, held) = oneshot::channel();
    let theirs = Arc::clone(mutex);
    spawn(async move {
        let mut guard = theirs.lock().await;
        has_it.send(()).expect("somebody waits");
        *guard += later().await;
    })
    .detach();
    held.await.expect("it has the lock");
    let (has_it, held) = oneshot::channel();
    let theirs = Arc::clone(mutex);
    fiber::spawn(move || {
        has_it.send(()).expect("somebody waits");
        let mut guard = theirs.lock().wait();
        *guard += slowly();
    })
    .detach();
    held.await.expect("it is about to wait");
}

pub(crate) async fn mutex() {
    let mutex = Arc::new(Mutex::new(0));
    holder(&mutex).await;
    while *mutex.lock().await < 14 {
        yield_now().await;
    }
}

pub(crate) fn direct_mutex() {
    let mutex = Arc::new(Mutex::new(0));
    block_on(holder(&mutex));
    while *mutex.lock().wait() < 14 {
        block_on(sleep(Duration::from_micros(100)));
    }
}

pub(crate) async fn rwlock() {
    let lock = Arc::new(RwLock::new(0));
    writes_later(&lock).await;
    assert_eq!(*lock.read().await, 7);
    *lock.write().await += 1;
}

pub(crate) fn direct_rwlock() {
    let lock = Arc::new(RwLock::new(0));
    block_on(writes_later(&lock));
    assert_eq!(*lock.read().wait(), 7);
    *lock.write().wait() += 1;
}

async fn writes_later(lock: &Arc<RwLock<u32>>) {
    let (has_it, held) = oneshot::channel();
    let theirs = Arc::clone(lock);
    spawn_job(move || {
        let mut guard = theirs.write().wait();
        has_it.send(()).expect("somebody waits");
        *guard += slowly();
    })
    .detach();
    held.await.expect("it has the lock");
}

/// A number that a task counts to seven, and what it says each time.
fn counts() -> Arc<(Mutex<u32>, Condvar)> {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let theirs = Arc::clone(&shared);
    spawn(async move {
        for _ in 0..7 {
            yield_now().await;
            *theirs.0.lock().await += 1;
            theirs.1.notify_all();
        }
    })
    .detach();
    shared
}

pub(crate) async fn condvar() {
    let shared = counts();
    let guard = shared.0.lock().await;
    assert_eq!(*shared.1.wait_while(guard, |count| *count < 7).await, 7);
}

pub(crate) fn direct_condvar() {
    let shared = counts();
    let mut guard = shared.0.lock().wait();
    while *guard < 7 {
        guard = shared.1.wait(guard).wait();
    }
}

struct Meeting {
    barrier: Barrier,
    notify: Notify,
}

fn meeting() -> Arc<Meeting> {
    let meeting = Arc::new(Meeting {
        barrier: Barrier::new(3),
        notify: Notify::new(),
    });
    let theirs = Arc::clone(&meeting);
    spawn_job(move || {
        theirs.barrier.arrive().wait();
    })
    .detach();
    let theirs = Arc::clone(&meeting);
    fiber::spawn(move || {
        theirs.barrier.arrive().wait();
        slowly();
        theirs.notify.notify_one();
    })
    .detach();
    meeting
}

pub(crate) async fn meetings() {
    let meeting = meeting();
    meeting.barrier.arrive().await;
    meeting.notify.notified().await;
}

pub(crate) fn direct_meetings() {
    let meeting = meeting();
    meeting.barrier.arrive().wait();
    meeting.notify.notified().wait();
}

fn promised() -> oneshot::Receiver<u32> {
    let (sender, receiver) = oneshot::channel();
    fiber::spawn(move || sender.send(slowly())).detach();
    receiver
}

pub(crate) async fn promise() {
    assert_eq!(promised().await, Ok(7));
}

pub(crate) fn direct_promise() {
    assert_eq!(promised().wait(), Ok(7));
}

/// Doubles what it is sent, through channels with room for one. (Not a job: without spare threads two jobs
/// that wait for each other, again and again, are on top of each other and cannot continue.)
fn doubler() -> (channel::Sender<u32>, channel::Receiver<u32>) {
    let (sender, theirs) = channel::bounded(1);
    let (answers, receiver) = channel::bounded(1);
    fiber::spawn(move || {
        while let Ok(number) = theirs.recv().wait() {
            answers.send(2 * number).wait().expect("somebody reads");
        }
    })
    .detach();
    (sender, receiver)
}

pub(crate) async fn channels() {
    let (sender, receiver) = doubler();
    let all = spawn(async move {
        let mut sum = 0;
        while let Ok(answer) = receiver.recv().await {
            sum += answer;
        }
        sum
    });
    for number in 0..20 {
        sender.send(number).await.expect("somebody reads");
    }
    drop(sender);
    assert_eq!(all.await.expect("no panic"), 380);
}

pub(crate) fn direct_channels() {
    let (sender, receiver) = doubler();
    let all = fiber::spawn(move || {
        let mut sum = 0;
        while let Ok(answer) = receiver.recv().wait() {
            sum += answer;
        }
        sum
    });
    for number in 0..20 {
        sender.send(number).wait().expect("somebody reads");
    }
    drop(sender);
    assert_eq!(all.wait().expect("no panic"), 380);
}

fn told_to_all() -> (broadcast::Receiver<u32>, watch::Receiver<u32>) {
    let (calls, call) = broadcast::channel(4);
    let (posts, post) = watch::channel(0);
    spawn_job(move || {
        slowly();
        calls.send(7).expect("somebody listens");
        slowly();
        posts.send(7).expect("somebody looks");
    })
    .detach();
    (call, post)
}

pub(crate) async fn for_all() {
    let (mut call, mut post) = told_to_all();
    assert_eq!(call.recv().await.expect("it calls"), 7);
    post.changed().await.expect("it posts");
    assert_eq!(*post.get(), 7);
}

pub(crate) fn direct_for_all() {
    let (mut call, mut post) = told_to_all();
    assert_eq!(call.recv().wait().expect("it calls"), 7);
    post.changed().wait().expect("it posts");
    assert_eq!(*post.get(), 7);
}

pub(crate) async fn timed_park() {
    let start = Instant::now();
    sleep(Duration::from_millis(1)).await;
    assert!(start.elapsed() >= Duration::from_millis(1));
}

pub(crate) async fn round_trip() {
    let listener = TcpListener::bind(([127, 0, 0, 1], 0)).expect("an address");
    let address = listener.local_addr().expect("it is bound");
    let echo = fiber::spawn(move || {
        block_on(async {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.expect("five bytes");
            stream.write_all(&bytes).await.expect("room");
        });
    });
    let stream = TcpStream::connect(address).await.expect("somebody listens");
    stream.write_all(b"woven").await.expect("room");
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).await.expect("an echo");
    assert_eq!(&bytes, b"woven");
    echo.await.expect("no panic");
}
