//! A dump for programs: JSON, by a small writer.

use super::names::kind_name;
use super::{Dump, Finding, TaskDump, TaskState, WaitDump, WaitsFor};
use crate::observe::json::Text;
use crate::observe::stack::Frame;
use std::fmt::Write as _;
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
        let mut json = Writer(String::new());
        json.object(|json| {
            json.number("version", Some(1));
            json.list("pools", &self.pools, |json, pool| {
                json.object(|json| {
                    json.text("name", Some(&pool.name));
                    json.text("policy", Some(&pool.policy));
                    json.number("workers", Some(pool.workers as u64));
                    json.flag("closed", pool.closed);
                    json.flag("forked", pool.forked);
                    json.number("ready", Some(pool.ready as u64));
                    json.number("unlisted", Some(pool.unlisted as u64));
                    json.number("left_out", Some(pool.left_out as u64));
                });
            });
            let tasks: Vec<_> = self.tasks.iter().enumerate().collect();
            json.list("tasks", &tasks, |json, (number, task)| json.task(*number, task));
            json.list("findings", &self.findings, Writer::finding);
        });
        json.0
    }
}

/// Writes JSON. A comma comes before each value that is not the first of its list or object.
struct Writer(String);

impl Writer {
    fn comma(&mut self) {
        if !self.0.is_empty() && !self.0.ends_with(['{', '[', ':', ',']) {
            self.0.push(',');
        }
    }

    fn name(&mut self, name: &str) {
        self.comma();
        self.string(name);
        self.0.push(':');
    }

    fn string(&mut self, text: &str) {
        // A string takes everything.
        let _ = write!(self.0, "{}", Text(text));
    }

    fn object(&mut self, members: impl FnOnce(&mut Self)) {
        self.comma();
        self.0.push('{');
        members(self);
        self.0.push('}');
    }

    fn list<T>(&mut self, name: &str, values: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.name(name);
        self.0.push('[');
        for value in values {
            each(self, value);
        }
        self.0.push(']');
    }

    fn text(&mut self, name: &str, text: Option<&str>) {
        self.name(name);
        match text {
            Some(text) => self.string(text),
            None => self.0.push_str("null"),
        }
    }

    fn number(&mut self, name: &str, number: Option<u64>) {
        self.name(name);
        self.plain(number);
    }

    fn plain(&mut self, number: Option<u64>) {
        match number {
            // A string takes everything.
            Some(number) => drop(write!(self.0, "{number}")),
            None => self.0.push_str("null"),
        }
    }

    fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.0.push_str(if flag { "true" } else { "false" });
    }

    fn numbers(&mut self, name: &str, numbers: &[usize]) {
        self.list(name, numbers, |json, number| {
            json.comma();
            json.plain(Some(*number as u64));
        });
    }

    fn time(&mut self, name: &str, time: Option<Duration>) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.number(name, time.map(ns));
    }

    fn frame(&mut self, frame: &Frame) {
        self.object(|json| {
            json.text("address", Some(&format!("{:#x}", frame.address)));
            json.text("function", frame.function.as_deref());
            json.text("file", frame.file.as_deref());
            json.number("line", frame.line.map(u64::from));
            let module = frame.module.as_ref();
            json.text("module", module.map(|(module, _)| module.as_str()));
            json.text("in_module", module.map(|(_, at)| format!("{at:#x}")).as_deref());
        });
    }

    fn task(&mut self, number: usize, task: &TaskDump) {
        self.object(|json| {
            json.number("number", Some(number as u64));
            json.text("id", Some(&format!("{:#x}", task.id)));
            json.text("kind", Some(kind_name(task.kind)));
            json.text("name", task.name.as_deref());
            json.text("spawned_at", task.spawned_at.map(ToString::to_string).as_deref());
            json.text("pool", task.pool.as_deref());
            json.text("state", Some(task.state.name()));
            let worker = match task.state {
                TaskState::Running(Some(worker)) => Some(worker as u64),
                _ => None,
            };
            json.number("worker", worker);
            json.time("since_ns", task.since);
            json.list("waits", &task.waits, Self::wait);
            json.list("described", &task.described, |json, what| {
                json.comma();
                json.string(what);
            });
            json.flag("cancelled", task.cancelled);
            json.flag("internal", task.internal);
            json.number("wakers", task.wakers);
            if let Some(state) = &task.thread_state {
                json.number("thread", Some(state.thread.into()));
                json.text("thread_state", Some(&state.state.to_string()));
                json.number("system_call", state.system_call.map(u64::from));
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
                    json.number("wanted", Some(*wanted as u64));
                    json.number("free", Some(*free as u64));
                    json.text("owner", owner.as_deref());
                    json.numbers("held", held);
                    json.number("missing", Some(*missing as u64));
                    json.number("absent", Some(*absent as u64));
                    json.number("all", (*all > 0).then_some(*all as u64));
                    json.text("of_pool", pool.as_deref());
                    json.number("behind", behind.map(|first| first as u64));
                }
                WaitsFor::Barrier { arrived, size } => {
                    json.number("arrived", Some(*arrived as u64));
                    json.number("size", Some(*size as u64));
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
                    json.number("capacity", Some(*capacity as u64));
                    json.number("senders", Some(*senders as u64));
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
                    json.number("queued", Some(*queued as u64));
                    json.number("capacity", Some(*capacity as u64));
                    json.number("receivers", Some(*receivers as u64));
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
                    json.number("descriptor", *descriptor);
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
