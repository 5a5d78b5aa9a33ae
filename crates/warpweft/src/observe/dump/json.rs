//! A dump for programs, as JSON.

use super::names::kind_name;
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use crate::observe::json::{Text, Writer};
use crate::observe::stack::Frame;
use std::time::Duration;

impl Dump {
    /// Returns the dump as one JSON object.
    ///
    /// It has the members `version` (1), `pools`, `tasks` and `findings`. A task's `number` is what `holders`
    /// and findings refer to. Times are in nanoseconds. What is not known is `null`. Members may be added.
    ///
    /// ```
    /// let runtime = warpweft::Runtime::builder().workers(1).build()?;
    /// assert!(runtime.dump().to_json().starts_with(r#"{"version":1,"pools":[{"name":"#));
    /// # Ok::<(), warpweft::BuildError>(())
    /// ```
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = Writer::default();
        json.object(|json| {
            json.value("version", Some(1));
            json.list("pools", &self.pools, |json, pool| {
                json.object(|json| {
                    json.text("name", Some(&pool.name));
                    json.text("policy", Some(&pool.policy));
                    json.value("workers", Some(pool.workers));
                    json.flag("closed", pool.closed);
                    json.flag("forked", pool.forked);
                    json.value("ready", Some(pool.ready));
                    json.value("unlisted", Some(pool.unlisted));
                    json.value("left_out", Some(pool.left_out));
                });
            });
            let tasks = self.tasks.iter().enumerate();
            json.list("tasks", tasks, |json, (number, task)| json.task(number, task));
            json.list("findings", &self.findings, Writer::finding);
        });
        json.0
    }
}

impl Writer {
    fn numbers(&mut self, name: &str, numbers: &[usize]) {
        self.list(name, numbers, Self::item);
    }

    fn time(&mut self, name: &str, time: Option<Duration>) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.value(name, time.map(ns));
    }

    fn frame(&mut self, frame: &Frame) {
        self.object(|json| {
            json.text("address", Some(&format!("{:#x}", frame.address)));
            json.text("function", frame.function.as_deref());
            json.text("file", frame.file.as_deref());
            json.value("line", frame.line);
            let module = frame.module.as_ref();
            json.text("module", module.map(|(module, _)| module.as_str()));
            json.text("in_module", module.map(|(_, at)| format!("{at:#x}")).as_deref());
        });
    }

    fn task(&mut self, number: usize, task: &TaskDump) {
        self.object(|json| {
            json.value("number", Some(number));
            json.text("id", Some(&format!("{:#x}", task.id)));
            json.text("kind", Some(kind_name(task.kind)));
            json.text("name", task.name.as_deref());
            json.text("spawned_at", task.spawned_at.map(ToString::to_string).as_deref());
            json.text("pool", task.pool.as_deref());
            json.text("state", Some(task.state.name()));
            let worker = match task.state {
                TaskState::Running(Some(worker)) => Some(worker),
                _ => None,
            };
            json.value("worker", worker);
            json.time("since_ns", task.since);
            json.list("waits", &task.waits, Self::wait);
            json.list("described", &task.described, |json, what| json.item(Text(what)));
            json.flag("cancelled", task.cancelled);
            json.flag("internal", task.internal);
            json.value("wakers", task.wakers);
            if let Some(state) = &task.thread_state {
                json.value("thread", Some(state.thread));
                json.text("thread_state", Some(&state.state.to_string()));
                json.value("system_call", state.system_call);
                json.text("system_call_name", state.system_call_name);
                json.text("futex", state.futex.map(|word| format!("{word:#x}")).as_deref());
            }
            match &task.stack {
                None => {}
                Some(Ok(stack)) => {
                    json.list("stack", &stack.with_names().frames, Self::frame);
                    json.text("stack_cut", stack.cut);
                }
                Some(Err(why)) => json.text("no_stack", Some(&why.to_string())),
            }
        });
    }

    fn wait(&mut self, wait: &WaitDump) {
        self.object(|json| {
            json.text("object", Some(&format!("{:#x}", wait.object)));
            json.time("since_ns", wait.since);
            json.flag("told", wait.told);
            json.numbers("holders", &wait.holders);
            json.numbers("likely", &wait.likely);
            json.flag("holder_missing", wait.is_holder_missing);
            json.flag("indirect", wait.is_indirect);
            json.text("on", Some(wait.on.name()));
            match &wait.on {
                WaitsFor::Lock { kind, owner } => {
                    json.text("of", Some(kind));
                    json.text("owner", owner.as_deref());
                }
                WaitsFor::Permits {
                    kind,
                    wanted,
                    free,
                    owner,
                    held,
                    missing,
                    absent,
                    all,
                    pool,
                    behind,
                } => {
                    json.text("of", Some(kind));
                    json.value("wanted", Some(*wanted));
                    json.value("free", Some(*free));
                    json.text("owner", owner.as_deref());
                    json.numbers("held", held);
                    json.value("missing", Some(*missing));
                    json.value("absent", Some(*absent));
                    json.value("all", (*all > 0).then_some(*all));
                    json.text("of_pool", pool.as_deref());
                    json.value("behind", *behind);
                }
                WaitsFor::Barrier { arrived, size } => {
                    json.value("arrived", Some(*arrived));
                    json.value("size", Some(*size));
                }
                WaitsFor::Event { kind, last, made_at } => {
                    json.text("of", Some(kind));
                    json.text("last_notifier", last.as_deref());
                    json.text("made_at", made_at.map(ToString::to_string).as_deref());
                }
                WaitsFor::Receive {
                    capacity,
                    senders,
                    last,
                    made_at,
                } => {
                    json.value("capacity", Some(*capacity));
                    json.value("senders", Some(*senders));
                    json.text("last_sender", last.as_deref());
                    json.text("made_at", Some(&made_at.to_string()));
                }
                WaitsFor::Send {
                    queued,
                    capacity,
                    receivers,
                    last,
                    made_at,
                } => {
                    json.value("queued", Some(*queued));
                    json.value("capacity", Some(*capacity));
                    json.value("receivers", Some(*receivers));
                    json.text("last_receiver", last.as_deref());
                    json.text("made_at", Some(&made_at.to_string()));
                }
                WaitsFor::Timer(left) | WaitsFor::Deadline(left) => {
                    json.time("left_ns", Some(*left));
                }
                WaitsFor::Socket {
                    descriptor,
                    write,
                    name,
                } => {
                    json.value("descriptor", *descriptor);
                    json.flag("write", *write);
                    json.text("descriptor_name", name.as_deref());
                }
                WaitsFor::Join | WaitsFor::Fork | WaitsFor::BlockingPlace | WaitsFor::Cancellation => {}
            }
        });
    }

    fn finding(&mut self, finding: &Finding) {
        self.object(|json| {
            let name = match finding {
                Finding::Cycle { .. } => "cycle",
                Finding::NobodyCanWake { .. } => "nobody_can_wake",
                Finding::Abandoned { .. } => "abandoned",
                Finding::NotPolled { .. } => "not_polled",
                Finding::NothingRuns { .. } => "nothing_runs",
                Finding::BlocksInKernel { .. } => "blocks_in_kernel",
                Finding::Unattended { .. } => "unattended",
            };
            json.text("finding", Some(name));
            json.flag("certain", finding.is_certain());
            json.numbers("tasks", finding.tasks());
            match finding {
                Finding::Cycle { uncertain, .. } => json.flag("uncertain", *uncertain),
                Finding::BlocksInKernel { word, .. } => json.text("word", Some(&format!("{word:#x}"))),
                _ => {}
            }
        });
    }
}
