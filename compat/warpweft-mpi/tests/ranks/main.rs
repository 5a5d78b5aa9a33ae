//! What ranks do together: run by a launcher, as `cargo xtask mpi` does. Without one it is a job of one rank
//! where MPI is installed, and elsewhere the check that its absence is said clearly.
//!
//! A check has a name; names on the command line select some. Each rank runs all checks in the same order.
//! One that fails ends the job.

mod calls;
mod work;

use std::env;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use warpweft::{Runtime, spawn, spawn_job};
use warpweft_mpi::{Comm, Mpi, MpiErrorKind, Reduce, Source};

type Check = (&'static str, fn(&Comm));

const CHECKS: &[Check] = &[
    ("a_message_goes_round", a_message_goes_round),
    (
        "messages_of_one_rank_keep_their_order",
        messages_of_one_rank_keep_their_order,
    ),
    ("a_message_of_any_length", a_message_of_any_length),
    ("large_messages_cross", large_messages_cross),
    (
        "a_message_that_is_too_long_is_an_error",
        a_message_that_is_too_long_is_an_error,
    ),
    ("arguments_that_cannot_be", arguments_that_cannot_be),
    (
        "a_dropped_receive_takes_no_message",
        a_dropped_receive_takes_no_message,
    ),
    ("dropped_receives_leave_nothing", dropped_receives_leave_nothing),
    (
        "a_worker_does_something_else_meanwhile",
        a_worker_does_something_else_meanwhile,
    ),
    ("collectives_agree", collectives_agree),
    ("ports_carry_values", ports_carry_values),
    (
        "a_port_of_another_type_is_an_error",
        a_port_of_another_type_is_an_error,
    ),
    ("many_are_outstanding", many_are_outstanding),
    (
        "a_map_and_reduce_over_all_ranks",
        work::a_map_and_reduce_over_all_ranks,
    ),
    ("nothing_to_map", work::nothing_to_map),
    (
        "shared_work_takes_one_communicator",
        work::shared_work_takes_one_communicator,
    ),
    (
        "a_rank_without_a_bag_takes_no_work",
        work::a_rank_without_a_bag_takes_no_work,
    ),
    (
        "a_bag_that_panics_does_so_on_its_rank_alone",
        work::a_bag_that_panics_does_so_on_its_rank_alone,
    ),
    (
        "a_map_that_panics_is_an_error_of_the_others",
        work::a_map_that_panics_is_an_error_of_the_others,
    ),
    (
        "runners_end_with_the_future_that_is_dropped",
        work::runners_end_with_the_future_that_is_dropped,
    ),
    ("a_huge_capacity_is_an_error", a_huge_capacity_is_an_error),
    (
        "functions_are_called_on_ranks",
        calls::functions_are_called_on_ranks,
    ),
    ("calls_cross_and_call_others", calls::calls_cross_and_call_others),
    (
        "a_function_that_fails_is_an_error_of_its_caller",
        calls::a_function_that_fails_is_an_error_of_its_caller,
    ),
    (
        "functions_that_differ_are_named_on_all_ranks",
        calls::functions_that_differ_are_named_on_all_ranks,
    ),
    (
        "dropped_calls_are_waited_for",
        calls::dropped_calls_are_waited_for,
    ),
    (
        "a_late_message_wakes_a_rank_that_sleeps",
        a_late_message_wakes_a_rank_that_sleeps,
    ),
];

fn main() -> ExitCode {
    let names: Vec<String> = env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'))
        .collect();
    if env::args().any(|word| word == "--list") {
        CHECKS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let runtime = Runtime::builder().workers(2).build().expect("workers");
    // The command that starts the ranks asks for it when one hangs.
    let _dumps = warpweft::signal::dump_on_signal(&runtime, |dump| eprintln!("{dump}")).expect("a thread");
    let _taken = (names.first().map(String::as_str) == Some("cannot-meet")).then(take_own_name);
    let mpi = match Mpi::init(&runtime) {
        Ok(mpi) => mpi,
        Err(error) => return without_mpi(&error),
    };
    assert_eq!(
        Mpi::init(&runtime).expect_err("once").kind(),
        MpiErrorKind::Library,
        "a second beginning is an error"
    );
    // A thread that the monitor has just started has the monitor's name, until it takes its own.
    let start = Instant::now();
    while monitors() != 1 && start.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(monitors(), 1, "the sockets of the ranks are in this runtime");
    match names.first().map(String::as_str) {
        Some("end-early") => end_early(mpi),
        Some("be-killed") => be_killed(&mpi),
        Some("leave-a-receive") => return leave_a_receive(mpi),
        _ => {}
    }
    let selected = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let mut passed = 0;
    for (name, check) in CHECKS.iter().filter(|(name, _)| selected(name)) {
        let comm = mpi.world().duplicate().expect("a communicator");
        let done = runtime.spawn_fiber(move || check(&comm)).wait();
        if let Err(error) = done {
            eprintln!("rank {}: {name} ... FAILED: {error}", mpi.rank());
            mpi.abort(1);
        }
        if mpi.rank() == 0 {
            println!("test {name} ... ok");
        }
        passed += 1;
    }
    let (rank, size) = (mpi.rank(), mpi.size());
    mpi.finalize().expect("nothing is outstanding");
    if rank == 0 {
        println!("test result: ok. {passed} passed; 0 failed, on {size} ranks");
    }
    ExitCode::SUCCESS
}

/// Returns how many runtimes of this process have begun: each has a monitor.
fn monitors() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("MPI is tested on Linux");
    let names = threads.flatten().map(|thread| thread.path().join("comm"));
    let names = names.filter_map(|name| std::fs::read_to_string(name).ok());
    names.filter(|name| name.trim() == "warpweft-watch").count()
}

fn without_mpi(error: &warpweft_mpi::MpiError) -> ExitCode {
    assert_eq!(error.kind(), MpiErrorKind::Library, "{error}");
    let text = error.to_string();
    assert!(text.contains("WARPWEFT_MPI_LIB"), "{text}");
    assert!(env::var_os("WARPWEFT_MPI_REQUIRED").is_none(), "{text}");
    println!("test the_absence_of_mpi_is_said ... ok\n{text}");
    println!("test result: ok. 1 passed; 0 failed: `cargo xtask mpi` runs the others");
    ExitCode::SUCCESS
}

/// Takes the name by which the other ranks would wake this one.
fn take_own_name() -> UnixDatagram {
    let name = SocketAddr::from_abstract_name(format!("warpweft-mpi-{}", std::process::id()));
    UnixDatagram::bind_addr(&name.expect("a short name")).expect("nobody else has it")
}

/// Rank 1 ends its process without `Mpi::finalize`. The others must end soon, by an error.
fn end_early(mpi: Mpi<'_>) -> ! {
    if mpi.rank() == 1 {
        std::mem::forget(mpi);
        std::process::exit(0);
    }
    let message = mpi.world().recv(1, 3, 8).wait();
    unreachable!("rank 1 sent nothing, but {message:?} came")
}

/// Rank 1 is killed. The others must end soon, by an error.
fn be_killed(mpi: &Mpi<'_>) -> ! {
    let world = mpi.world();
    world.barrier().wait().expect("all are there");
    if mpi.rank() == 1 {
        let own = i32::try_from(std::process::id()).expect("a process");
        // SAFETY: it ends this process.
        unsafe { libc::kill(own, libc::SIGKILL) };
    }
    let message = world.recv(1, 3, 8).wait();
    unreachable!("rank 1 sent nothing, but {message:?} came")
}

fn leave_a_receive(mpi: Mpi<'_>) -> ExitCode {
    let left = mpi.world().recv(0, 3, 8);
    let error = mpi.finalize().expect_err("one is outstanding").to_string();
    assert!(error.contains("a receive of rank 0 with tag 3"), "{error}");
    assert_eq!(
        left.wait().expect_err("MPI has ended").kind(),
        MpiErrorKind::Finished
    );
    println!("test leave-a-receive ... ok");
    ExitCode::SUCCESS
}

fn next_and_previous(comm: &Comm) -> (usize, usize) {
    let (rank, size) = (comm.rank(), comm.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

fn a_message_goes_round(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    for round in 0..100 {
        let receive = comm.recv(previous, 1, 8);
        let sent = comm.send(next, 1, vec![comm.rank() as u8, round]);
        let message = receive.wait().expect("it comes");
        assert_eq!((message.source, message.tag), (previous, 1));
        assert_eq!(message.bytes, [previous as u8, round]);
        assert_eq!(sent.wait().expect("it is gone"), [comm.rank() as u8, round]);
    }
}

fn messages_of_one_rank_keep_their_order(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let sent: Vec<_> = (0..1000_u32)
        .map(|n| comm.send(next, 2, n.to_le_bytes().to_vec()))
        .collect();
    for n in 0..1000_u32 {
        let message = comm.recv(previous, 2, 4).wait().expect("it comes");
        assert_eq!(message.bytes, n.to_le_bytes());
    }
    sent.into_iter()
        .for_each(|sent| drop(sent.wait().expect("it is gone")));
}

fn a_message_of_any_length(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    for len in [0, 1, 1000, 100_000] {
        let receive = comm.recv_any_length(Source::Any, 3);
        let sent = comm.send(next, 3, vec![comm.rank() as u8; len]);
        let message = receive.wait().expect("it comes");
        assert_eq!(message.source, previous);
        assert_eq!(message.bytes, vec![previous as u8; len]);
        sent.wait().expect("it is gone");
        // A message of one rank must not overtake another's.
        comm.barrier().wait().expect("all come");
    }
}

fn large_messages_cross(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let len = 8 << 20;
    let sent = comm.send(next, 4, vec![comm.rank() as u8; len]);
    let message = comm.recv(previous, 4, len).wait().expect("it comes");
    assert!(message.bytes.len() == len && message.bytes.iter().all(|byte| *byte == previous as u8));
    sent.wait().expect("it is gone");
}

fn a_message_that_is_too_long_is_an_error(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let sent = comm.send(next, 5, vec![1; 100]);
    let error = comm.recv(previous, 5, 10).wait().expect_err("too long");
    assert_eq!(error.kind(), MpiErrorKind::Truncated, "{error}");
    assert!(error.to_string().contains("10 bytes"), "{error}");
    sent.wait().expect("it is gone");
}

fn arguments_that_cannot_be(comm: &Comm) {
    let size = comm.size();
    for error in [
        comm.send(size, 1, vec![]).wait().expect_err("no such rank"),
        comm.recv(size, 1, 0).wait().expect_err("no such rank"),
        comm.send(0, -1, vec![]).wait().expect_err("no tag"),
        comm.recv_any_length(0, 40_000).wait().expect_err("no tag"),
        comm.broadcast(size, vec![]).wait().expect_err("no such rank"),
    ] {
        assert_eq!(error.kind(), MpiErrorKind::Argument, "{error}");
    }
    if size > 1 {
        let error = comm
            .all_to_all(vec![0; size + 1])
            .wait()
            .expect_err("no equal parts");
        assert_eq!(error.kind(), MpiErrorKind::Argument, "{error}");
    }
}

fn a_dropped_receive_takes_no_message(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    drop(comm.recv(previous, 6, 8));
    drop(comm.recv_any_length(previous, 6));
    // The next turn cancels them; the barrier needs turns.
    comm.barrier().wait().expect("all come");
    comm.barrier().wait().expect("all come");
    let sent = comm.send(next, 6, vec![9]);
    assert_eq!(comm.recv(previous, 6, 8).wait().expect("it comes").bytes, [9]);
    sent.wait().expect("it is gone");
}

fn dropped_receives_leave_nothing(comm: &Comm) {
    let before = memory();
    for _ in 0..20 {
        (0..5000).for_each(|_| drop(comm.recv(comm.rank(), 7, 100)));
        comm.barrier().wait().expect("all come");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "100000 dropped receives left {grown} bytes");
}

/// Returns the resident memory of this process in bytes.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

fn a_worker_does_something_else_meanwhile(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let others = 100;
    static RAN: AtomicUsize = AtomicUsize::new(0);
    RAN.store(0, Ordering::Relaxed);
    let receives: Vec<_> = (0..others)
        .map(|tag| {
            spawn({
                let comm = comm.clone();
                async move { comm.recv(previous, 100 + tag, 8).await.expect("it comes").bytes }
            })
        })
        .collect();
    let jobs: Vec<_> = (0..others)
        .map(|_| spawn_job(|| RAN.fetch_add(1, Ordering::Relaxed)))
        .collect();
    for job in jobs {
        let _ = job.wait().expect("no panic");
    }
    assert_eq!(RAN.load(Ordering::Relaxed), others as usize);
    for tag in (0..others).rev() {
        comm.send(next, 100 + tag, vec![tag as u8])
            .wait()
            .expect("it is gone");
    }
    for (tag, receive) in receives.into_iter().enumerate() {
        assert_eq!(receive.wait().expect("no panic"), [tag as u8]);
    }
}

fn collectives_agree(comm: &Comm) {
    let (rank, size) = (comm.rank(), comm.size());
    let numbers = vec![rank as i64, -(rank as i64)];
    let sum: i64 = (0..size as i64).sum();
    let reduce = |reduce| comm.all_reduce(numbers.clone(), reduce).wait().expect("all come");
    assert_eq!(reduce(Reduce::Sum), [sum, -sum]);
    assert_eq!(reduce(Reduce::Min), [0, 1 - size as i64]);
    assert_eq!(reduce(Reduce::Max), [size as i64 - 1, 0]);
    let floats = comm
        .all_reduce(vec![0.5_f64], Reduce::Sum)
        .wait()
        .expect("all come");
    assert_eq!(floats, [0.5 * size as f64]);
    let words = comm.all_reduce(vec![u64::MAX, rank as u64], Reduce::Max).wait();
    assert_eq!(words.expect("all come"), [u64::MAX, size as u64 - 1]);
    let root = size - 1;
    let own = if rank == root { vec![7, 8, 9] } else { vec![0; 3] };
    assert_eq!(comm.broadcast(root, own).wait().expect("all come"), [7, 8, 9]);
    let all: Vec<u8> = (0..size as u8).flat_map(|rank| [rank, rank]).collect();
    let gathered = comm.all_gather(vec![rank as u8; 2]).wait().expect("all come");
    assert_eq!(gathered, all);
    let parts: Vec<u8> = (0..size).map(|to| (rank * size + to) as u8).collect();
    let theirs: Vec<u8> = (0..size).map(|from| (from * size + rank) as u8).collect();
    assert_eq!(comm.all_to_all(parts).wait().expect("all come"), theirs);
}

fn ports_carry_values(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let port = comm.port::<(String, Vec<u64>)>(8);
    warpweft::block_on(async {
        let value = (format!("of {}", comm.rank()), vec![1, u64::MAX]);
        let sent = spawn({
            let port = port.clone();
            async move { port.send(next, &value).await }
        });
        let letter = port.recv(Source::Any).await.expect("it comes");
        assert_eq!(letter.source, previous);
        assert_eq!(letter.value, (format!("of {previous}"), vec![1, u64::MAX]));
        sent.await.expect("no panic").expect("it is gone");
    });
}

fn a_port_of_another_type_is_an_error(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    warpweft::block_on(async {
        let port = comm.port::<u32>(9);
        let sent = spawn(async move { port.send(next, &1).await });
        let error = comm.port::<i32>(9).recv(previous).await.expect_err("a u32");
        assert_eq!(error.kind(), MpiErrorKind::Type, "{error}");
        assert!(error.to_string().contains("is no `i32`"), "{error}");
        sent.await.expect("no panic").expect("it is gone");
        let sent = comm.send(next, 9, vec![1, 2]);
        let error = comm.port::<i32>(9).recv(previous).await.expect_err("two bytes");
        assert!(error.to_string().contains("it has 2 bytes"), "{error}");
        sent.await.expect("it is gone");
    });
}

fn many_are_outstanding(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let tags = 0..1000;
    let receives: Vec<_> = tags.clone().map(|tag| comm.recv(previous, tag, 8)).collect();
    comm.barrier().wait().expect("all come");
    let sent: Vec<_> = tags
        .rev()
        .map(|tag| comm.send(next, tag, tag.to_le_bytes().to_vec()))
        .collect();
    for (tag, receive) in receives.into_iter().enumerate() {
        let message = receive.wait().expect("it comes");
        assert_eq!(message.bytes, (tag as i32).to_le_bytes());
    }
    sent.into_iter()
        .for_each(|sent| drop(sent.wait().expect("it is gone")));
}

fn a_huge_capacity_is_an_error(comm: &Comm) {
    let error = comm.recv(0, 1, usize::MAX).wait().expect_err("too long");
    assert_eq!(error.kind(), MpiErrorKind::Argument, "{error}");
}

fn a_late_message_wakes_a_rank_that_sleeps(comm: &Comm) {
    let (next, previous) = next_and_previous(comm);
    let receive = comm.recv(previous, 10, 8);
    // Longer than a rank looks for messages. In turn, so that no rank looks for another reason.
    for turn in 0..comm.size() {
        if turn == comm.rank() {
            warpweft::block_on(warpweft::time::sleep(Duration::from_millis(100)));
            comm.send(next, 10, vec![1]).wait().expect("it is gone");
        }
        comm.barrier().wait().expect("all come");
    }
    assert_eq!(receive.wait().expect("it comes").bytes, [1]);
}
