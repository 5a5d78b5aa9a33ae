//! System calls that the programs need and safe Rust cannot make. Nothing else in this test has `unsafe`.

/// Kills a child of this process, which leads a process group, and all that is left of its group.
pub(crate) fn kill_group(leader: u32) {
    // SAFETY: the call takes numbers. The leader was not waited for yet, so the number is not used again.
    unsafe { libc::kill(-leader.cast_signed(), libc::SIGKILL) };
}

/// Forks this process, and calls `child` in the child, which ends with the status that `child` gives. Returns
/// the status that `waitpid` gives in the parent.
///
/// The child may only do what a child of a process with threads may do. The programs know that.
pub(crate) fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: by the remark above.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "fork");
    if process == 0 {
        let status = child();
        // SAFETY: it ends the child, without destructors of what is the parent's.
        unsafe { libc::_exit(status) };
    }
    wait_for(process)
}

/// Forks this process and returns in both. In the parent it gives the child's number, in the child 0.
pub(crate) fn fork_and_return() -> libc::pid_t {
    // SAFETY: as above.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "fork");
    process
}

/// Ends this process at once with a status.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: it ends the process, without destructors.
    unsafe { libc::_exit(status) }
}

/// Waits for the end of a child of this process. The status is as `waitpid` gives it.
pub(crate) fn wait_for(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for a write.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(waited, process, "waitpid");
    status
}

/// What a filter of system calls refuses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Refuse {
    /// `membarrier`, with `EPERM`.
    Membarrier,
    /// New threads and processes, with `EAGAIN`.
    Threads,
}

/// Installs a filter of system calls on all threads of this process, for good. `false`: the system does not
/// allow it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn enter_sandbox(refuse: Refuse) -> bool {
    const SECCOMP_SET_MODE_FILTER: libc::c_uint = 1;
    const FILTER_FLAG_TSYNC: libc::c_uint = 1;
    const RET_ERRNO: u32 = 0x0005_0000;
    const RET_ALLOW: u32 = 0x7fff_0000;
    let (calls, error) = match refuse {
        Refuse::Membarrier => (vec![libc::SYS_membarrier], libc::EPERM),
        Refuse::Threads => (vec![libc::SYS_clone, libc::SYS_clone3], libc::EAGAIN),
    };
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    // Loads the number of the call, and returns the error for those that are refused.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0)];
    for call in calls {
        filter.push(libc::sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: call as u32,
        });
        filter.push(statement(
            libc::BPF_RET | libc::BPF_K,
            RET_ERRNO | error.cast_unsigned(),
        ));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, RET_ALLOW));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the call takes numbers.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `program` describes `filter`; both live until the call returns, which copies them.
    let entered = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    set == 0 && entered == 0
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn enter_sandbox(_: Refuse) -> bool {
    false
}

/// Memory that this process and its children share: a counter.
pub(crate) struct SharedCounter(*mut std::sync::atomic::AtomicUsize);

// SAFETY: it is an atomic, in memory that is never unmapped.
unsafe impl Send for SharedCounter {}
// SAFETY: as above.
unsafe impl Sync for SharedCounter {}

impl SharedCounter {
    /// A counter of 0.
    pub(crate) fn new() -> Self {
        // SAFETY: a new anonymous mapping, at a place that the system chooses.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(place, libc::MAP_FAILED);
        Self(place.cast())
    }

    /// The atomic.
    pub(crate) fn get(&self) -> &std::sync::atomic::AtomicUsize {
        // SAFETY: the mapping is aligned to a page, zeroed, and never unmapped.
        unsafe { &*self.0 }
    }
}
