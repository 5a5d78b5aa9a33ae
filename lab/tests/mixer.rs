//! Conference calls: on every runtime that can hold them, from files and into a file, and what is said to
//! files that are none.

mod common;

use std::path::Path;

use common::{Folder, complaint, presets, records};
use serde_json::Value;

/// Frames that were too late, in percent, and the longest wait in nanoseconds.
fn lateness(record: &Value) -> (f64, u64) {
    let breaches = record["measures"]["breaches_percent"].as_f64();
    (
        breaches.expect("breaches are counted"),
        record["latency"]["max"].as_u64().expect("frames are timed"),
    )
}

#[test]
fn conferences_are_mixed_everywhere() {
    let folder = Folder::new("mixer-everywhere");
    for words in [
        "mixer n=5 conferences=3 pace=2",
        "mixer/flat-out n=20 conferences=5 participants=3",
        "mixer/fibers n=5 conferences=3 pace=2",
        "mixer n=2 conferences=1 participants=1 pace=1",
    ] {
        let all = |runtimes, workers| {
            let words = format!("{words} --runtime {runtimes} --workers {workers} --repeat 1");
            records(&folder, &words)
        };
        // may's workers keep to their own tasks, and with two of them it does not always come to an end.
        let records = [all("warpweft,tokio,smol,threads", "1,2"), all("may", "1")].concat();
        assert_eq!(records.len(), 9, "{words}");
        for record in records {
            let number = |name: &str| record["parameters"][name].as_u64().unwrap();
            let frames = number("n") * number("conferences") * number("participants");
            assert_eq!(record["operations"], frames, "{record}");
            assert_eq!(record["latency"]["count"], frames, "{record}");
        }
    }
}

#[test]
fn every_policy_mixes() {
    let folder = Folder::new("mixer-policies");
    let names = presets(&folder).join(",");
    records(
        &folder,
        &format!("mixer n=3 conferences=20 pace=5 --workers 1,2 --repeat 1 --policy {names}"),
    );
}

#[test]
fn stages_and_silos_mix() {
    let folder = Folder::new("mixer-pools");
    let policies = "staged,staged:lifo/fifo/lifo,staged:fifo@2/lifo@1,silos:3:fifo,silos:3:lifo,silos:1:fifo";
    let records = records(
        &folder,
        &format!("mixer n=4 conferences=7 pace=2 --workers 3 --repeat 1 --policy {policies}"),
    );
    assert_eq!(records.len(), 6);
    for record in records {
        assert_eq!(record["operations"], 4 * 7 * 4, "{record}");
        let workers = record["counters"]["workers"]
            .as_array()
            .expect("workers are counted");
        assert_eq!(workers.len(), 3, "{record}");
        let worked = |worker: &Value| worker["ran"].as_u64() > Some(0);
        // Where a pool has several workers, one of them may have done it all.
        let alone = !["staged", "staged:fifo@2/lifo@1", "silos:1:fifo"]
            .contains(&record["policy"].as_str().unwrap_or_default());
        assert!(
            !alone || workers.iter().all(worked),
            "each pool has its share: {record}"
        );
    }
}

#[test]
fn a_breach_is_a_frame_that_waited_longer_than_the_deadline() {
    let folder = Folder::new("mixer-breaches");
    let late = |deadline: u64| {
        let words = format!("mixer n=10 conferences=150 pace=1 deadline={deadline} --repeat 1 --workers 1");
        let record = records(&folder, &words).remove(0);
        let (breaches, longest) = lateness(&record);
        let deadline = deadline * 1_000_000;
        // The longest wait is known to a percent.
        if longest.abs_diff(deadline) > deadline / 50 {
            assert_eq!(breaches > 0.0, longest > deadline, "{record}");
        }
        breaches
    };
    // 151 tasks that yield have a turn in microseconds, and no machine pauses for ten seconds.
    assert!(late(10_000) < 100.0);
    late(1);
}

/// Writes a file of 16-bit samples.
fn write(path: &Path, channels: u16, rate: u32, samples: &[i16]) {
    let spec = hound::WavSpec {
        channels,
        sample_rate: rate,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut writer = hound::WavWriter::create(path, spec).expect("the temporary folder takes files");
    for sample in samples {
        writer.write_sample(*sample).expect("a sample is written");
    }
    writer.finalize().expect("the file is complete");
}

/// A file of bytes by one of the laws: format 6 is the A-law, 7 the µ-law.
fn coded(format: u8, bytes: &[u8]) -> Vec<u8> {
    let mut file = b"RIFF\0\0\0\0WAVEfmt \x12\0\0\0".to_vec();
    file.extend([format, 0, 1, 0]);
    file.extend([8000_u32, 8000].map(u32::to_le_bytes).concat());
    file.extend([1, 0, 8, 0, 0, 0]);
    file.extend(b"data");
    file.extend((bytes.len() as u32).to_le_bytes());
    file.extend(bytes);
    file
}

#[test]
fn files_are_mixed_into_a_file() {
    let folder = Folder::new("mixer-files");
    // 500 samples of 8031 * 4 by the µ-law, 400 of 8 by the A-law, 161 numbers that the A-law keeps.
    folder.file("loud.wav", &coded(7, &[0x80; 500]));
    folder.file("soft.wav", &coded(6, &[0xd5; 400]));
    let numbers: Vec<i16> = (0..161).map(|at| if at % 2 == 0 { 4032 } else { -528 }).collect();
    // The third place has the A-law.
    write(&folder.path().join("numbers.wav"), 1, 8000, &numbers);
    for runtime in ["warpweft", "tokio", "threads"] {
        let words = format!(
            "mixer --wav loud.wav --wav soft.wav --wav numbers.wav --mix mix.wav conferences=2 pace=1 --repeat 1 \
             --workers 2 --runtime {runtime}"
        );
        let record = records(&folder, &words).remove(0);
        // Four frames, of which the last is not full.
        assert_eq!(record["parameters"]["n"], 4, "{record}");
        assert_eq!(record["operations"], 4 * 3 * 2, "{record}");
        let path = folder.path().join("mix.wav");
        let mut mix = hound::WavReader::open(&path).expect("the mix is a WAV file");
        assert_eq!((mix.spec().channels, mix.spec().sample_rate), (1, 8000));
        let mix: Vec<i16> = mix.samples().map(|sample| sample.expect("a sample")).collect();
        assert_eq!(mix.len(), 4 * 160);
        for (at, sample) in mix.into_iter().enumerate() {
            let loud = if at < 500 { 32_124 } else { 0 };
            // A frame that is begun is filled up with the silence of the A-law, which is 8.
            let soft = if at < 480 { 8 } else { 0 };
            let number = match numbers.get(at) {
                Some(number) => *number,
                None if at < 320 => 8,
                None => 0,
            };
            let sum = loud + soft + i32::from(number);
            assert_eq!(i32::from(sample), sum.min(32_767), "sample {at}");
        }
        std::fs::remove_file(path).expect("the mix is there");
    }
}

#[test]
fn the_beginning_of_a_file_can_be_had() {
    let folder = Folder::new("mixer-beginning");
    folder.file("long.wav", &coded(7, &[0x80; 8000]));
    let record = records(
        &folder,
        "mixer n=3 pace=1 conferences=1 --wav long.wav --repeat 1",
    )
    .remove(0);
    assert_eq!(record["operations"], 3, "{record}");
}

#[test]
fn files_that_cannot_be_mixed_say_what_would_be_right() {
    let folder = Folder::new("mixer-refused");
    let at = |name: &str| folder.path().join(name);
    write(&at("stereo.wav"), 2, 8000, &[0; 40]);
    write(&at("fast.wav"), 1, 44_100, &[0; 40]);
    write(&at("empty.wav"), 1, 8000, &[]);
    write(&at("good.wav"), 1, 8000, &[7; 400]);
    folder.file("mp3.wav", &coded(0x55, &[0; 40]));
    folder.file("text.wav", b"This is no sound at all.");
    let mut cut = coded(6, &[0; 40]);
    cut.truncate(60);
    folder.file("cut.wav", &cut);
    for (file, reason) in [
        ("stereo.wav", "2 channels; a telephone has one"),
        ("fast.wav", "44100 samples per second; a telephone has 8000"),
        ("empty.wav", "holds no samples"),
        ("mp3.wav", "read are 16-bit PCM (1), A-law (6) and µ-law (7)"),
        ("text.wav", "no WAV file"),
        ("cut.wav", "cut off"),
        ("none.wav", "No such file"),
    ] {
        let text = complaint(
            folder.path(),
            &format!("bench mixer --wav good.wav --wav {file}"),
            1,
        );
        assert!(text.contains(file) && text.contains(reason), "{text}");
    }
    for (words, reason) in [
        (
            "mixer --wav good.wav --mix good.wav",
            "one of the files that are mixed",
        ),
        (
            "mixer --wav good.wav participants=4",
            "each file is a participant",
        ),
        (
            "mixer --wav good.wav --runtime go",
            "neither reads nor writes WAV files",
        ),
        ("packet --wav good.wav", "for the workload mixer"),
        ("packet --mix mix.wav", "for the workload mixer"),
        ("mixer n=10k", "take 200 s"),
        ("mixer --runtime rayon", "cannot yield"),
        ("mixer --runtime chili", "it can only join"),
        ("mixer conferences=0", "from 1 to"),
        ("mixer participants=65", "from 1 to 64"),
        ("mixer pace=-1", "milliseconds"),
        ("mixer deadline=0", "too old"),
        ("mixer style=threads", "futures, fibers"),
    ] {
        let text = complaint(folder.path(), &format!("bench {words}"), 2);
        assert!(text.contains(reason), "{words}: {text}");
    }
    let text = complaint(folder.path(), "bench mixer --wav good.wav --mix .", 1);
    assert!(text.contains("it is a folder"), "{text}");
}
