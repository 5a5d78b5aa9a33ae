//! Trees of `/sys/devices`, in `warpweft-platform/tests/machines/`: one line for each file. `kvm_guest` was
//! recorded; the others follow the layout of such machines.

use std::collections::HashMap;
use warpweft_platform::topology::{CoreLocation, Topology};

type Files = HashMap<String, String>;

fn machine(text: &str) -> Files {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let files = lines.map(|line| line.split_once(": ").expect("a file and its text"));
    files
        .map(|(name, text)| (name.to_owned(), format!("{text}\n")))
        .collect()
}

fn read(files: &Files, allowed: &[usize]) -> Topology {
    Topology::read(allowed, &|name| files.get(name).cloned())
}

fn all(files: &Files) -> Topology {
    read(files, &(0..64).collect::<Vec<_>>())
}

/// The CPUs of each core.
fn cores(topology: &Topology) -> Vec<Vec<usize>> {
    let cores = topology.cores();
    cores
        .iter()
        .map(|cpus| cpus.iter().map(|cpu| cpu.number).collect())
        .collect()
}

fn place(topology: &Topology, number: usize) -> CoreLocation {
    topology.cpu(number).expect("it is there").place
}

#[test]
fn one_cpu() {
    let topology = all(&machine(include_str!("machines/one_cpu.txt")));
    assert_eq!(cores(&topology), [[0]]);
    assert_eq!(place(&topology, 0), CoreLocation::new(0, 0, 0));
}

#[test]
fn a_guest_of_two_cpus() {
    let topology = all(&machine(include_str!("machines/kvm_guest.txt")));
    assert_eq!(cores(&topology), [[0], [1]]);
    assert_eq!(place(&topology, 1), CoreLocation::new(1, 0, 0));
}

#[test]
fn a_desktop_with_two_threads_per_core() {
    let topology = all(&machine(include_str!("machines/smt_desktop.txt")));
    assert_eq!(cores(&topology)[..3], [[0, 8], [1, 9], [2, 10]]);
    assert_eq!(cores(&topology).len(), 8);
    assert_eq!(place(&topology, 11), place(&topology, 3));
    assert_eq!(place(&topology, 12), CoreLocation::new(4, 1, 0));
}

#[test]
fn two_sockets_with_cpus_offline() {
    let topology = all(&machine(include_str!("machines/two_sockets.txt")));
    assert_eq!(
        cores(&topology),
        [[0, 8], [1, 9], [2, 10], [4, 12], [5, 13], [6, 14], [7, 15]]
    );
    assert!(topology.cpu(3).is_none() && topology.cpu(11).is_none());
    assert_eq!(place(&topology, 2), CoreLocation::new(2, 0, 0));
    assert_eq!(place(&topology, 4), CoreLocation::new(3, 1, 1));
}

#[test]
fn fast_cores_come_first() {
    let topology = all(&machine(include_str!("machines/hybrid.txt")));
    assert_eq!(
        cores(&topology),
        [vec![0, 1], vec![2, 3], vec![4], vec![5], vec![6], vec![7]]
    );
    assert!(topology.cpu(0).expect("there").capacity > topology.cpu(4).expect("there").capacity);
    assert!(topology.cpus().iter().all(|cpu| cpu.place.cache == 0));

    let topology = all(&machine(include_str!("machines/big_little.txt")));
    assert_eq!(cores(&topology), [[4], [5], [0], [1], [2], [3]]);
    assert_ne!(place(&topology, 4).cache, place(&topology, 0).cache);
}

#[test]
fn second_level_caches_of_one_core_or_of_a_few() {
    let l2_of = |topology: &Topology| -> Vec<_> { topology.cpus().iter().map(|cpu| cpu.place.l2).collect() };
    // Both hardware threads of a core share it, and no other CPU does.
    let topology = all(&machine(include_str!("machines/smt_desktop.txt")));
    assert_eq!(l2_of(&topology), [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
    // The efficient cores have one together.
    let hybrid = machine(include_str!("machines/hybrid.txt"));
    assert_eq!(l2_of(&all(&hybrid)), [0, 0, 1, 1, 2, 2, 2, 2]);
    assert_eq!(place(&all(&hybrid), 5), CoreLocation::new(3, 0, 0).with_l2(2));
    // It is the last one at the same time.
    let topology = all(&machine(include_str!("machines/big_little.txt")));
    assert_eq!(l2_of(&topology), [0, 0, 0, 0, 1, 1]);
    assert!(topology.cpus().iter().all(|cpu| cpu.place.l2 == cpu.place.cache));
    // Where the second level is missing, or nonsense, it is the core's.
    for text in [None, Some("7-3"), Some("0")] {
        let mut files = hybrid.clone();
        files.retain(|name, _| !name.ends_with("index2/shared_cpu_list"));
        if let Some(text) = text {
            let name = |cpu| format!("system/cpu/cpu{cpu}/cache/index2/shared_cpu_list");
            files.extend((1..8).map(|cpu| (name(cpu), text.to_owned())));
        }
        assert_eq!(l2_of(&all(&files)), [0, 0, 1, 1, 2, 3, 4, 5], "{text:?}");
        assert!(all(&files).cpus().iter().all(|cpu| cpu.place.cache == 0));
    }
}

#[test]
fn a_container_sees_the_whole_machine_and_may_use_a_part() {
    let files = machine(include_str!("machines/two_sockets.txt"));
    // Both hardware threads of one core, one of another, and one of the other socket; CPU 3 is allowed, and
    // offline.
    let topology = read(&files, &[13, 1, 9, 2, 3]);
    assert_eq!(cores(&topology), [vec![1, 9], vec![2], vec![13]]);
    assert_eq!(place(&topology, 13), CoreLocation::new(2, 1, 1));
    // Numbers are dense, whatever the CPUs are called.
    assert_eq!(place(&read(&files, &[15]), 15), CoreLocation::new(0, 0, 0));
}

#[test]
fn what_cannot_be_read_is_flat() {
    let whole = machine(include_str!("machines/smt_desktop.txt"));
    assert_eq!(cores(&Topology::flat(&[5, 2])), [[2], [5]]);
    assert_eq!(Topology::flat(&[]).cpus().len(), 1);
    // Without reports of cores each CPU is one; caches are still known.
    let mut files = whole.clone();
    files.retain(|name, _| !name.contains("thread_siblings"));
    let topology = all(&files);
    assert_eq!(topology.cores().len(), 16);
    assert_eq!(place(&topology, 4).cache, 1);
    // Without reports of caches those of a socket share one.
    files.retain(|name, _| !name.contains("cache"));
    assert_eq!(place(&all(&files), 4), CoreLocation::new(4, 0, 0));
    files.retain(|name, _| !name.contains("node") && !name.contains("topology"));
    assert_eq!(all(&files), Topology::flat(&(0..16).collect::<Vec<_>>()));
}

#[test]
fn nonsense_is_flat() {
    let whole = machine(include_str!("machines/smt_desktop.txt"));
    let allowed: Vec<_> = (0..16).collect();
    for text in ["", "\0", "0-", "7-3", "all of them", "0-99999999999", "-1"] {
        // One file after the other, then all of them.
        for spoilt in whole.keys() {
            let mut files = whole.clone();
            files.insert(spoilt.clone(), text.to_owned());
            let topology = read(&files, &allowed);
            assert_eq!(topology.cpus().len(), 16, "{spoilt}: {text:?}");
            assert!((8..=9).contains(&topology.cores().len()), "{spoilt}: {text:?}");
        }
        let files = whole.keys().map(|name| (name.clone(), text.to_owned())).collect();
        assert_eq!(read(&files, &allowed), Topology::flat(&allowed), "{text:?}");
    }
    // A list that does not contain its own CPU is ignored.
    let mut files = whole;
    for cpu in [0, 8] {
        let name = format!("system/cpu/cpu{cpu}/topology/thread_siblings_list");
        files.insert(name, String::from("3-4"));
    }
    let topology = read(&files, &allowed);
    assert_eq!((cores(&topology)[0].len(), topology.cores().len()), (1, 9));
}

#[test]
fn this_machine() {
    let topology = Topology::here();
    let cores: usize = topology.cores().iter().map(Vec::len).sum();
    assert_eq!(cores, topology.cpus().len());
    assert!(cores >= 1);
}
