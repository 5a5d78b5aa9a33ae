//! Whatever a user gets wrong is answered with what would be right, and nothing is measured first.

mod common;

use std::time::{Duration, Instant};

use common::{CAPTURE, Folder, complaint, say};

#[test]
fn wrong_names_list_the_right_ones_and_the_nearest() {
    let folder = Folder::new("names");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    let workload = complaint("bench pakcet");
    assert!(workload.contains("did you mean `packet`?"), "{workload}");
    assert!(
        workload.contains(
            "call, churn, city, create, cycle, eratosthenes, fib-promise, fork-join, http, lines, locality, lock, loops, mandelbrot"
        ),
        "{workload}"
    );
    assert!(complaint("explore pakcet").contains("did you mean `packet`?"));
    let runtime = complaint("bench packet --runtime rayno");
    assert!(
        runtime.contains("did you mean `rayon`?") && runtime.contains("threads"),
        "{runtime}"
    );
    assert!(complaint("bench packet --policy lifo+stael=one").contains("steal="));
    assert!(complaint("bench packet --policy filo").contains("lifo"));
    assert!(complaint("bench packet/bursty").contains("did you mean `burst`?"));
    assert!(complaint("bench packet nn=5").contains("parameters of this workload: n, window"));
    assert!(complaint("bench packet n=lots").contains("whole number"));
    assert!(complaint("bench spawn mode=twice").contains("batch, one, fire, backlog, scope"));
    assert!(complaint("banch").contains("did you mean `bench`?"));
    assert!(
        complaint("foo")
            .contains("commands: explore, bench, simulate, compare, try, results, trace, list, completions")
    );
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let folder = Folder::new("numbers");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    for workers in ["0", "1000000", "18446744073709551615"] {
        for runtime in [
            "warpweft",
            "rayon",
            "tokio",
            "smol",
            "threads",
            "steal-one",
            "chili",
            "forte",
            "orx-parallel",
            "monoio",
        ] {
            let text = complaint(&format!("bench packet --runtime {runtime} --workers {workers}"));
            assert!(text.contains(workers) && text.contains("from 1 to"), "{text}");
        }
    }
    assert!(complaint("bench packet --workers two").contains("two"));
    assert!(complaint("bench packet --workers -1").contains("-1"));
    assert!(complaint("bench packet n=0").contains("from 1 to"));
    assert!(complaint("bench fork-join/fib n=51").contains("from 2 to 50"));
    assert!(complaint("bench fork-join/matmul n=5000").contains("rows and columns"));
    assert!(complaint("bench pingpong capacity=0").contains("from 1 to"));
    assert!(complaint("bench lock tasks=0").contains("tasks that lock"));
    assert!(complaint("bench timers spread=0").contains("milliseconds"));
    assert!(complaint("bench mixed rate=0").contains("echoes per second"));
    assert!(complaint("bench mixed connections=100000").contains("from 1 to 2000"));
    assert!(complaint("bench mixed --runtime tokio+rayon --workers 0").contains("from 1 to"));
    assert!(complaint("bench packet --repeat 0").contains("at least one"));
    assert!(complaint("bench packet --limit 0").contains("some time"));
    assert!(complaint("bench packet --policy fifo+capacity=0").contains("capacity"));
}

#[test]
fn what_cannot_run_says_why() {
    let folder = Folder::new("refused");
    let complaint = |words: &str| complaint(folder.path(), words, 2);
    assert!(complaint("bench parked --runtime rayon").contains("cannot wait without holding a worker"));
    assert!(complaint("bench fib-promise --runtime threads").contains("15 at most"));
    for runtime in ["tokio", "smol", "threads", "rayon-fifo"] {
        let text = complaint(&format!("bench fork-join --runtime {runtime}"));
        assert!(text.contains(" join"), "{text}");
    }
    assert!(complaint("bench http --runtime rayon").contains("see tokio+rayon"));
    assert!(complaint("bench http --runtime smol").contains("not written for it"));
    assert!(complaint("bench packet --runtime tokio+rayon").contains("see mixed and http"));
    assert!(complaint("bench packet --runtime monoio").contains("see http"));
    assert!(complaint("bench packet --runtime orx-parallel").contains("see loops"));
    assert!(complaint("bench loops --runtime orx-parallel --workers 4096").contains("a thread for each"));
    assert!(complaint("bench loops --runtime rayon-fifo").contains("see rayon"));
    assert!(complaint("bench loops piece=x").contains("whole number"));
    assert!(complaint("bench http connections=0").contains("from 1 to"));
    for runtime in ["chili", "forte", "sequential"] {
        assert!(complaint(&format!("bench packet --runtime {runtime}")).contains("see fork-join"));
    }
    assert!(complaint("bench fork-join --runtime sequential --workers 2").contains("second worker"));
    for runtime in ["rayon-fifo", "tokio", "smol", "threads"] {
        let text = complaint(&format!("bench spawn/scope --runtime {runtime}"));
        assert!(text.contains("scope"), "{text}");
    }
    assert!(complaint("bench spawn/scope from=outside --runtime rayon").contains("from=inside"));
    for (words, reason) in [
        (
            "packet-bimodal/network --runtime rayon-fifo",
            "without holding a worker",
        ),
        ("packet-bimodal/network --runtime smol", "no timers"),
        (
            "packet-bimodal/network --runtime steal-one",
            "without holding a worker",
        ),
        ("fib-promise --runtime steal-one", "where packets are handled"),
        ("spawn/scope --runtime steal-one", "where packets are handled"),
        (
            "packet-bimodal --policy staged --workers 1",
            "2 stages need as many workers",
        ),
        ("packet-bimodal --policy staged:fifo", "2 or 3 policies"),
        ("packet-bimodal --policy staged:fifo/filo", "fifo"),
        ("packet-bimodal --policy staged:fifo@1/fifo", "or none does"),
        (
            "packet-bimodal --policy staged:fifo@0/fifo@1",
            "1 to 4096 workers",
        ),
        (
            "packet-bimodal --policy staged:fifo@1/fifo@1:7",
            "second of three",
        ),
        (
            "packet --policy staged --workers 2",
            "only packet-bimodal and mixer",
        ),
        ("mixer --policy silos:0:fifo", "`0` is no such count"),
        (
            "mixer --policy silos:3:fifo --workers 2",
            "3 silos need as many workers",
        ),
        (
            "mixer --policy staged:fifo@1/fifo@1:7/fifo@1",
            "no stage of it has a bound",
        ),
        ("mixer/fibers --policy silos:2:fifo --workers 2", "style=futures"),
        (
            "packet-bimodal --policy silos:2:fifo --workers 2",
            "only mixer has silos",
        ),
        ("packet-bimodal form=disk", "compute, network, blocking"),
        ("packet-bimodal heavy=1001", "from 0 to 1000"),
        ("packet-bimodal --runtime may", "see pingpong"),
        ("pingpong --runtime rayon", "cannot wait without holding a worker"),
        ("pingpong --runtime threads", "measure the kernel"),
        ("pingpong --runtime tokio+rayon", "see mixed"),
        ("pingpong form=both", "channel, oneshot, fan"),
        ("lock --runtime rayon", "no mutex of its own"),
        ("lock/std-local --runtime go", "not its own"),
        ("lock mutex=none", "own, std"),
        ("timers --runtime smol", "no timers"),
        ("timers io=nobody", "inline, thread"),
        ("mapreducefib --runtime smol", "no timers"),
        ("mapreducefib --runtime threads", "measure the kernel"),
        ("mapreducefib n=0", "from 1 to"),
        ("mapreducefib from=udp", "timer, tcp"),
        ("mapreducefib/tcp --runtime go", "no server"),
        ("mapreducefib --runtime chili", "can only join"),
        ("sweep --runtime rayon-fifo", "see rayon"),
        ("sweep share=101", "from 0 to 100"),
        ("mixed --runtime tokio", "see tokio+rayon"),
        ("mixed --runtime rayon", "see tokio+rayon"),
        ("mixed --runtime go", "another process"),
        ("mixed --runtime chili", "see fork-join"),
    ] {
        let text = complaint(&format!("bench {words}"));
        assert!(text.contains(reason), "{words}: {text}");
    }
    assert!(complaint("bench packet --runtime rayon --policy fifo").contains("leaves that out"));
    assert!(complaint("bench packet --pcap some.pcap").contains("is for the workload pcap"));
}

#[test]
fn captures_that_are_none_are_refused_with_the_place() {
    let folder = Folder::new("captures");
    let complaint = |name: &str, bytes: &[u8]| {
        let path = folder.file(name, bytes);
        let text = complaint(
            folder.path(),
            &format!("explore --smoke --pcap {}", path.display()),
            1,
        );
        assert!(text.contains(name), "the file is named: {text}");
        assert!(!folder.path().join("reports/explore-pcap.html").exists());
        text
    };
    let cut = complaint("cut.pcap", &CAPTURE[..CAPTURE.len() - 10]);
    assert!(
        cut.contains("ends in the middle of packet") && cut.contains("byte"),
        "{cut}"
    );
    assert!(complaint("header.pcap", &CAPTURE[..10]).contains("within its header"));
    assert!(complaint("none.pcap", &CAPTURE[..24]).contains("no packets"));
    assert!(complaint("empty.pcap", b"").contains("empty"));
    assert!(complaint("page.html", b"<!doctype html><title>no capture</title>").contains("is no capture"));
    assert!(complaint("packed.pcap.gz", &[0x1f, 0x8b, 8, 0, 0]).contains("decompress"));
    let mut cooked = CAPTURE.to_vec();
    cooked[20] = 113;
    let text = complaint("cooked.pcap", &cooked);
    assert!(
        text.contains("link type") && text.contains("Ethernet (1)"),
        "{text}"
    );
    let missing = common::complaint(folder.path(), "bench pcap --pcap missing.pcap", 1);
    assert!(
        missing.contains("missing.pcap") && missing.contains("No such file"),
        "{missing}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let folder = Folder::new("unwritable");
    folder.file("file", b"");
    for (path, reason) in [
        ("file/report.html", "file"),
        (".", "folder"),
        ("/proc/report.html", "/proc/report.html"),
    ] {
        let start = Instant::now();
        let text = complaint(folder.path(), &format!("explore --report {path}"), 1);
        assert!(
            text.contains("cannot write the report") && text.contains(reason),
            "{text}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "a whole exploration went before the complaint"
        );
    }
    let json = complaint(folder.path(), "explore --json file/all.json", 1);
    assert!(json.contains("JSON document"), "{json}");
    let left: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert!(
        left.iter().all(|name| !name.to_string_lossy().ends_with(".part")),
        "drafts are left: {left:?}"
    );
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_told() {
    let folder = Folder::new("slow");
    let start = Instant::now();
    let said = say(
        folder.path(),
        "bench packet n=1g --runtime tokio --workers 1 --repeat 1 --limit 1",
    );
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("no result within 1 s"), "{}", said.err);
    assert!(
        said.out.contains("did not complete"),
        "the table is printed all the same: {}",
        said.out
    );
    assert!(start.elapsed() < Duration::from_secs(30), "the run was not ended");
}

#[test]
fn the_hidden_command_takes_one_request_only() {
    let folder = Folder::new("hidden");
    let text = complaint(folder.path(), "run-one", 2);
    assert!(text.contains("one request as JSON"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new("pipe");
    let mut child = common::command(folder.path())
        .arg("list")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");

    let mut child = common::command(folder.path())
        .args([
            "explore",
            "--smoke",
            "--runtime",
            "rayon",
            "--workers",
            "1",
            "--report",
            "report.html",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(
        folder.path().join("report.html").exists(),
        "the report is written for nobody's eyes as well"
    );
}
