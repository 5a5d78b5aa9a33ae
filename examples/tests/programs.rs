//! Each example runs as a user runs it, and prints what it is said to print.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A program that takes longer hangs. The machine may be busy.
const LIMIT: Duration = Duration::from_secs(300);

macro_rules! program {
    ($name:literal $($argument:expr)*) => {
        Program::start(env!(concat!("CARGO_BIN_EXE_", $name)), &[$($argument),*])
    };
}

/// A program under way.
struct Program {
    id: u32,
    ends: EndsWithTest,
    lines: Lines<BufReader<ChildStdout>>,
    end: JoinHandle<ExitStatus>,
}

impl Program {
    fn start(path: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = child.stdout.take().expect("the output is piped");
        Self {
            id: child.id(),
            ends: EndsWithTest(child.id()),
            lines: BufReader::new(output).lines(),
            end: thread::spawn(move || wait(child)),
        }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("one more line").expect("text")
    }

    /// The address of a server, from its first line.
    fn address(&mut self) -> String {
        let line = self.line();
        let address = line
            .strip_prefix("listening at ")
            .and_then(|rest| rest.split(';').next());
        address.expect("an address").to_owned()
    }

    /// As the keys Ctrl-C do.
    fn interrupt(&self) {
        let sent = Command::new("kill").args(["-INT", &self.id.to_string()]).status();
        assert!(sent.expect("`kill` starts").success());
    }

    /// The rest of its output, when it has ended well.
    fn rest(self) -> Vec<String> {
        let rest = self.lines.map(|line| line.expect("text")).collect();
        let status = self.end.join().expect("the child is waited for");
        drop(self.ends);
        assert!(status.success(), "{status}, after {rest:?}");
        rest
    }
}

/// Kills a server if its test fails: it would keep the streams open for which the caller of the tests waits.
struct EndsWithTest(u32);

impl Drop for EndsWithTest {
    fn drop(&mut self) {
        if thread::panicking() {
            // The test has failed anyway.
            let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).status();
        }
    }
}

fn wait(mut child: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is a child") {
            return status;
        }
        if start.elapsed() > LIMIT {
            child.kill().expect("it is a child");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The number in front of a word.
fn number_before(line: &str, word: &str) -> usize {
    let words: Vec<_> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let place = words.iter().position(|&there| there == word).expect(word);
    words[place - 1].parse().expect("a number")
}

#[test]
fn hello() {
    assert_eq!(
        program!("hello").rest(),
        ["hello from a task, fibonacci(20) = 6765"]
    );
}

#[test]
fn echo() {
    let mut server = program!("echo_server" "127.0.0.1:0");
    let client = program!("echo_client" &server.address() "4" "25").rest();
    assert!(client[0].starts_with("100 round trips in "), "{client:?}");
    server.interrupt();
    assert!(!server.rest().is_empty());
}

#[test]
fn http() {
    let mut server = program!("http_server" "127.0.0.1:0");
    let address = server.address();
    let client = program!("http_client" &format!("{address}/") "/sum/100000" "/sum/x").rest();
    let answers = [
        "/: 200 OK, Hello, World!",
        "/sum/100000: 200 OK, 5000050000",
        "/sum/x: 404 Not Found, there are / and /sum/N",
    ];
    assert_eq!(client, answers);
    server.interrupt();
    assert_eq!(server.rest(), ["all requests are answered"]);
}

#[test]
fn prometheus() {
    let mut server = program!("prometheus" "127.0.0.1:0");
    let address = server.address();
    let client = program!("http_client" & format!("{address}/sum/100")).rest();
    assert_eq!(client, ["/sum/100: 200 OK, 5050"]);
    // The metrics are published four times a second, and a step is measured when the next one begins.
    let start = Instant::now();
    let shown = loop {
        let shown = program!("http_client" & format!("{address}/metrics")).rest();
        assert!(shown[0].starts_with("/metrics: 200 OK"), "{shown:?}");
        // The name is there from the first publication on, perhaps without a value.
        let has_values =
            |line: &String| line.starts_with("warpweft_run_time_seconds_count") && !line.ends_with(" 0");
        if shown.iter().any(has_values) {
            break shown;
        }
        assert!(start.elapsed() < LIMIT, "no histogram: {shown:?}");
        thread::sleep(Duration::from_millis(50));
    };
    let value = |name: &str| -> f64 {
        let line = shown.iter().find_map(|line| line.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("{name} is missing: {shown:?}"));
        value.trim().parse().expect("a number")
    };
    assert!(shown.contains(&"# TYPE warpweft_ran_total counter".to_owned()));
    assert!(value("warpweft_ran_total{pool=\"web\"}") >= 1.0);
    assert!(value("warpweft_waiting{pool=\"web\",on=\"socket\"}") >= 1.0);
    assert!(value("warpweft_run_time_seconds{pool=\"web\",class=\"none\",quantile=\"0.99\"}") > 0.0);
    server.interrupt();
    assert_eq!(server.rest(), ["all requests are answered"]);
}

#[test]
fn crawler() {
    let [line] = &program!("crawler" "5").rest()[..] else {
        panic!("one line")
    };
    assert_eq!(number_before(line, "pages"), 63);
    assert!((1..=5).contains(&number_before(line, "requests")), "{line}");
}

#[test]
fn image() {
    let path = std::env::temp_dir().join(format!("warpweft-image-{}.pgm", std::process::id()));
    let said = program!("image" "48" path.to_str().expect("text")).rest();
    assert_eq!(said, ["72 x 48 pixels, 22 % in the set"]);
    let file = std::fs::read(&path).expect("the picture");
    std::fs::remove_file(&path).expect("the picture");
    assert!(file.starts_with(b"P5 72 48 255\n"));
    assert_eq!(file.len(), b"P5 72 48 255\n".len() + 72 * 48);
}

#[test]
fn stages() {
    let [line] = &program!("stages").rest()[..] else {
        panic!("one line")
    };
    assert_eq!(number_before(line, "words"), 600);
    // As many as the stages have places: 8 and 2.
    let most = line.split_once("at most").expect("the most").1;
    assert!((1..=10).contains(&number_before(most, "lines")), "{line}");
}

/// The foreground is served from everywhere.
#[test]
fn classes() {
    let lines: Vec<_> = program!("classes" "20").rest();
    assert_eq!(lines.len(), 8, "{lines:?}");
    let starts = ["alone", "beside the background"].into_iter().flat_map(|beside| {
        ["Outside", "Inside", "Timer", "Socket"].map(|from| format!("{from}, {beside}: p50 "))
    });
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(&start), "{line}");
    }
}

/// The background is not starved, and gets no more than its share and a bit. The share is one of the time,
/// and the example counts turns. Where others take the CPU for as long as many turns, a second has too few
/// of those for the two to agree: then once more.
#[test]
fn shares() {
    let share = || -> f64 {
        let [line] = &program!("shares").rest()[..] else {
            panic!("one line")
        };
        let share = line.strip_prefix("the background got ").expect("the share");
        let share = share.split(' ').next().expect("a number");
        share.parse().expect("percent")
    };
    let is_kept = (0..5).any(|_| {
        let share = share();
        println!("{share} %");
        (5.0..25.0).contains(&share)
    });
    assert!(is_kept, "it is never about a tenth");
}

/// The machine may be busy, and more so for one of the policies: then once more.
#[test]
fn deadlines() {
    let missed = |line: &str, policy: &str| -> u32 {
        let rest = line.strip_prefix(policy).and_then(|rest| rest.strip_prefix(": "));
        let number = rest.and_then(|rest| rest.split(' ').next()).expect("a number");
        number.parse().expect("a number")
    };
    let is_better = (0..5).any(|_| {
        let lines: Vec<_> = program!("deadlines").rest();
        println!("{lines:?}");
        missed(&lines[2], "edf") < missed(&lines[1], "fifo")
    });
    assert!(is_better, "edf never misses fewer");
}

#[test]
fn priorities() {
    let order = ["urgent", "normal", "background"].map(|name| [name; 3].join(", "));
    assert_eq!(program!("priorities").rest(), [order.join(", ")]);
}

#[test]
fn cancellation() {
    let lines = [
        "a future that waits: cancelled",
        "a closure that computes: cancelled",
        "a scope of tasks: late true, 3 of 3 dropped",
    ];
    assert_eq!(program!("cancellation").rest(), lines);
}

#[test]
fn cancel_tokens() {
    let lines = [
        "a fiber that waits: cancelled",
        "a loop without an end: cancelled",
        "a future that was asked says goodbye",
        "a loop with a deadline: Err(Cancelled(deadline))",
    ];
    assert_eq!(program!("cancel_tokens").rest(), lines);
}

#[test]
fn graceful_end() {
    let mut program = program!("graceful_end");
    assert_eq!(program.line(), "taking orders; Ctrl-C ends");
    program.interrupt();
    let [line] = &program.rest()[..] else {
        panic!("one line")
    };
    let numbers: Vec<_> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|text| !text.is_empty())
        .collect();
    assert!(
        numbers.len() == 2 && numbers[0] == numbers[1] && numbers[0] != "0" && line.ends_with("Drained"),
        "{line}"
    );
}

#[test]
fn effects() {
    let fifo = ["a begins", "main has forked", "b", "a ends", "main ends"];
    assert_eq!(program!("effects" "fifo").rest(), fifo);
    let lifo = ["a begins", "b", "main has forked", "a ends", "main ends"];
    assert_eq!(program!("effects" "lifo").rest(), lifo);
}

#[test]
fn processes() {
    let lines = [
        "at once",
        "the second time",
        "gave up after 1 attempt, because the error does not go away: the time limit was over before there was a \
         result",
    ];
    assert_eq!(program!("processes").rest(), lines);
}

#[test]
fn fibers() {
    // Each number is passed ten times: 0 + … + 49, and ten for each pair.
    assert_eq!(program!("fibers" "50").rest(), ["50 pairs, sum 1725"]);
}

#[test]
fn from_rayon() {
    let lines = program!("from_rayon" "3000").rest();
    assert_eq!(lines[0], "3000 numbers, sorted: true");
    let sums: Vec<_> = lines[1]
        .split(", ")
        .filter_map(|part| part.split(' ').nth(1))
        .collect();
    assert!(sums.len() == 2 && sums[0] == sums[1], "{lines:?}");
}

#[test]
fn from_tokio() {
    assert_eq!(
        program!("from_tokio").rest(),
        ["tokio: 5 bytes, Warpweft: 5 bytes"]
    );
}
