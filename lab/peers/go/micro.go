package main

// The micro-benchmarks: goroutines that do nothing but switch.
//
// A goroutine parks on a channel of its own with room for one, so an unpark is not lost and not counted; a semaphore is a channel with
// room for all permits that there can be. Counts are plain words that one goroutine writes and another reads: where Go stores a word
// atomically it exchanges it, which would cost more than what is counted.

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type seat struct {
	place   chan struct{}
	turns   uint64
	last    uint64
	longest uint64
	gift    uint64
	seen    atomic.Uint64
	_       [80]byte
}

func (s *seat) park()   { <-s.place }
func (s *seat) unpark() { s.place <- struct{}{} }

type hall struct {
	seats []seat
	over  atomic.Bool
	_     [120]byte
	clock bool
	ready sync.WaitGroup
	done  sync.WaitGroup
}

func (h *hall) turn(own *seat) {
	own.turns++
	if h.clock {
		t := now()
		own.longest = max(own.longest, t-own.last)
		own.last = t
	}
}

func (h *hall) look() []uint64 {
	turns := make([]uint64, len(h.seats))
	for i := range h.seats {
		turns[i] = h.seats[i].turns
	}
	return turns
}

func newHall(r *request, tasks uint64) *hall {
	h := &hall{seats: make([]seat, tasks)}
	for i := range h.seats {
		h.seats[i].place = make(chan struct{}, 1)
	}
	h.clock = r.Params["clock"] == "on"
	return h
}

// count runs a task in each seat and counts turns for a time; `together` neighbours are served together.
func (h *hall) count(r *request, together int, first func(int) bool, task func(int, *seat)) *answer {
	for i := range h.seats {
		h.ready.Add(1)
		h.done.Add(1)
		go func() {
			own := &h.seats[i]
			h.ready.Done()
			own.park()
			task(i, own)
			h.done.Done()
		}()
	}
	h.ready.Wait()
	began := now()
	for i := range h.seats {
		h.seats[i].last = began
	}
	for i := range h.seats {
		if first(i) {
			h.seats[i].unpark()
		}
	}
	length := time.Duration(r.number("ms")) * time.Millisecond
	time.Sleep(length / 8)
	start, before := now(), h.look()
	time.Sleep(length)
	elapsed, after := now()-start, h.look()
	longest, end := uint64(0), now()
	for i := range h.seats {
		longest = max(longest, h.seats[i].longest, end-min(end, h.seats[i].last))
	}
	h.over.Store(true)
	h.done.Wait()
	all, least := uint64(0), ^uint64(0)
	for at := 0; at < len(after); at += together {
		served := uint64(0)
		for i := at; i < at+together; i++ {
			served += after[i] - before[i]
		}
		all, least = all+served, min(least, served)
	}
	mean := float64(all) / float64(len(after)/together)
	measures := map[string]float64{
		"least":                      float64(least) / max(mean, 1),
		"workers_over_throughput_ns": float64(elapsed) * float64(r.Workers) / max(float64(all), 1),
	}
	if h.clock {
		measures["longest_wait_us"] = float64(longest) / 1e3
	}
	return &answer{Operations: all, Nanos: elapsed, Measures: measures}
}

func everybody(int) bool { return true }

func cycle(r *request) *answer {
	ring := int(r.number("ring"))
	h := newHall(r, r.number("rings")*uint64(r.Workers)*uint64(ring))
	result := h.count(r, ring, func(i int) bool { return i%ring == 0 }, func(i int, own *seat) {
		next := &h.seats[i-i%ring+(i+1)%ring]
		for !h.over.Load() {
			h.turn(own)
			next.unpark()
			own.park()
		}
		next.unpark()
	})
	for at := 0; at < len(h.seats); at += ring {
		for i := at + 1; i < at+ring; i++ {
			if before := h.seats[i-1].turns; before < h.seats[i].turns || h.seats[at].turns > h.seats[i].turns+1 {
				fail("hops of a ring: %d after %d counted", h.seats[i].turns, before)
			}
		}
	}
	return result
}

func yield(r *request) *answer {
	h := newHall(r, r.number("tasks")*uint64(r.Workers))
	return h.count(r, 1, everybody, func(_ int, own *seat) {
		for !h.over.Load() {
			h.turn(own)
			runtime.Gosched()
		}
	})
}

// spots are where names are, one or none in each.
type spots []struct {
	name atomic.Uint64
	_    [120]byte
}

func spotsOf(r *request, tasks uint64) uint64 {
	if count := r.number("spots"); count != 0 {
		return count
	}
	return tasks / 2
}

func (s spots) pushOut(h *hall, spot uint64, i int, gift uint64) {
	if found := s[spot].name.Swap(uint64(i) + 1); found != 0 {
		h.seats[found-1].gift = gift
		h.seats[found-1].unpark()
	}
}

func (s spots) clear(h *hall) {
	for at := range s {
		if found := s[at].name.Swap(0); found != 0 {
			h.seats[found-1].unpark()
		}
	}
}

func churn(r *request) *answer {
	tasks := r.number("tasks") * uint64(r.Workers)
	count := spotsOf(r, tasks)
	h := newHall(r, tasks)
	if r.word("form") == "sem" {
		semaphores := make([]chan struct{}, count)
		for at := range semaphores {
			semaphores[at] = make(chan struct{}, 2*tasks)
		}
		return h.count(r, 1, everybody, func(i int, own *seat) {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for !h.over.Load() {
				semaphore := semaphores[random.Uint64N(count)]
				semaphore <- struct{}{}
				<-semaphore
				h.turn(own)
			}
			for _, semaphore := range semaphores {
				semaphore <- struct{}{}
			}
		})
	}
	places := make(spots, count)
	result := h.count(r, 1, everybody, func(i int, own *seat) {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		for !h.over.Load() {
			h.turn(own)
			places.pushOut(h, random.Uint64N(count), i, 0)
			if h.over.Load() {
				places.clear(h)
			}
			own.park()
		}
		places.clear(h)
	})
	for at := range places {
		if name := places[at].name.Load(); name != 0 {
			fail("names left in the spots: %d", name)
		}
	}
	return result
}

func locality(r *request) *answer {
	tasks := r.number("tasks") * uint64(r.Workers)
	count, cells, touched := spotsOf(r, tasks), r.number("cells"), r.number("touched")
	shared := r.word("array") == "share"
	h, places := newHall(r, tasks), make(spots, count)
	arrays := make([][]uint64, tasks)
	for i := range arrays {
		arrays[i] = make([]uint64, cells)
	}
	result := h.count(r, 1, everybody, func(i int, own *seat) {
		random, held := rand.New(rand.NewPCG(uint64(i), 0)), uint64(i)
		for !h.over.Load() {
			array := arrays[held]
			for t := uint64(0); t < touched; t++ {
				array[random.Uint64N(cells)]++
			}
			h.turn(own)
			places.pushOut(h, random.Uint64N(count), i, held)
			if h.over.Load() {
				places.clear(h)
			}
			own.park()
			if shared {
				held = own.gift
			}
		}
		places.clear(h)
	})
	sum, turns := uint64(0), uint64(0)
	for i := range arrays {
		turns += h.seats[i].turns
		for _, cell := range arrays[i] {
			sum += cell
		}
	}
	if sum != turns*touched {
		fail("counts in the arrays: %d counted, %d expected", sum, turns*touched)
	}
	return result
}

// transfer: a leader spins until all others have seen its term. Term and leader are one word; 0 says that it is over.
func transfer(r *request) *answer {
	tasks := int(r.number("tasks")) * r.Workers
	h := newHall(r, uint64(tasks))
	parks, itself := r.word("others") == "park", r.word("elects") == "any"
	longest, length := r.number("longest")*uint64(time.Millisecond), r.number("ms")*uint64(time.Millisecond)
	var state atomic.Uint64
	state.Store(1 << 32)
	random := rand.New(rand.NewPCG(0x7a57, 0))
	latencies := map[string]uint64{}
	began, ended, from, terms, counted, acknowledged := uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), counter{}
	// What a leader does when all have seen it: the word that is next.
	elect := func(own int, term uint64) uint64 {
		took, t := now()-ended, now()
		ended = t
		terms++
		if from != 0 {
			latencies[strconv.FormatUint(took, 10)]++
			if counted++; t-from >= length {
				return 0
			}
		} else if t-began >= length/8 {
			from = t
		}
		next := random.IntN(tasks)
		if !itself {
			next = (own + 1 + random.IntN(tasks-1)) % tasks
		}
		return (term+1)<<32 | uint64(next)
	}
	lead := func(own int, term uint64) {
		start := now()
		for i := range h.seats {
			for looks := 1; i != own && h.seats[i].seen.Load() != term; looks++ {
				if looks%1024 == 0 && now()-start > longest {
					fail("a leadership took more than %d ms, after %d that were completed", r.number("longest"), terms)
				}
			}
		}
		state.Store(elect(own, term))
		for i := range h.seats {
			if parks && i != own {
				h.seats[i].unpark()
			}
		}
	}
	for i := range h.seats {
		h.ready.Add(1)
		h.done.Add(1)
		go func() {
			own, seen := &h.seats[i], uint64(0)
			h.ready.Done()
			own.park()
			for word := state.Load(); word != 0; word = state.Load() {
				term := word >> 32
				if word == term<<32|uint64(i) {
					lead(i, term)
					continue
				}
				if seen != term {
					seen = term
					acknowledged.add(uint64(i), 1)
					own.seen.Store(term)
				}
				if parks {
					own.park()
				} else {
					runtime.Gosched()
				}
			}
			h.done.Done()
		}()
	}
	h.ready.Wait()
	began = now()
	ended = began
	for i := range h.seats {
		h.seats[i].unpark()
	}
	h.done.Wait()
	if expected := terms * uint64(tasks-1); acknowledged.sum() != expected {
		fail("times that somebody saw a leader: %d counted, %d expected", acknowledged.sum(), expected)
	}
	elapsed := ended - from
	measures := map[string]float64{"us_per_leadership": float64(elapsed) / 1e3 / float64(counted)}
	return &answer{Operations: counted, Nanos: elapsed, Latencies: latencies, Measures: measures}
}
