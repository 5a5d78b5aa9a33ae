package main

// Chains of three goroutines per packet; a few packets have two more that take long.

import (
	"bytes"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// holdThread sleeps in a system call, which holds the thread.
func holdThread(duration time.Duration) {
	// A signal ends the call early.
	for end := time.Now().Add(duration); time.Now().Before(end); {
		left := syscall.NsecToTimeval(int64(max(time.Until(end), time.Microsecond)))
		syscall.Select(0, nil, nil, nil, &left)
	}
}

func spinFor(duration time.Duration) {
	for begin := time.Now(); time.Since(begin) < duration; {
	}
}

// threadHad is how long the calling thread of the system has had a CPU, and which thread that is.
func threadHad() (int, time.Duration) {
	const threadCPUTime = 3
	var had syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPUTime, uintptr(unsafe.Pointer(&had)), 0)
	return syscall.Gettid(), time.Duration(had.Nano())
}

// burn spins until it has had a CPU for so long, and returns for how long it has had one. A goroutine has no clock of its own: it
// counts in rounds, none of which counts for more than it should have taken, or if the goroutine has another thread after it.
func burn(take time.Duration) (spent time.Duration) {
	const round = 100 * time.Microsecond
	for spent < take {
		length := min(take-spent, round)
		thread, before := threadHad()
		spinFor(length)
		if now, after := threadHad(); now == thread {
			spent += min(after-before, length)
		}
	}
	return spent
}

// chosenOfThousand says which of n are heavy, in no order: the nearest whole number, and one at least unless none is asked for.
func chosenOfThousand(n, ofThousand uint64) []bool {
	return chosen(max((n*ofThousand+500)/1000, min(ofThousand, 1)), n)
}

func packetBimodal(r *request, n uint64) *answer {
	spawners, share, window := perSpawner(r, n)
	take, null := time.Duration(r.number("take"))*time.Millisecond, r.word("handlers") == "none"
	timed := func(wait func(time.Duration)) func(time.Duration) time.Duration {
		return func(take time.Duration) time.Duration {
			begin := time.Now()
			wait(take)
			return time.Since(begin)
		}
	}
	long := map[string]func(time.Duration) time.Duration{
		"compute": burn, "network": timed(time.Sleep), "blocking": timed(holdThread),
	}[r.word("form")]
	if long == nil {
		fail("there is no form %q here", r.word("form"))
	}
	heavy := chosenOfThousand(share*spawners, r.number("heavy"))
	if n < r.number("n") {
		// Beforehand the first packet is heavy, no other.
		clear(heavy)
		heavy[0] = r.number("heavy") > 0
	}
	expected, heavies := uint64(0), uint64(0)
	if !null {
		expected, heavies = expectedOfChains(spawners, share, 3), count(heavy)
	}
	var ended, short counter
	lanes := make([]*lane, spawners)
	for s := range lanes {
		l := newLane(share, window)
		l.heavy = heavy[uint64(s)*share : uint64(s+1)*share]
		lanes[s] = l
		end := func(i, started, state uint64) {
			if !l.heavy[i] {
				l.finish(i, started, state)
				return
			}
			left := new(atomic.Int32)
			left.Store(2)
			for range 2 {
				go func() {
					if long(take) < take {
						short.add(i, 1)
					}
					ended.add(i, 1)
					if left.Add(-1) == 0 {
						l.finish(i, started, state)
					}
				}()
			}
		}
		go func() {
			l.start = now()
			for i := uint64(0); i < share; i++ {
				l.admit(i)
				packet, state := firstOfChain(uint64(s), i)
				copied := bytes.Clone(packet)
				started := now()
				if null {
					sink = copied
					l.finish(i, started, 0)
					continue
				}
				go link(end, copied, i, started, state, 3)
			}
		}()
	}
	result, tally := land(lanes, share, !null)
	if tally != expected {
		fail("sum over all chains: %d counted, %d expected", tally, expected)
	}
	if ended.sum() != 2*heavies || short.sum() > 0 {
		fail("tasks that take long: %d counted, %d expected, %d too short", ended.sum(), 2*heavies, short.sum())
	}
	result.Measures["heavy_packets"] = float64(heavies)
	return result
}

func count(which []bool) (some uint64) {
	for _, is := range which {
		if is {
			some++
		}
	}
	return some
}
