//! One case for each public way to spawn, or to wait in code that the library calls.

use futures_core::Stream;
use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use warpweft::cancel::CancelToken;
use warpweft::effect::{Handler, handle};
use warpweft::stream::{ParStream as _, next, pipeline};
use warpweft::sync::{OnceCell, Semaphore, channel};
use warpweft::{ConcurrencyLimit, Dump, ForkCx, Runtime, TaskBuilder, TaskKind, fiber, time};

/// How many permits a task wants at the gate: other tests of this process wait for other numbers.
pub(crate) const WANTED: usize = 7001;

/// What holds all tasks of a case, until it is closed.
#[derive(Clone)]
struct Gate(Arc<Semaphore>);

impl Gate {
    fn wait(&self) {
        assert!(self.0.acquire(WANTED).wait().is_err(), "it only closes");
    }

    fn passed(&self) -> impl Future<Output = ()> + Send + use<> {
        let gate = self.clone();
        async move { assert!(gate.0.acquire(WANTED).await.is_err(), "it only closes") }
    }

    fn closure(&self) -> impl FnOnce() + Send + 'static {
        let gate = self.clone();
        move || gate.wait()
    }
}

/// A runtime, whose tasks are those of one case.
pub(crate) struct Case {
    pub(crate) runtime: Arc<Runtime>,
    gate: Gate,
    threads: RefCell<Vec<JoinHandle<()>>>,
}

impl Case {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::builder().workers(2).name("main").build();
        Self {
            runtime: Arc::new(runtime.expect("a runtime")),
            gate: Gate(Arc::new(Semaphore::new(0))),
            threads: RefCell::default(),
        }
    }

    /// Runs `body`, which waits, on a thread that does not belong to the runtime.
    fn outside(&self, body: impl FnOnce(&Runtime, Gate) + Send + 'static) {
        let (runtime, gate) = (Arc::clone(&self.runtime), self.gate.clone());
        let thread = thread::spawn(move || body(&runtime, gate));
        self.threads.borrow_mut().push(thread);
    }

    /// Runs `body` in a job of the runtime.
    #[track_caller]
    fn inside(&self, body: impl FnOnce(Gate) + Send + 'static) {
        let gate = self.gate.clone();
        drop(self.runtime.spawn_job(move || body(gate)));
    }

    /// Awaits `future` in a task of the runtime.
    #[track_caller]
    fn awaits(&self, future: impl Future<Output: Send + 'static> + Send + 'static) {
        drop(self.runtime.spawn(future));
    }

    fn limit(&self) -> ConcurrencyLimit {
        self.runtime.first().concurrency_limit(9).expect("a limit")
    }

    #[track_caller]
    fn builder(&self) -> TaskBuilder<'_> {
        TaskBuilder::new().on(&self.runtime)
    }

    pub(crate) fn end(self) {
        self.gate.0.close();
        for thread in self.threads.into_inner() {
            thread.join().expect("no panic");
        }
        // A scope that the end of its runtime cuts short panics.
        let is_busy =
            |dump: Dump| dump.pools[0].ready > 0 || dump.tasks.iter().any(|task| task.pool.is_some());
        while is_busy(self.runtime.dump()) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A deadline that no case reaches.
fn far() -> Instant {
    Instant::now() + Duration::from_secs(1000)
}

/// Takes all items of a stream.
fn drain(mut stream: impl Stream + Unpin) {
    warpweft::block_on(async { while next(&mut stream).await.is_some() {} });
}

pub(crate) type Kinds = &'static [Option<TaskKind>];

/// A row of the table: the line where it begins, the functions that it calls, the kinds of the tasks that
/// then wait at the gate, and what makes them.
pub(crate) type Row = (u32, &'static [&'static str], Kinds, fn(&Case));

pub(crate) const THREAD: Option<TaskKind> = None;
const FUTURE: Option<TaskKind> = Some(TaskKind::Future);
const JOB: Option<TaskKind> = Some(TaskKind::Job);
const FIBER: Option<TaskKind> = Some(TaskKind::Fiber);
pub(crate) const FORK: Option<TaskKind> = Some(TaskKind::Fork);
pub(crate) const BLOCKING: Option<TaskKind> = Some(TaskKind::Blocking);

macro_rules! row {
    ($names:expr, $kinds:expr, $make:expr) => {
        (line!(), &$names, &$kinds, $make)
    };
}

/// A stream of futures that wait at the gate.
macro_rules! futures {
    ($gate:expr) => {{
        let (sender, receiver) = channel::unbounded::<Pin<Box<dyn Future<Output = ()> + Send>>>();
        for _ in 0..2 {
            sender.try_send(Box::pin($gate.passed())).expect("it is open");
        }
        receiver.into_stream()
    }};
}

/// The ways of a runtime, a pool, a limit and a builder: they have the same names.
macro_rules! of_type {
    ($name:literal, $job:expr, $case:ident => $target:expr) => {
        [
            row!([concat!($name, "::spawn")], [FUTURE], |$case| drop(
                $target.spawn($case.gate.passed())
            )),
            row!([concat!($name, "::try_spawn")], [FUTURE], |$case| drop(
                $target.try_spawn($case.gate.passed()).expect("room")
            )),
            row!([concat!($name, "::spawn_job")], [$job], |$case| drop(
                $target.spawn_job($case.gate.closure())
            )),
            row!([concat!($name, "::try_spawn_job")], [JOB], |$case| drop(
                $target.try_spawn_job($case.gate.closure()).expect("room")
            )),
            row!([concat!($name, "::spawn_detached")], [$job], |$case| $target
                .spawn_detached($case.gate.closure())),
            row!([concat!($name, "::spawn_fiber")], [FIBER], |$case| drop(
                $target.spawn_fiber($case.gate.closure())
            )),
            row!([concat!($name, "::try_spawn_fiber")], [FIBER], |$case| drop(
                $target.try_spawn_fiber($case.gate.closure()).expect("room")
            )),
            row!([concat!($name, "::spawn_local")], [FIBER], |$case| {
                let gate = $case.gate.clone();
                drop($target.spawn_local(move || gate.passed()));
            }),
            row!([concat!($name, "::try_spawn_local")], [FIBER], |$case| {
                let gate = $case.gate.clone();
                drop($target.try_spawn_local(move || gate.passed()).expect("room"));
            }),
        ]
    };
}

fn of_types() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    rows.extend::<[Row; 9]>(of_type!("runtime::Runtime", JOB, case => case.runtime));
    rows.extend::<[Row; 9]>(of_type!("runtime::Pool", JOB, case => case.runtime.first()));
    // A future waits for the place of a closure, and then calls it.
    rows.extend::<[Row; 9]>(of_type!("compose::ConcurrencyLimit", FUTURE, case => case.limit()));
    rows.extend::<[Row; 9]>(of_type!("runtime::TaskBuilder", JOB, case => case.builder()));
    rows
}

fn of_callers_that_wait() -> Vec<Row> {
    vec![
        row!(["runtime::Runtime::install"], [JOB], |case| case.outside(
            |runtime, gate| runtime.install(|_| gate.wait()).expect("open")
        )),
        row!(["runtime::Pool::install"], [JOB], |case| case.outside(
            |runtime, gate| runtime.first().install(|_| gate.wait()).expect("open")
        )),
        row!(["runtime::Pool::run"], [JOB], |case| case.outside(
            |runtime, gate| runtime.first().run(|| gate.wait()).expect("open")
        )),
        row!(["compose::ConcurrencyLimit::install"], [JOB], |case| {
            let limit = case.limit();
            case.outside(move |_, gate| limit.install(|_| gate.wait()).expect("open"));
        }),
        row!(["runtime::TaskBuilder::install"], [JOB], |case| case.outside(
            |runtime, gate| {
                let builder = TaskBuilder::new().on(runtime);
                builder.install(|_| gate.wait()).expect("open");
            }
        )),
        row!(["runtime::Runtime::broadcast"], [JOB, JOB], |case| case.outside(
            |runtime, gate| drop(runtime.broadcast(|_| gate.wait()).expect("open"))
        )),
        row!(["runtime::Pool::broadcast"], [JOB, JOB], |case| case.outside(
            |runtime, gate| drop(runtime.first().broadcast(|_| gate.wait()).expect("open"))
        )),
        row!(["compose::ConcurrencyLimit::broadcast"], [JOB, JOB], |case| {
            let limit = case.limit();
            case.outside(move |_, gate| drop(limit.broadcast(|_| gate.wait()).expect("open")));
        }),
        row!(["runtime::TaskBuilder::broadcast"], [JOB, JOB], |case| case
            .outside(|runtime, gate| {
                let builder = TaskBuilder::new().on(runtime);
                drop(builder.broadcast(|_| gate.wait()).expect("open"));
            })),
        row!(["runtime::Runtime::block_on"], [THREAD], |case| case
            .outside(|runtime, gate| runtime.block_on(gate.passed()))),
        row!(["runtime::Pool::block_on"], [THREAD], |case| case
            .outside(|runtime, gate| runtime.first().block_on(gate.passed()))),
        row!(["execution::block_on"], [THREAD], |case| case
            .outside(|_, gate| warpweft::block_on(gate.passed()))),
        row!(["execution::block_on"], [JOB], |case| case
            .inside(|gate| warpweft::block_on(gate.passed()))),
        row!(["fiber::wait"], [JOB], |case| case
            .inside(|gate| fiber::wait(gate.passed()))),
        row!(["fiber::wait"], [FIBER], |case| {
            let gate = case.gate.clone();
            drop(case.runtime.spawn_fiber(move || fiber::wait(gate.passed())));
        }),
        row!(["execution::blocking"], [JOB], |case| case
            .inside(|gate| warpweft::blocking(|| gate.wait()))),
        row!(["runtime::expect_long"], [JOB], |case| case
            .inside(|gate| warpweft::expect_long(|| gate.wait()))),
        row!(["cooperative::uncooperative"], [JOB], |case| case
            .inside(|gate| warpweft::uncooperative(|| gate.wait()))),
        row!(["effect::handle"], [JOB], |case| case
            .inside(|gate| handle(move || gate.wait(), Handler::new()))),
        row!(["time::Retry::run", "time::Retry::run_if"], [FUTURE], |case| {
            let gate = case.gate.clone();
            case.awaits(async move {
                let passes = || async {
                    gate.passed().await;
                    Ok::<(), ()>(())
                };
                time::Retry::new().run(passes).await.expect("open");
            });
        }),
        row!(["time::Retry::call", "time::Retry::call_if"], [JOB], |case| case
            .inside(|gate| {
                let wait = || {
                    gate.wait();
                    Ok::<(), ()>(())
                };
                time::Retry::new().call(wait).expect("open");
            })),
        row!(["time::timeout"], [FUTURE], |case| {
            case.awaits(time::timeout(Duration::from_secs(3600), case.gate.passed()));
        }),
        row!(["time::timeout_at"], [FUTURE], |case| {
            let hour = Instant::now() + Duration::from_secs(3600);
            case.awaits(time::timeout_at(hour, case.gate.passed()));
        }),
        row!(["sync::OnceCell::get_or_init"], [JOB], |case| case.inside(
            |gate| {
                OnceCell::new().get_or_init(|| gate.passed()).wait();
            }
        )),
        row!(["sync::OnceCell::try_get_or_init"], [JOB], |case| case.inside(
            |gate| {
                let init = || async {
                    gate.passed().await;
                    Ok::<_, ()>(())
                };
                assert!(OnceCell::new().try_get_or_init(init).wait().is_ok());
            }
        )),
    ]
}

fn of_parts() -> Vec<Row> {
    vec![
        row!(["fork_join::join"], [JOB, FORK], |case| case.inside(|gate| {
            warpweft::join(|| gate.wait(), || gate.wait());
        })),
        row!(
            ["fork_join::ForkCx::join", "execution::ForkCx::with"],
            [JOB, FORK],
            |case| case.inside(|gate| ForkCx::with(|cx| {
                cx.expect("a job has one").join(|_| gate.wait(), |_| gate.wait());
            }))
        ),
        row!(["fork_join::par_for"], [JOB, FORK], |case| case
            .inside(|gate| warpweft::par_for(0..2, 1, |_| gate.wait()))),
        row!(["fork_join::par_chunks_mut"], [JOB, FORK], |case| case.inside(
            |gate| warpweft::par_chunks_mut(&mut [0, 0], 1, |_, _| gate.wait())
        )),
        row!(
            ["fork_join::scope", "fork_join::Scope::spawn"],
            [FORK, JOB],
            |case| case.inside(|gate| {
                warpweft::scope(|scope| {
                    let part = gate.clone();
                    scope.spawn(move |_| part.wait());
                    gate.wait();
                });
            })
        ),
        row!(
            ["fork_join::scope_fifo", "fork_join::ScopeFifo::spawn"],
            [FORK, JOB],
            |case| case.inside(|gate| {
                warpweft::scope_fifo(|scope| {
                    let part = gate.clone();
                    scope.spawn(move |_| part.wait());
                    gate.wait();
                });
            })
        ),
        row!(
            ["compose::scope_bounded", "compose::BoundedScope::spawn"],
            [FORK, JOB],
            |case| case.inside(|gate| {
                let filled = warpweft::scope_bounded(2, |scope| {
                    let part = gate.clone();
                    scope.spawn(move || part.wait());
                    gate.wait();
                });
                filled.expect("a limit");
            })
        ),
        row!(
            [
                "compose::BoundedScope::try_spawn",
                "compose::BoundedScope::spawn_within"
            ],
            [FORK, FORK, JOB],
            |case| case.inside(|gate| {
                let filled = warpweft::scope_bounded(2, |scope| {
                    let (first, second) = (gate.clone(), gate.clone());
                    assert!(scope.try_spawn(move || first.wait()).is_ok());
                    let soon = Duration::from_secs(100);
                    assert!(scope.spawn_within(soon, move || second.wait()).is_ok());
                    gate.wait();
                });
                filled.expect("a limit");
            })
        ),
        row!(["cancel::CancelToken::run"], [JOB], |case| case.inside(|gate| {
            CancelToken::new().run(|| gate.wait()).expect("nobody cancels");
        })),
        row!(["cancel::CancelToken::run_async"], [FUTURE], |case| {
            let under = CancelToken::new().run_async(case.gate.passed());
            case.awaits(async move { under.await.expect("nobody cancels") });
        }),
        row!(["cancel::detached"], [JOB], |case| case
            .inside(|gate| warpweft::cancel::detached(|| gate.wait()))),
        row!(["cancel::with_deadline"], [JOB], |case| case.inside(|gate| {
            warpweft::cancel::with_deadline(far(), || gate.wait()).expect("far");
        })),
        row!(["cancel::with_deadline_async"], [FUTURE], |case| {
            let passed = case.gate.passed();
            case.awaits(async move {
                warpweft::cancel::with_deadline_async(far(), passed)
                    .await
                    .expect("far");
            });
        }),
        row!(["fork_join::ForkCx::scope"], [FORK, JOB], |case| case.inside(
            |gate| {
                ForkCx::with(|cx| {
                    cx.expect("a job has one").scope(|scope| {
                        let part = gate.clone();
                        scope.spawn(move |_| part.wait());
                        gate.wait();
                    });
                });
            }
        )),
        row!(["fork_join::Scope::spawn_pinned"], [JOB], |case| case.inside(
            |gate| {
                warpweft::scope(|scope| scope.spawn_pinned(1, move |_| gate.wait()));
            }
        )),
        row!(["fork_join::Scope::spawn_future"], [FUTURE], |case| case.inside(
            |gate| {
                warpweft::scope(|scope| drop(scope.spawn_future(gate.passed())));
            }
        )),
        row!(
            ["fork_join::scope_async", "fork_join::AsyncScope::spawn"],
            [FUTURE, FUTURE],
            |case| {
                let (part, rest) = (case.gate.clone(), case.gate.passed());
                case.awaits(warpweft::scope_async(|scope| async move {
                    drop(scope.spawn(part.passed()));
                    rest.await;
                }));
            }
        ),
        row!(["fork_join::join_async"], [FUTURE, FUTURE], |case| {
            case.awaits(warpweft::join_async(case.gate.passed(), case.gate.passed()));
        }),
        row!(["fiber::scope", "fiber::Scope::spawn"], [FIBER], |case| case
            .inside(|gate| {
                fiber::scope(|scope| scope.spawn(move |_| gate.wait()));
            })),
        row!(["stream::ParStream::par_buffered"], [FUTURE, FUTURE], |case| case
            .inside(|gate| {
                drain(futures!(gate).par_buffered(2).expect("room"));
            })),
        row!(
            ["stream::ParStream::par_buffered_unordered"],
            [FUTURE, FUTURE],
            |case| case.inside(|gate| {
                drain(futures!(gate).par_buffered_unordered(2).expect("room"));
            })
        ),
        row!(
            ["stream::pipeline", "stream::Pipeline::stage"],
            [FUTURE, FUTURE],
            |case| case.inside(|gate| {
                drain(
                    pipeline(futures!(gate))
                        .stage(2, |item| item)
                        .build()
                        .expect("room"),
                );
            })
        ),
        row!(["stream::Pipeline::try_stage"], [FUTURE, FUTURE], |case| case
            .inside(|gate| {
                let items = futures!(gate).map_each(Ok::<_, ()>);
                let stage = |item: Pin<Box<dyn Future<Output = ()> + Send>>| async {
                    item.await;
                    Ok(())
                };
                drain(pipeline(items).try_stage(2, stage).build().expect("room"));
            })),
    ]
}

fn of_free_functions() -> Vec<Row> {
    vec![
        row!(["runtime::spawn"], [FUTURE], |case| case
            .inside(|gate| drop(warpweft::spawn(gate.passed())))),
        row!(["runtime::spawn_job"], [JOB], |case| case
            .inside(|gate| drop(warpweft::spawn_job(move || gate.wait())))),
        row!(["runtime::spawn_detached"], [JOB], |case| case
            .inside(|gate| warpweft::spawn_detached(move || gate.wait()))),
        row!(["runtime::spawn_fifo"], [JOB], |case| case
            .inside(|gate| warpweft::spawn_fifo(move || gate.wait()))),
        row!(["runtime::TaskBuilder::spawn_fifo"], [JOB], |case| case
            .builder()
            .spawn_fifo(case.gate.closure())),
        row!(["runtime::spawn_local"], [FIBER], |case| case
            .inside(|gate| drop(warpweft::spawn_local(move || gate.passed())))),
        row!(["fiber::spawn"], [FIBER], |case| case
            .inside(|gate| drop(fiber::spawn(move || gate.wait())))),
        row!(["fiber::try_spawn"], [FIBER], |case| case.inside(|gate| drop(
            fiber::try_spawn(move || gate.wait()).expect("room")
        ))),
        row!(["fiber::spawn_here"], [FIBER], |case| case
            .inside(|gate| drop(fiber::spawn_here(move || gate.wait())))),
        row!(["runtime::TaskBuilder::spawn_fiber_here"], [FIBER], |case| case
            .inside(|gate| {
                drop(TaskBuilder::new().spawn_fiber_here(move || gate.wait()));
            })),
        row!(["runtime::TaskBuilder::spawn_pinned"], [JOB], |case| {
            drop(case.builder().spawn_pinned(1, case.gate.closure()));
        }),
        row!(["runtime::TaskBuilder::spawn_pinned_local"], [FIBER], |case| {
            let gate = case.gate.clone();
            drop(case.builder().spawn_pinned_local(1, move || gate.passed()));
        }),
        row!(["runtime::Pool::spawn_with_permit"], [FUTURE], |case| {
            let spawned = case.runtime.first().spawn_with_permit(case.gate.passed());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(["time::Pool::spawn_within"], [FUTURE], |case| {
            let limit = Duration::from_secs(1000);
            let spawned = case.runtime.first().spawn_within(limit, case.gate.passed());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(["runtime::TaskBuilder::spawn_with_permit"], [FUTURE], |case| {
            let spawned = case.builder().spawn_with_permit(case.gate.passed());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(["runtime::TaskBuilder::spawn_job_with_permit"], [JOB], |case| {
            let spawned = case.builder().spawn_job_with_permit(case.gate.closure());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(
            ["runtime::TaskBuilder::spawn_fiber_with_permit"],
            [FIBER],
            |case| {
                let spawned = case.builder().spawn_fiber_with_permit(case.gate.closure());
                drop(warpweft::block_on(spawned).expect("open"));
            }
        ),
        row!(
            ["runtime::TaskBuilder::spawn_local_with_permit"],
            [FIBER],
            |case| {
                let gate = case.gate.clone();
                let spawned = case.builder().spawn_local_with_permit(move || gate.passed());
                drop(warpweft::block_on(spawned).expect("open"));
            }
        ),
        row!(["time::TaskBuilder::spawn_within"], [FUTURE], |case| {
            let limit = Duration::from_secs(1000);
            let spawned = case.builder().spawn_within(limit, case.gate.passed());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(
            ["compose::ConcurrencyLimit::spawn_with_permit"],
            [FUTURE],
            |case| {
                let limit = case.limit();
                let spawned = limit.spawn_with_permit(case.gate.passed());
                drop(warpweft::block_on(spawned).expect("open"));
            }
        ),
        row!(["compose::ConcurrencyLimit::spawn_within"], [FUTURE], |case| {
            let (limit, time) = (case.limit(), Duration::from_secs(1000));
            let spawned = limit.spawn_within(time, case.gate.passed());
            drop(warpweft::block_on(spawned).expect("open"));
        }),
        row!(["runtime::spawn_blocking"], [BLOCKING], |case| case.inside(
            |gate| drop(warpweft::spawn_blocking(move || gate.wait()).wait())
        )),
        row!(["runtime::try_spawn_blocking"], [BLOCKING], |case| case.inside(
            |gate| drop(warpweft::try_spawn_blocking(move || gate.wait()).expect("room"))
        )),
        row!(["runtime::Runtime::spawn_blocking"], [BLOCKING], |case| {
            case.awaits(case.runtime.spawn_blocking(case.gate.closure()));
        }),
        row!(["runtime::Runtime::try_spawn_blocking"], [BLOCKING], |case| {
            drop(
                case.runtime
                    .try_spawn_blocking(case.gate.closure())
                    .expect("room"),
            );
        }),
        row!(["fs::call"], [BLOCKING], |case| {
            let gate = case.gate.clone();
            case.awaits(warpweft::fs::call(move || {
                gate.wait();
                Ok(())
            }));
        }),
        row!(["fs::File::call"], [BLOCKING], |case| {
            let gate = case.gate.clone();
            case.awaits(async move {
                let file = warpweft::fs::File::open(env!("CARGO_MANIFEST_DIR")).await?;
                file.call(move |_| {
                    gate.wait();
                    Ok(())
                })
                .await
            });
        }),
    ]
}

pub(crate) fn cases() -> Vec<Row> {
    [
        of_types(),
        of_callers_that_wait(),
        of_parts(),
        of_free_functions(),
    ]
    .concat()
}
