package main

// Conference calls: a goroutine for each participant and each mixer, which yield when they cannot go on.

import (
	"math/bits"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	samples = 160 // of a frame: 20 ms
	voices  = 16  // made up
	laps    = 100 // frames after which a voice begins again
)

type linear [samples]int16
type coded [samples]byte

// aValues and muValues are what each byte stands for.
var aValues, muValues = func() (a, mu [256]int16) {
	for b := range a {
		code := b ^ 0x55
		segment, step := code>>4&7, code&15
		magnitude := step<<4 + 8
		if segment > 0 {
			magnitude = (step<<4 + 0x108) << (segment - 1)
		}
		if code&0x80 == 0 {
			magnitude = -magnitude
		}
		a[b] = int16(magnitude)
		code = ^b & 255
		segment, step = code>>4&7, code&15
		magnitude = (step<<3+132)<<segment - 132
		if code&0x80 != 0 {
			magnitude = -magnitude
		}
		mu[b] = int16(magnitude)
	}
	return
}()

func split(sample int16) (sign byte, magnitude uint16) {
	if sample < 0 {
		return 0, uint16(^sample)
	}
	return 0x80, uint16(sample)
}

func aByte(sample int16) byte {
	sign, magnitude := split(sample)
	magnitude >>= 4
	code := byte(magnitude)
	if segment := bits.Len16(magnitude) - 4; segment > 0 {
		code = byte(segment<<4) | byte(magnitude>>(segment-1)&15)
	}
	return (sign | code) ^ 0x55
}

func muByte(sample int16) byte {
	sign, magnitude := split(sample)
	biased := min(magnitude>>2+33, 8191)
	segment := bits.Len16(biased) - 6
	code := byte(segment<<4) | byte(biased>>(segment+1)&15)
	return sign | (^code & 0x7f)
}

// voice is one participant's incoming speech; even ones follow the A-law.
type voice struct {
	even   bool
	frames [laps]coded
}

func (v *voice) encode(frame *linear, to *coded) {
	if v.even {
		for i, sample := range frame {
			to[i] = aByte(sample)
		}
	} else {
		for i, sample := range frame {
			to[i] = muByte(sample)
		}
	}
}

func (v *voice) decode(number uint64, to *linear) {
	values := &muValues
	if v.even {
		values = &aValues
	}
	for i, b := range v.frames[number%laps] {
		to[i] = values[b]
	}
}

// madeUp is the voice of that number: a sawtooth of its own pitch with some noise, in spurts.
func madeUp(number uint64) *voice {
	v := &voice{even: number%2 == 0}
	pitch := 40 + 7*number
	for f := range v.frames {
		var frame linear
		for i := range frame {
			at := uint64(f*samples + i)
			sample := int64(scramble(number<<32|at)>>52) - 2048
			if (at/2000+number)%3 != 0 {
				sample += int64(at%pitch*24000/pitch) - 12000
			} else {
				sample /= 16
			}
			frame[i] = int16(sample)
		}
		v.encode(&frame, &v.frames[f])
	}
	return v
}

// sum is the sum of some frames.
type sum [samples]int32

func (s *sum) add(frame *linear) {
	for i, sample := range frame {
		s[i] += int32(sample)
	}
}

func (s *sum) saturated(to *linear) {
	for i, sample := range s {
		to[i] = int16(max(min(sample, 32767), -32768))
	}
}

func weigh[T int16 | byte](frame *[samples]T) uint64 {
	var sum int64
	for i, value := range frame {
		sum += int64(value) * int64(2*i+1)
	}
	return uint64(sum)
}

func stamp(whose, number, weight uint64) uint64 {
	return scramble(scramble(scramble(whose)^number) ^ weight)
}

// slot is room for one thing that one goroutine hands to one other.
type slot struct {
	full    atomic.Bool
	arrived uint64
	frame   linear
	_       [64]byte
}

// chair is what lies between a participant and the mixer, and what the participant sent in all.
type chair struct {
	heard, back slot
	voice       *voice
	sent        uint64
}

func mixer(r *request, n uint64) *answer {
	conferences, count := r.number("conferences"), r.number("participants")
	pace, deadline := r.number("pace")*uint64(time.Millisecond), r.number("deadline")*uint64(time.Millisecond)
	var all [voices]*voice
	for v := range all {
		all[v] = madeUp(uint64(v))
	}
	latencies := make([][]uint64, conferences)
	rooms := make([][]chair, conferences)
	mixed := make([]uint64, conferences)
	var start atomic.Uint64
	var ended counter
	for c := range conferences {
		seats := make([]chair, count)
		rooms[c], latencies[c] = seats, make([]uint64, n*count)
		phase, from := scramble(c)%max(pace, 1), scramble(c)%laps
		go func() {
			ready, arrivals := uint64(0), make([]uint64, count)
			for number := uint64(0); number < n; {
				for ready < count && seats[ready].heard.full.Load() && !seats[ready].back.full.Load() {
					ready++
				}
				if ready < count {
					runtime.Gosched()
					continue
				}
				ready = 0
				var total sum
				for s := range seats {
					heard := &seats[s].heard
					arrivals[s] = heard.arrived
					total.add(&heard.frame)
					heard.full.Store(false)
				}
				var mix linear
				total.saturated(&mix)
				moment := now()
				for s, arrived := range arrivals {
					latencies[c][number*count+uint64(s)] = moment - min(arrived, moment)
				}
				mixed[c] += stamp(c, number, weigh((*[samples]int16)(&mix)))
				for s := range seats {
					back := &seats[s].back
					back.frame = mix
					back.full.Store(true)
				}
				number++
			}
		}()
		for s := range count {
			own := &seats[s]
			own.voice = all[(c*count+s)%voices]
			go func() {
				for heard, sent := uint64(0), uint64(0); sent < n; {
					stuck := true
					if own.back.full.Load() {
						var bytes coded
						own.voice.encode(&own.back.frame, &bytes)
						own.back.full.Store(false)
						own.sent += stamp(c^(s+1)<<32, sent, weigh((*[samples]byte)(&bytes)))
						sent++
						stuck = false
					}
					if begin := start.Load(); heard < n && begin > 0 && !own.heard.full.Load() {
						arrived := now()
						if pace > 0 {
							arrived = begin + phase + heard*pace
						}
						if pace == 0 || arrived <= now() {
							own.heard.arrived = arrived
							own.voice.decode(from+heard, &own.heard.frame)
							own.heard.full.Store(true)
							heard++
							stuck = false
						}
					}
					if stuck {
						runtime.Gosched()
					}
				}
				ended.add(c*count+s, 1)
			}()
		}
	}
	begin := now()
	start.Store(begin)
	for ended.sum() < conferences*count {
		time.Sleep(200 * time.Microsecond)
	}
	elapsed := now() - begin
	checkMixes(n, all[:], rooms, mixed)
	breaches, counts := uint64(0), map[uint64]uint64{}
	for _, of := range latencies {
		for _, latency := range of {
			if latency > deadline {
				breaches++
			}
			shift := max(bits.Len64(latency), 11) - 11
			counts[latency>>shift<<shift]++
		}
	}
	result := &answer{
		Operations: n * count * conferences,
		Nanos:      elapsed,
		Latencies:  map[string]uint64{},
		Measures:   map[string]float64{"breaches_percent": 100 * float64(breaches) / float64(n*count*conferences)},
	}
	for value, times := range counts {
		result.Latencies[strconv.FormatUint(value, 10)] = times
	}
	return result
}

// checkMixes mixes all frames again, one after the other.
func checkMixes(n uint64, all []*voice, rooms [][]chair, mixed []uint64) {
	for c, seats := range rooms {
		conference, count := uint64(c), uint64(len(seats))
		from, mixes := scramble(conference)%laps, uint64(0)
		sent := make([]uint64, count)
		for number := range n {
			var total sum
			var mix linear
			for s := range count {
				all[(conference*count+s)%voices].decode(from+number, &mix)
				total.add(&mix)
			}
			total.saturated(&mix)
			mixes += stamp(conference, number, weigh((*[samples]int16)(&mix)))
			for s := range count {
				var bytes coded
				all[(conference*count+s)%voices].encode(&mix, &bytes)
				sent[s] += stamp(conference^(s+1)<<32, number, weigh((*[samples]byte)(&bytes)))
			}
		}
		if mixes != mixed[c] {
			fail("the sum of what conference %d mixed: %d counted, %d expected", c, mixed[c], mixes)
		}
		for s := range seats {
			if sent[s] != seats[s].sent {
				fail("the sum of what was sent to a participant: %d counted, %d expected", seats[s].sent, sent[s])
			}
		}
	}
}
