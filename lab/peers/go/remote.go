package main

// The workloads whose goroutines wait for what is remote, and compute.

import "time"

const modulus = 1_000_000_000

// both runs the second half in a goroutine of its own.
func both(first, second func() uint64) (uint64, uint64) {
	answer := make(chan uint64, 1)
	go func() { answer <- second() }()
	return first(), <-answer
}

func serialFib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	return serialFib(n-1) + serialFib(n-2)
}

func parallelFib(n, base uint64) uint64 {
	if n <= base {
		return serialFib(n)
	}
	left, right := both(
		func() uint64 { return parallelFib(n-1, base) },
		func() uint64 { return parallelFib(n-2, base) })
	return left + right
}

func knownFib(n uint64) uint64 {
	a, b := uint64(0), uint64(1)
	for ; n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

// chosen says which `some` of `all` leaves it is, in no order.
func chosen(some, all uint64) []bool {
	which, state := make([]bool, all), uint64(0)
	for i := range some {
		which[i] = true
	}
	for i := all; i > 1; i-- {
		state = scramble(state)
		j := state % i
		which[i-1], which[j] = which[j], which[i-1]
	}
	return which
}

func mapReduceFib(r *request, n uint64) *answer {
	wait := time.Duration(r.number("wait")) * time.Millisecond
	base := r.number("base")
	heavy := chosen(min(r.number("heavy"), n), n)
	work := func(item uint64) uint64 {
		if heavy[item] {
			return r.number("heavy-fib")
		}
		return r.number("fib")
	}
	timed := func(wait time.Duration, n uint64) uint64 {
		var reduced func(from, to uint64) uint64
		reduced = func(from, to uint64) uint64 {
			if to-from > 1 {
				middle := from + (to-from)/2
				left, right := both(
					func() uint64 { return reduced(from, middle) },
					func() uint64 { return reduced(middle, to) })
				return (left + right) % modulus
			}
			if wait > 0 {
				time.Sleep(wait)
			}
			return parallelFib(work(from), base) % modulus
		}
		start := now()
		sum := reduced(0, n)
		elapsed := now() - start
		expected := uint64(0)
		for item := range n {
			expected = (expected + knownFib(work(item))) % modulus
		}
		if sum != expected {
			fail("the sum of the items: %d counted, %d expected", sum, expected)
		}
		return elapsed
	}
	timed(0, max(n/10, 1))
	if wait == 0 {
		return &answer{Operations: n, Nanos: timed(0, n), Measures: map[string]float64{}}
	}
	earlier := timed(0, n)
	elapsed := timed(wait, n)
	ideal := (float64(earlier) + float64(timed(0, n))) / 2
	return &answer{Operations: n, Nanos: elapsed, Measures: map[string]float64{
		"ideal_s":        ideal / 1e9,
		"ratio_to_limit": float64(elapsed) / (ideal + float64(wait)),
		"speed_up":       (float64(wait)*float64(n) + ideal*float64(r.Workers)) / float64(elapsed),
		"ideal_speed_up": (float64(wait)*float64(n) + ideal*float64(r.Workers)) / ideal,
	}}
}

// A goroutine that sleeps gives its processor away: here a leaf that holds its worker has to spin.
func sweep(r *request, n uint64) *answer {
	work := time.Duration(r.number("work")) * time.Millisecond
	leaves := func(n uint64) uint64 { return knownFib(n + 1) }
	hideable := chosen(leaves(n)*r.number("share")/100, leaves(n))
	var tree func(n, first uint64) uint64
	tree = func(n, first uint64) uint64 {
		if n >= 2 {
			left, right := both(
				func() uint64 { return tree(n-1, first) },
				func() uint64 { return tree(n-2, first+leaves(n-1)) })
			return left + right
		}
		if hideable[first] {
			time.Sleep(work)
		} else {
			for start := time.Now(); time.Since(start) < work; {
			}
		}
		return n
	}
	start := now()
	result := tree(n, 0)
	elapsed := now() - start
	if result != knownFib(n) {
		fail("fib: %d computed, %d expected", result, knownFib(n))
	}
	classic := float64(leaves(n)) * float64(work) / float64(r.Workers)
	return &answer{Operations: leaves(n), Nanos: elapsed, Measures: map[string]float64{
		"ratio_to_classic": float64(elapsed) / classic,
	}}
}
