// The Go contestant of the lab: the same workloads, a goroutine per task.
//
// One JSON request on standard input, one JSON answer on standard output; the lab checks nothing that this program has
// not checked itself first. GOMAXPROCS is the number of workers. For http and mixed the answer is where it listens, and
// the lab asks.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"math/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

type request struct {
	Kind     string         `json:"kind"`
	Params   map[string]any `json:"params"`
	Workers  int            `json:"workers"`
	Backends []string       `json:"backends"`
}

func (r *request) number(name string) uint64 { return uint64(r.Params[name].(float64)) }
func (r *request) word(name string) string   { return r.Params[name].(string) }

type answer struct {
	Version    string             `json:"version"`
	Operations uint64             `json:"operations"`
	Nanos      uint64             `json:"nanos"`
	Latencies  map[string]uint64  `json:"latencies"` // nanoseconds (three digits kept): how many
	Heavy      map[string]uint64  `json:"heavy"`     // the same of heavy work, where it is told apart
	Measures   map[string]float64 `json:"measures"`
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

var base = time.Now()

func now() uint64 { return uint64(time.Since(base)) }

// counter is a counter in parts, so that handlers on different processors seldom meet on one line.
type counter struct {
	parts [16]struct {
		value atomic.Uint64
		_     [120]byte
	}
}

func (c *counter) add(part, value uint64) { c.parts[part%16].value.Add(value) }

func (c *counter) sum() (sum uint64) {
	for part := range c.parts {
		sum += c.parts[part].value.Load()
	}
	return sum
}

// lane is what one spawner has under way.
type lane struct {
	window    uint64
	start     uint64
	waits     uint64
	seen      uint64
	done      counter
	tally     counter
	ends      []uint64
	latencies []uint64
	heavy     []bool // which ones are, if any
}

func newLane(share, window uint64) *lane {
	if window == 0 {
		window = 1 << 62
	}
	return &lane{window: window, ends: make([]uint64, share), latencies: make([]uint64, share)}
}

// admit lets others run until the window has room for packet number i.
func (l *lane) admit(i uint64) {
	for i-l.seen >= l.window {
		l.seen = l.done.sum()
		if i-l.seen >= l.window {
			l.waits++
			runtime.Gosched()
		}
	}
}

func (l *lane) finish(i, started, tally uint64) {
	end := now()
	l.ends[i] = end
	l.latencies[i] = end - started
	l.tally.add(i, tally)
	l.done.add(i, 1)
}

// land waits for all lanes and adds up what they hold.
func land(lanes []*lane, share uint64, timed bool) (*answer, uint64) {
	for _, l := range lanes {
		for l.done.sum() < share {
			time.Sleep(200 * time.Microsecond)
		}
	}
	start, end, waits, tally := lanes[0].start, uint64(0), uint64(0), uint64(0)
	light, heavy := map[uint64]uint64{}, map[uint64]uint64{}
	for _, l := range lanes {
		start = min(start, l.start)
		waits += l.waits
		tally += l.tally.sum()
		for i := range l.ends {
			end = max(end, l.ends[i])
			shift := max(bits.Len64(l.latencies[i]), 11) - 11
			counts := light
			if l.heavy != nil && l.heavy[i] {
				counts = heavy
			}
			counts[l.latencies[i]>>shift<<shift]++
		}
	}
	if !timed {
		light, heavy = nil, nil
	}
	return &answer{
		Operations: share * uint64(len(lanes)),
		Nanos:      end - start,
		Latencies:  named(light),
		Heavy:      named(heavy),
		Measures:   map[string]float64{"window_full": float64(waits)},
	}, tally
}

// named has the times as JSON's keys are.
func named(counts map[uint64]uint64) map[string]uint64 {
	names := map[string]uint64{}
	for nanos, count := range counts {
		names[strconv.FormatUint(nanos, 10)] = count
	}
	return names
}

// makePackets makes 100 packets of 2 to 3 KiB with newlines scattered over the first 300 bytes.
func makePackets() [][]byte {
	random := rand.New(rand.NewSource(1))
	packets := make([][]byte, 100)
	for p := range packets {
		packet := make([]byte, 2048+random.Intn(1025))
		for at := range packet {
			if at < 300 && random.Intn(10) == 0 {
				packet[at] = '\n'
			} else {
				packet[at] = byte(' ' + random.Intn(94))
			}
		}
		packets[p] = packet
	}
	return packets
}

// scramble is the next random number (splitmix64).
func scramble(state uint64) uint64 {
	z := state + 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

var (
	packets = makePackets()
	newline = []byte{'\n'}
	sink    []byte
)

func perSpawner(r *request, n uint64) (spawners, share, window uint64) {
	spawners = r.number("spawners")
	share = max(n/spawners, 1)
	window = r.number("window")
	if window > 0 {
		window = max(window/spawners, 1)
	}
	return
}

func packet(r *request, n uint64) *answer {
	spawners, share, window := perSpawner(r, n)
	spin, null := time.Duration(r.number("spin")), r.word("handlers") == "none"
	expected := uint64(0)
	of := make([]uint64, len(packets))
	for i, p := range packets {
		of[i] = uint64(bytes.Count(p, newline))
	}
	for s := uint64(0); s < spawners && !null; s++ {
		state := s + 1
		for i := uint64(0); i < share; i++ {
			state = scramble(state)
			expected += of[state%uint64(len(packets))]
		}
	}
	lanes := make([]*lane, spawners)
	for s := range lanes {
		l := newLane(share, window)
		lanes[s] = l
		state := uint64(s + 1)
		go func() {
			l.start = now()
			for i := uint64(0); i < share; i++ {
				l.admit(i)
				state = scramble(state)
				copied := bytes.Clone(packets[state%uint64(len(packets))])
				started := now()
				if null {
					sink = copied
					l.finish(i, started, 0)
					continue
				}
				go func() {
					found := uint64(bytes.Count(copied, newline))
					if spin > 0 {
						spinFor(spin)
					}
					l.finish(i, started, found)
				}()
			}
		}()
	}
	result, tally := land(lanes, share, !null)
	if tally != expected {
		fail("newlines: %d counted, %d expected", tally, expected)
	}
	return result
}

func work(packet []byte, state uint64) uint64 {
	random := scramble(state)
	read := uint64(0)
	if random&1 == 0 {
		for i := 0; i < 20; i++ {
			random = scramble(random)
			read += uint64(packet[(random>>32)*uint64(len(packet))>>32])
		}
	} else {
		for _, b := range packet {
			read += uint64(b)
		}
	}
	return scramble(state ^ read)
}

// link is one goroutine of a chain; the last calls end.
func link(end func(i, started, state uint64), packet []byte, i, started, state, left uint64) {
	state = work(packet, state)
	if left == 1 {
		end(i, started, state)
	} else {
		go link(end, packet, i, started, state, left-1)
	}
}

// firstOfChain is the packet that a spawner sends as its i-th, and the state it starts with.
func firstOfChain(s, i uint64) ([]byte, uint64) {
	state := scramble(s<<40 | i)
	return packets[state%uint64(len(packets))], state
}

// expectedOfChains is the sum of the last states of all chains.
func expectedOfChains(spawners, share, chain uint64) (expected uint64) {
	for s := uint64(0); s < spawners; s++ {
		for i := uint64(0); i < share; i++ {
			packet, state := firstOfChain(s, i)
			for c := uint64(0); c < chain; c++ {
				state = work(packet, state)
			}
			expected += state
		}
	}
	return expected
}

func packetCache(r *request, n uint64) *answer {
	spawners, share, window := perSpawner(r, n)
	chain, null := r.number("chain"), r.word("handlers") == "none"
	expected := uint64(0)
	if !null {
		expected = expectedOfChains(spawners, share, chain)
	}
	lanes := make([]*lane, spawners)
	for s := range lanes {
		l := newLane(share, window)
		lanes[s] = l
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
				go link(l.finish, copied, i, started, state, chain)
			}
		}()
	}
	result, tally := land(lanes, share, !null)
	if tally != expected {
		fail("sum over all chains: %d counted, %d expected", tally, expected)
	}
	result.Measures["tasks_per_second"] = float64(result.Operations*chain) / (float64(result.Nanos) / 1e9)
	return result
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	first, second := make(chan uint64, 1), make(chan uint64, 1)
	go func() { first <- fib(n - 1) }()
	go func() { second <- fib(n - 2) }()
	return <-first + <-second
}

func fibPromise(_ *request, n uint64) *answer {
	a, b := uint64(0), uint64(1)
	for i := uint64(0); i < n; i++ {
		a, b = b, a+b
	}
	start := now()
	result := fib(n)
	elapsed := now() - start
	if result != a {
		fail("fib: %d computed, %d expected", result, a)
	}
	calls := 2*b - 1
	return &answer{Operations: calls, Nanos: elapsed, Measures: map[string]float64{"ns_per_task": float64(elapsed) / float64(calls)}}
}

func spawn(r *request, n uint64) *answer {
	if r.word("mode") == "backlog" {
		return backlog(n)
	}
	start := now()
	switch r.word("mode") {
	case "batch":
		handles := make([]chan struct{}, 0, n)
		for i := uint64(0); i < n; i++ {
			done := make(chan struct{})
			handles = append(handles, done)
			go func() { close(done) }()
		}
		for _, done := range handles {
			<-done
		}
	case "one":
		for i := uint64(0); i < n; i++ {
			done := make(chan struct{})
			go func() { close(done) }()
			<-done
		}
	default:
		var count counter
		for i := uint64(0); i < n; i++ {
			go func() { count.add(i, 1) }()
		}
		for count.sum() < n {
			runtime.Gosched()
		}
	}
	elapsed := now() - start
	return &answer{Operations: n, Nanos: elapsed, Measures: map[string]float64{"ns_per_task": float64(elapsed) / float64(n)}}
}

// Closures of 32 bytes, all launched before one is waited for.
func backlog(n uint64) *answer {
	var count counter
	runtime.GC()
	before := resident()
	start := now()
	for i := uint64(0); i < n; i++ {
		load := [3]uint64{i, ^i, i << 1}
		go func() { count.add(load[0], 1); runtime.KeepAlive(load) }()
	}
	launched := now() - start
	outstanding := n - count.sum()
	grown := max(resident(), before) - before
	for count.sum() < n {
		runtime.Gosched()
	}
	elapsed := now() - start
	each := func(whole uint64) float64 { return float64(whole) / float64(n) }
	return &answer{Operations: n, Nanos: elapsed, Measures: map[string]float64{
		"ns_per_task":    each(uint64(elapsed)),
		"ns_per_launch":  each(uint64(launched)),
		"bytes_per_task": each(grown),
		"outstanding":    float64(outstanding),
	}}
}

func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail("the memory of this process is unknown: %v", err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		fail("the memory of this process is unknown: %v", err)
	}
	return pages * uint64(os.Getpagesize())
}

func parked(_ *request, n uint64) *answer {
	gate := make(chan struct{})
	var waiting, ended counter
	runtime.GC()
	before := resident()
	start := now()
	for i := uint64(0); i < n; i++ {
		go func() {
			waiting.add(i, 1)
			<-gate
			ended.add(i, 1)
		}()
	}
	for waiting.sum() < n {
		time.Sleep(200 * time.Microsecond)
	}
	created := now() - start
	grown := resident() - before
	start = now()
	close(gate)
	for ended.sum() < n {
		time.Sleep(200 * time.Microsecond)
	}
	woken := now() - start
	return &answer{Operations: n, Nanos: created + woken, Measures: map[string]float64{
		"create_ns":      float64(created) / float64(n),
		"wake_ns":        float64(woken) / float64(n),
		"bytes_per_task": float64(grown) / float64(n),
	}}
}

func main() {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		fail("the request is not understood: %v", err)
	}
	// Who asked keeps the pipe open until it has its answer: if it ends, so do we.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	runtime.GOMAXPROCS(r.Workers)
	switch r.Kind {
	case "http":
		serve(&r)
	case "mixed":
		sortForClients(&r)
	}
	timed := map[string]func(*request) *answer{
		"cycle": cycle, "yield": yield, "churn": churn, "locality": locality, "transfer": transfer,
	}
	if program, ok := timed[r.Kind]; ok {
		reply(program(&r))
		return
	}
	programs := map[string]func(*request, uint64) *answer{
		"packet": packet, "packet-cache": packetCache, "packet-bimodal": packetBimodal, "options": priceOptions, "fib-promise": fibPromise, "spawn": spawn, "parked": parked,
		"pingpong": pingpong, "lock": lock, "timers": timers,
		"mapreducefib": mapReduceFib, "sweep": sweep,
		"mixer": mixer,
	}
	for name, app := range apps {
		programs[name] = app
	}
	program, ok := programs[r.Kind]
	if !ok {
		fail("there is no workload %q here", r.Kind)
	}
	n := r.number("n")
	// A part of the work beforehand, which is not measured; as the other contestants do.
	switch r.Kind {
	case "packet", "packet-cache", "packet-bimodal", "options":
		program(&r, min(max(n/10, 1), 20000))
	case "mixer":
		program(&r, min(max(n/10, 1), 5))
	case "fib-promise":
		program(&r, min(max(n, 6)-5, 20))
	case "spawn", "pingpong", "lock":
		program(&r, max(n/10, 1))
	}
	if _, ok := apps[r.Kind]; ok {
		less := smaller(&r)
		program(less, less.number("n"))
	}
	reply(program(&r, n))
}

func reply(result *answer) {
	result.Version = runtime.Version()
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail("the answer cannot be written: %v", err)
	}
}
