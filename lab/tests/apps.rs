//! The concurrent programs on every contestant that has actors, in tiny sizes. Each run checks its own
//! result.

mod common;

use common::{Folder, complaint, presets, say};
use serde_json::Value;

/// All that have actors, but Go, which may be missing.
const RUNTIMES: &str = "warpweft,tokio,smol,may,threads";

/// Every program, small.
const SMALL: [&str; 10] = [
    "token-ring n=9 rounds=20",
    "producer n=200 pairs=4",
    "news n=12 reporters=3",
    "city n=15 units=4 room=5",
    "eratosthenes n=100",
    "create n=100",
    "create/all n=100",
    "switch n=500 tasks=9",
    "mandelbrot n=20 iterations=50 parts=3",
    "matrix n=15 tasks=4",
];

/// The records of one `bench --json`.
fn records(folder: &Folder, words: &str) -> Vec<Value> {
    let said = say(folder.path(), &format!("bench {words} --repeat 1 --json"));
    assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    said.out
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is a JSON object"))
        .collect()
}

/// Runs it everywhere, and warpweft under policies that differ, as futures and as fibers.
fn each_runs(words: &str, operations: u64) {
    let folder = Folder::new(&format!("apps-{}", words.replace(['/', ' ', '='], "-")));
    let policies = "--policy fifo,lifo,deque,fifo-locked";
    for (words, contestants) in [
        (format!("{words} --runtime {RUNTIMES} {policies}"), 8),
        (format!("{words} style=fibers --runtime warpweft {policies}"), 4),
    ] {
        let records = records(&folder, &format!("{words} --workers 1,3"));
        assert_eq!(records.len(), 2 * contestants, "{words}");
        for record in &records {
            assert_eq!(record["operations"], operations, "{record}");
        }
    }
}

#[test]
fn the_token_goes_round() {
    each_runs("token-ring n=20 rounds=15", 300);
    each_runs("token-ring n=1 rounds=7", 7);
}

#[test]
fn what_is_produced_is_consumed() {
    each_runs("producer n=300", 300);
    // More pairs than units, and room for one unit.
    each_runs("producer n=9 pairs=11", 9);
    each_runs("producer n=250 pairs=8 room=1", 250);
}

#[test]
fn all_customers_read_all_news() {
    each_runs("news n=20 reporters=3 messages=5", 300);
    each_runs("news n=1 reporters=1 messages=9 room=1", 9);
}

#[test]
fn a_city_has_as_much_power_as_it_uses() {
    each_runs("city n=15 units=6", 90);
    each_runs("city n=7 units=1 room=1", 7);
}

#[test]
fn sieves_find_the_primes() {
    each_runs("eratosthenes n=300", 300);
    each_runs("eratosthenes/room1 n=60", 60);
    each_runs("eratosthenes n=1", 1);
}

#[test]
fn tasks_are_created_and_yield() {
    each_runs("create n=200", 200);
    each_runs("create/all n=200", 200);
    // 300 yields of 7 tasks are 42 each.
    each_runs("switch n=300 tasks=7", 294);
    each_runs("switch n=1 tasks=9", 9);
}

#[test]
fn products_and_pictures_are_computed() {
    each_runs("mandelbrot n=30 parts=7 iterations=100", 900);
    // More parts than points, and than rows.
    each_runs("mandelbrot n=2 parts=9 iterations=1", 4);
    each_runs("matrix n=20 tasks=3", 8000);
    each_runs("matrix n=1 tasks=4", 1);
}

#[test]
fn all_contestants_compute_the_same() {
    let folder = Folder::new("apps-same");
    let mut runtimes = RUNTIMES.to_owned();
    for runtime in ["go", "java"] {
        let said = say(
            folder.path(),
            &format!("bench matrix n=1 --runtime {runtime} --repeat 1"),
        );
        if said.err.contains("not installed") {
            println!("{runtime} is left out: {}", said.err);
        } else {
            runtimes = format!("{runtimes},{runtime}");
        }
    }
    for (words, measure) in [
        ("mandelbrot n=41 iterations=300", "iterations"),
        ("matrix n=17", "sum"),
    ] {
        let records = records(&folder, &format!("{words} --workers 2 --runtime {runtimes}"));
        let found = |record: &Value| record["measures"][measure].as_f64().expect("a figure");
        assert!(found(&records[0]) > 1000.0, "{}", records[0]);
        assert!(
            records.iter().all(|record| found(record) == found(&records[0])),
            "{records:?}"
        );
    }
    std::fs::create_dir(folder.path().join("pictures")).expect("a folder of its own");
    let pictures: Vec<_> = (runtimes.split(','))
        .map(|runtime| {
            let words =
                format!("mandelbrot n=41 parts=5 out=pictures/{runtime}.pgm --workers 2 --runtime {runtime}");
            records(&folder, &words);
            let path = folder.path().join(format!("pictures/{runtime}.pgm"));
            std::fs::read(path).expect("the picture was written")
        })
        .collect();
    let head = b"P5\n41 41\n255\n";
    assert!(pictures[0].starts_with(head) && pictures[0].len() == head.len() + 41 * 41);
    // The set is there, and so is what is around it.
    assert!(pictures[0].contains(&0) && pictures[0].contains(&241));
    assert!(pictures.iter().all(|picture| *picture == pictures[0]));
}

#[test]
fn goroutines_play_them_if_there_is_go() {
    elsewhere("go", 2, &SMALL);
}

#[test]
fn virtual_threads_play_them_if_there_is_java() {
    elsewhere("java", 2, &SMALL);
    // Locks, and all that is as small as can be; with one carrier no other runs while one spins.
    let least = [
        "lock/local n=1000",
        "lock/global n=1000",
        "token-ring n=1 rounds=7",
        "producer n=9 pairs=11 room=1",
        "news n=1 reporters=1 messages=9 room=1",
        "city n=7 units=1 room=1",
        "eratosthenes/room1 n=60",
        "eratosthenes n=1",
        "switch n=1 tasks=9",
        "mandelbrot n=2 parts=9 iterations=1",
        "matrix n=1 tasks=4",
    ];
    elsewhere("java", 1, &least);
    let folder = Folder::new("apps-java-refused");
    for words in ["lock/std-local", "pingpong"] {
        let text = complaint(folder.path(), &format!("bench {words} --runtime java"), 2);
        assert!(text.contains("java is left out"), "{text}");
    }
}

/// Runs them in a process that is not Rust; not where that is not installed.
fn elsewhere(runtime: &str, workers: usize, programs: &[&str]) {
    let folder = Folder::new(&format!("apps-{runtime}-{workers}"));
    for words in programs {
        let said = say(
            folder.path(),
            &format!("bench {words} --runtime {runtime} --workers {workers} --repeat 1 --json"),
        );
        if said.err.contains("not installed") {
            assert_eq!(said.code, Some(2));
            println!("left out: {}", said.err);
            return;
        }
        assert_eq!(said.code, Some(0), "{words}: {}", said.err);
    }
}

#[test]
fn tasks_at_once_say_what_they_take() {
    let folder = Folder::new("apps-bytes");
    for record in records(
        &folder,
        "create/all n=50k --runtime warpweft,tokio,smol,may,threads --workers 1",
    ) {
        let bounded = record["runtime"] == "threads" || record["runtime"] == "may";
        assert_eq!(
            record["operations"],
            if bounded { 20_000 } else { 50_000 },
            "{record}"
        );
        let bytes = record["measures"]["bytes_per_task"]
            .as_f64()
            .expect("bytes per task");
        // A task and its handle; of a thread, its stack is most.
        assert!((8.0..100_000.0).contains(&bytes), "{record}");
    }
    let one = records(&folder, "create n=30 --workers 1").remove(0);
    assert!(one["measures"].get("bytes_per_task").is_none(), "{one}");
}

#[test]
fn every_preset_plays_them() {
    let folder = Folder::new("apps-presets");
    let presets = presets(&folder);
    // Each policy plays half of the programs in each style, and each program is played in both.
    for (number, words) in SMALL.iter().enumerate() {
        for (parity, style) in ["futures", "fibers"].into_iter().enumerate() {
            let of_style = presets.iter().skip((number + parity) % 2).step_by(2);
            let policies: Vec<&str> = of_style.map(String::as_str).collect();
            let words = format!(
                "{words} style={style} --policy {} --workers 2",
                policies.join(",")
            );
            assert_eq!(records(&folder, &words).len(), policies.len());
        }
    }
}

#[test]
fn they_can_be_explored() {
    let folder = Folder::new("apps-explore");
    for words in SMALL {
        let name = words.split_whitespace().next().unwrap_or_default();
        let said = say(
            folder.path(),
            &format!("explore {name} --smoke --runtime warpweft,tokio,threads --policy fifo --workers 1"),
        );
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        assert!(said.out.contains("a thread per task"), "{name}: {}", said.out);
    }
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let folder = Folder::new("apps-refused");
    for (words, reason) in [
        ("token-ring n=0", "players"),
        ("token-ring n=1m", "from 1 to 20000"),
        ("token-ring rounds=0", "how often the token goes round"),
        ("producer pairs=0", "as many consumers"),
        ("producer room=0", "has room for"),
        ("producer n=0", "units through the buffer"),
        ("news reporters=0", "reporters"),
        ("news n=20001", "customers"),
        ("news messages=99g", "messages of each reporter"),
        ("city n=0", "houses"),
        ("city units=2m", "from 1 to 1000000"),
        ("city room=0", "can store"),
        ("eratosthenes n=0", "the last number"),
        ("eratosthenes n=1g", "from 1 to 100000"),
        ("eratosthenes room=0", "between two sieves"),
        ("create n=0", "from 1 to 100000000"),
        ("create outstanding=some", "one, all"),
        ("switch tasks=0", "tasks that yield"),
        ("switch tasks=1m", "from 1 to 20000"),
        ("mandelbrot n=0", "points on a side"),
        ("mandelbrot parts=0", "shared out"),
        ("mandelbrot iterations=100k", "from 1 to 65535"),
        ("matrix n=5000", "rows and columns"),
        ("matrix tasks=0", "shared out"),
        ("news --runtime rayon", "without holding a worker"),
        ("news --runtime tokio+rayon", "two pools"),
        ("token-ring --runtime chili", "no tasks that wait for each other"),
        ("token-ring style=threads", "futures, fibers"),
    ] {
        let text = complaint(folder.path(), &format!("bench {words}"), 2);
        assert!(text.contains(reason), "{words}: {text}");
    }
    folder.file("file", b"");
    for (path, reason) in [("file/picture.pgm", "file"), (".", "folder")] {
        let text = complaint(folder.path(), &format!("bench mandelbrot out={path}"), 1);
        assert!(text.contains("cannot write") && text.contains(reason), "{text}");
    }
}
