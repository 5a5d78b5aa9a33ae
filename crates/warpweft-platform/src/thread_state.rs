//! The kernel's view of a thread of this process, for reports. It does not disturb the thread.

use std::fmt;

/// The state of a thread at one moment, as far as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadState {
    /// The kernel's number of the thread, the one that `gdb -p`, `eu-stack -1 -p` and `perf -t` take.
    pub thread: u32,
    /// The kernel's letter: `R` runs or waits for a CPU, `S` sleeps, `D` sleeps and cannot be woken, as for a
    /// disk.
    pub state: char,
    /// The number of the system call that it is in; `None` if it is in none, or the kernel does not report
    /// it.
    pub system_call: Option<u32>,
    /// The name of that system call, if it is one of those that take long.
    pub system_call_name: Option<&'static str>,
    /// The address of the word that it waits for, if it is in the system call `futex`.
    pub futex: Option<u64>,
    /// How often it has given up its CPU to wait for something.
    pub sleeps: Option<u64>,
    /// The kernel functions that it is in, the innermost first. It is empty while the thread is in none, and
    /// for users that may not read it; as a rule only the administrator may.
    pub kernel_stack: Vec<String>,
}

impl fmt::Display for ThreadState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} ", self.thread)?;
        match self.state {
            'R' => write!(f, "runs")?,
            'S' => write!(f, "sleeps")?,
            'D' => write!(f, "sleeps undisturbed")?,
            state => write!(f, "is in state {state}")?,
        }
        match (self.system_call_name, self.system_call) {
            (Some(name), Some(number)) => write!(f, " in system call {name} ({number})")?,
            (_, Some(number)) => write!(f, " in system call {number}")?,
            _ => (),
        }
        if let Some(futex) = self.futex {
            write!(f, ", which waits for the word at {futex:#x}")?;
        }
        for (at, function) in self.kernel_stack.iter().enumerate() {
            write!(f, "{}{function}", if at == 0 { ": " } else { " < " })?;
        }
        Ok(())
    }
}

/// Returns the kernel's number of the calling thread; `None` if it has none here.
#[must_use]
pub fn thread() -> Option<u32> {
    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    {
        // SAFETY: it takes nothing and touches no memory of ours.
        let thread = unsafe { libc::gettid() };
        u32::try_from(thread).ok()
    }
    #[cfg(not(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim)))))]
    None
}

/// Returns true if that thread of this process runs or waits for a CPU; `None` if the kernel does not report
/// it. It takes some microseconds.
#[must_use]
pub fn runs(thread: u32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    state(&stat).map(|state| state == 'R')
}

/// Returns the state of that thread of this process. It takes some 20 µs, most of it for the kernel's stack.
/// `None` if there is no such thread any more, or the kernel does not report it.
#[must_use]
pub fn of(thread: u32) -> Option<ThreadState> {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/task/{thread}/{name}"));
    let call = read("syscall").unwrap_or_default();
    let system_call = system_call(&call);
    let system_call_name = system_call.and_then(name_of);
    Some(ThreadState {
        thread,
        state: state(&read("stat").ok()?)?,
        system_call,
        system_call_name,
        futex: system_call_name
            .filter(|name| *name == "futex")
            .and_then(|_| first_argument(&call)),
        sleeps: sleeps(&read("status").unwrap_or_default()),
        kernel_stack: read("stack").map_or_else(|_| Vec::new(), |text| functions(&text)),
    })
}

/// `5119 (a name (of any kind)) S 4643 …`
fn state(stat: &str) -> Option<char> {
    stat.get(stat.rfind(')')? + 1..)?.trim_start().chars().next()
}

/// `230 0x0 …`, or `running`, or `-1 …` for a thread that sleeps outside of a system call.
fn system_call(text: &str) -> Option<u32> {
    text.split_whitespace().next()?.parse().ok()
}

/// `202 0x7f… …`
fn first_argument(text: &str) -> Option<u64> {
    let text = text.split_whitespace().nth(1)?;
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// `voluntary_ctxt_switches: 150`, with a tab.
fn sleeps(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Returns the name of a system call that may take long.
#[cfg(target_os = "linux")]
fn name_of(number: u32) -> Option<&'static str> {
    macro_rules! names {
        ($($call:ident $name:literal),+ $(,)?) => {
            [$((libc::$call, $name)),+]
        };
    }
    let names = names![
        SYS_accept4 "accept4", SYS_clock_nanosleep "clock_nanosleep", SYS_connect "connect",
        SYS_copy_file_range "copy_file_range", SYS_epoll_pwait "epoll_pwait", SYS_execve "execve",
        SYS_fallocate "fallocate", SYS_fcntl "fcntl", SYS_fdatasync "fdatasync", SYS_flock "flock",
        SYS_fsync "fsync", SYS_ftruncate "ftruncate", SYS_futex "futex", SYS_getdents64 "getdents64",
        SYS_getrandom "getrandom", SYS_io_uring_enter "io_uring_enter", SYS_ioctl "ioctl",
        SYS_madvise "madvise", SYS_mmap "mmap", SYS_mprotect "mprotect", SYS_msync "msync",
        SYS_munmap "munmap", SYS_nanosleep "nanosleep", SYS_openat "openat", SYS_ppoll "ppoll",
        SYS_pread64 "pread64", SYS_preadv "preadv", SYS_pselect6 "pselect6", SYS_pwrite64 "pwrite64",
        SYS_pwritev "pwritev", SYS_read "read", SYS_readv "readv", SYS_recvfrom "recvfrom",
        SYS_recvmsg "recvmsg", SYS_renameat "renameat", SYS_sendfile "sendfile", SYS_sendmsg "sendmsg",
        SYS_sendto "sendto", SYS_splice "splice", SYS_statx "statx", SYS_sync "sync",
        SYS_unlinkat "unlinkat", SYS_wait4 "wait4", SYS_waitid "waitid", SYS_write "write",
        SYS_writev "writev",
    ];
    #[cfg(target_arch = "x86_64")]
    let old = names![
        SYS_accept "accept", SYS_epoll_wait "epoll_wait", SYS_open "open", SYS_pause "pause",
        SYS_poll "poll", SYS_rename "rename", SYS_select "select", SYS_unlink "unlink",
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let old = names![SYS_accept "accept"];
    let all = || names.iter().chain(&old);
    all()
        .find(|(call, _)| *call == number.into())
        .map(|(_, name)| *name)
}

#[cfg(not(target_os = "linux"))]
fn name_of(_number: u32) -> Option<&'static str> {
    None
}

/// `[<0>] hrtimer_nanosleep+0x74/0xf0`, one per line.
fn functions(stack: &str) -> Vec<String> {
    let name = |line: &str| Some(line.split_once("] ")?.1.split('+').next()?.to_owned());
    stack.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        assert_eq!(state("12 (a) b) (c) S 1 2"), Some('S'));
        assert_eq!(state("12 (a"), None);
        assert_eq!(state("12 (a)"), None);
        assert_eq!(system_call("230 0x0 0x1 0x7ffd 0x7ff6\n"), Some(230));
        assert_eq!(system_call("running\n"), None);
        assert_eq!(system_call("-1 0x7ffd 0x7ff6\n"), None);
        let stack = "[<0>] hrtimer_nanosleep+0x74/0xf0\n[<0>] do_syscall_64+0x71/0x280\n";
        let thread_state = ThreadState {
            thread: 7,
            state: 'S',
            system_call: Some(230),
            system_call_name: None,
            futex: None,
            sleeps: sleeps("Threads:	1\nvoluntary_ctxt_switches:	150\nnonvoluntary_ctxt_switches:	5\n"),
            kernel_stack: functions(stack),
        };
        assert_eq!(thread_state.sleeps, Some(150));
        assert_eq!(sleeps("nonvoluntary_ctxt_switches:	5\n"), None);
        let text = "thread 7 sleeps in system call 230: hrtimer_nanosleep < do_syscall_64";
        assert_eq!(thread_state.to_string(), text);
        let waits = ThreadState {
            system_call_name: Some("futex"),
            futex: first_argument("202 0x7f12 0x80 0x1"),
            kernel_stack: Vec::new(),
            ..thread_state
        };
        let text = "thread 7 sleeps in system call futex (230), which waits for the word at 0x7f12";
        assert_eq!(waits.to_string(), text);
        assert_eq!(first_argument("running"), None);
    }

    #[cfg(all(target_os = "linux", not(any(warpweft_loom, warpweft_shuttle, warpweft_sim))))]
    #[test]
    fn a_thread_that_waits_and_one_that_asks_are_found() {
        use std::sync::mpsc::channel;
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let waits = std::thread::spawn(move || {
            tell.send(thread()).expect("somebody listens");
            let _ = ended.recv();
        });
        let its = told.recv().expect("it says so").expect("Linux numbers threads");
        let start = std::time::Instant::now();
        while of(its).is_none_or(|found| found.state != 'S') {
            assert!(start.elapsed().as_secs() < 30, "it never sleeps: {:?}", of(its));
        }
        let found = of(its).expect("it sleeps");
        assert_eq!(runs(its), Some(false));
        assert_eq!(thread().and_then(runs), Some(true));
        assert_eq!(found.system_call_name, Some("futex"), "{found}");
        assert!(found.futex.is_some());
        // This thread runs, because it calls this.
        let here = thread().and_then(of).expect("it is here");
        assert_eq!((here.state, here.thread == its), ('R', false));
        drop(end);
        waits.join().expect("no panic");
        // The kernel may take a moment after the join.
        while of(its).is_some() {
            assert!(start.elapsed().as_secs() < 30, "it never goes");
        }
    }
}
