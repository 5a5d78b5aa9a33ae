package main

// The workloads whose goroutines wait for each other, or for the clock.

import (
	"math/bits"
	"runtime"
	"strconv"
	"sync"
	"time"
)

func perOperation(operations, elapsed uint64, name string) *answer {
	each := float64(elapsed) / float64(operations)
	return &answer{Operations: operations, Nanos: elapsed, Measures: map[string]float64{name: each}}
}

// echo answers each number with the next one.
func echo(asked, answers chan uint64, done *sync.WaitGroup) {
	for number := range asked {
		answers <- number + 1
	}
	done.Done()
}

func pingpong(r *request, n uint64) *answer {
	capacity, fan := r.number("capacity"), uint64(1)
	sum, elapsed := uint64(0), uint64(0)
	switch r.word("form") {
	case "oneshot":
		type question struct {
			number uint64
			answer chan uint64
		}
		asked, done := make(chan question, capacity), make(chan struct{})
		go func() {
			for q := range asked {
				q.answer <- q.number + 1
			}
			close(done)
		}()
		start := now()
		for i := uint64(0); i < n; i++ {
			promise := make(chan uint64, 1)
			asked <- question{i, promise}
			sum += <-promise
		}
		elapsed = now() - start
		close(asked)
		<-done
	default:
		if r.word("form") == "fan" {
			fan = r.number("fan")
		}
		answers := make(chan uint64, capacity)
		pings := make([]chan uint64, fan)
		var done sync.WaitGroup
		for i := range pings {
			pings[i] = make(chan uint64, capacity)
			done.Add(1)
			go echo(pings[i], answers, &done)
		}
		start := now()
		for i := uint64(0); i < n; i++ {
			for _, ping := range pings {
				ping <- i
			}
			for range pings {
				sum += <-answers
			}
		}
		elapsed = now() - start
		for _, ping := range pings {
			close(ping)
		}
		done.Wait()
	}
	if expected := fan * (n * (n + 1) / 2); sum != expected {
		fail("sum of the answers: %d counted, %d expected", sum, expected)
	}
	return perOperation(n*fan, elapsed, "ns_per_round_trip")
}

func lock(r *request, n uint64) *answer {
	type apart struct {
		mutex sync.Mutex
		count uint64
		_     [112]byte
	}
	tasks := r.number("tasks")
	each, count := max(n/tasks, 1), tasks
	if r.word("locks") == "global" {
		count = 1
	}
	locks := make([]apart, count)
	var done sync.WaitGroup
	start := now()
	for t := uint64(0); t < tasks; t++ {
		own := &locks[t%count]
		done.Add(1)
		go func() {
			for i := uint64(0); i < each; i++ {
				own.mutex.Lock()
				own.count++
				own.mutex.Unlock()
			}
			done.Done()
		}()
	}
	done.Wait()
	elapsed := now() - start
	for l := range locks {
		if expected := each * (tasks / count); locks[l].count != expected {
			fail("operations under a lock: %d counted, %d expected", locks[l].count, expected)
		}
	}
	return perOperation(each*tasks, elapsed, "ns_per_operation")
}

func timers(r *request, n uint64) *answer {
	spread := r.number("spread") * uint64(time.Millisecond)
	lead := r.number("lead") * uint64(time.Millisecond)
	shortest := min(uint64(time.Millisecond), spread)
	deadlines, woken := make([]uint64, n), make([]uint64, n)
	var asleep, ended counter
	// What is noted lies in pages that are there before memory is looked at.
	for i := range deadlines {
		deadlines[i], woken[i] = 1, 1
	}
	runtime.GC()
	before, start, state := resident(), now(), uint64(0)
	for i := uint64(0); i < n; i++ {
		state = scramble(state)
		duration := shortest + state%(spread-shortest+1)
		go func() {
			from := start + lead
			if lead == 0 {
				from = now()
			}
			deadlines[i] = from + duration
			asleep.add(i, 1)
			time.Sleep(time.Duration(deadlines[i] - min(now(), deadlines[i])))
			woken[i] = now()
			ended.add(i, 1)
		}()
	}
	measures := map[string]float64{}
	if lead > 0 {
		for asleep.sum() < n && now() < start+lead {
			time.Sleep(time.Millisecond)
		}
		measures["bytes_per_task"] = float64(resident()-before) / float64(n)
		created := now() - start
		measures["create_ns"] = float64(created) / float64(n)
		if created >= lead {
			fail("after the lead of %d ms only %d of %d tasks sleep: a longer one is needed, such as lead=%d",
				r.number("lead"), asleep.sum(), n, 2*r.number("lead"))
		}
	}
	for ended.sum() < n {
		time.Sleep(200 * time.Microsecond)
	}
	latencies, end := map[string]uint64{}, uint64(0)
	for i, deadline := range deadlines {
		if woken[i] < deadline {
			fail("a task woke %d ns early", deadline-woken[i])
		}
		end = max(end, woken[i])
		late := woken[i] - deadline
		shift := max(bits.Len64(late), 11) - 11
		latencies[strconv.FormatUint(late>>shift<<shift, 10)]++
	}
	return &answer{Operations: n, Nanos: end - start, Latencies: latencies, Measures: measures}
}
