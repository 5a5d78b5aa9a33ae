package main

// The concurrent programs, a goroutine per actor. Channels are the mailboxes, the buffer and the semaphores.

import (
	"runtime"
	"sync"
)

// What the part of the work that is done beforehand and not measured has a tenth of.
var appsWarmUp = map[string]string{
	"token-ring": "rounds", "producer": "n", "news": "messages", "city": "units", "eratosthenes": "n",
	"create": "n", "switch": "n", "mandelbrot": "iterations", "matrix": "n",
}

var apps = map[string]func(*request, uint64) *answer{
	"token-ring": tokenRing, "producer": producer, "news": news, "city": city, "eratosthenes": eratosthenes,
	"create": create, "switch": switches, "mandelbrot": mandelbrot, "matrix": matrix,
}

// smaller is the request with a tenth of the work; with few tasks for create, where memory is looked at.
func smaller(r *request) *request {
	name := appsWarmUp[r.Kind]
	params := map[string]any{}
	for key, value := range r.Params {
		params[key] = value
	}
	number := r.number(name)
	switch r.Kind {
	case "create":
		number = min(number, 1000)
	case "matrix":
		number = max(number/4, 1)
	default:
		number = max(number/10, 1)
	}
	params[name] = float64(number)
	if _, ok := params["out"]; ok {
		params["out"] = "none"
	}
	return &request{Kind: r.Kind, Params: params, Workers: r.Workers}
}

func tokenRing(r *request, n uint64) *answer {
	rounds := r.number("rounds")
	mailboxes := make([]chan uint64, n)
	for i := range mailboxes {
		mailboxes[i] = make(chan uint64, 1)
	}
	turns, wrong := make([]uint64, n), make([]uint64, n)
	var done sync.WaitGroup
	start := now()
	for place := uint64(0); place < n; place++ {
		from, to := mailboxes[place], mailboxes[(place+1)%n]
		done.Add(1)
		go func() {
			defer done.Done()
			seen, misplaced := uint64(0), uint64(0)
			for seen < rounds {
				passes := <-from
				seen++
				if passes%n != place {
					misplaced++
				}
				if passes+1 < n*rounds {
					to <- passes + 1
				}
			}
			turns[place], wrong[place] = seen, misplaced
		}()
	}
	mailboxes[0] <- 0
	done.Wait()
	elapsed := now() - start
	for place := range turns {
		if turns[place] != rounds || wrong[place] != 0 {
			fail("player %d had the token %d times, %d of them out of turn; %d were expected",
				place, turns[place], wrong[place], rounds)
		}
	}
	return perOperation(n*rounds, elapsed, "ns_per_pass")
}

func producer(r *request, n uint64) *answer {
	pairs := r.number("pairs")
	buffer := make(chan uint64, r.number("room"))
	var done sync.WaitGroup
	var count, sum counter
	start := now()
	for pair := uint64(0); pair < pairs; pair++ {
		done.Add(2)
		go func() {
			defer done.Done()
			for unit := pair; unit < n; unit += pairs {
				buffer <- unit
			}
		}()
		go func() {
			defer done.Done()
			units, total := uint64(0), uint64(0)
			for unit := pair; unit < n; unit += pairs {
				total += <-buffer
				units++
			}
			count.add(pair, units)
			sum.add(pair, total)
		}()
	}
	done.Wait()
	elapsed := now() - start
	if count.sum() != n || sum.sum() != n*(n-1)/2 {
		fail("units consumed: %d with the sum %d, %d with the sum %d expected", count.sum(), sum.sum(), n, n*(n-1)/2)
	}
	return perOperation(n, elapsed, "ns_per_unit")
}

func news(r *request, n uint64) *answer {
	reporters, messages, room := r.number("reporters"), r.number("messages"), r.number("room")
	type message struct{ reporter, number uint32 }
	mailboxes := make([]chan message, n)
	for i := range mailboxes {
		mailboxes[i] = make(chan message, room)
	}
	var published, done sync.WaitGroup
	var read, misplaced counter
	start := now()
	for at := range mailboxes {
		done.Add(1)
		go func() {
			defer done.Done()
			next := make([]uint32, reporters)
			count, wrong := uint64(0), uint64(0)
			for m := range mailboxes[at] {
				count++
				if m.number != next[m.reporter] {
					wrong++
				}
				next[m.reporter] = m.number + 1
			}
			read.add(uint64(at), count)
			misplaced.add(uint64(at), wrong)
		}()
	}
	for reporter := uint64(0); reporter < reporters; reporter++ {
		published.Add(1)
		go func() {
			defer published.Done()
			for number := uint64(0); number < messages; number++ {
				for _, mailbox := range mailboxes {
					mailbox <- message{uint32(reporter), uint32(number)}
				}
			}
		}()
	}
	published.Wait()
	for _, mailbox := range mailboxes {
		close(mailbox)
	}
	done.Wait()
	elapsed := now() - start
	deliveries := n * reporters * messages
	if read.sum() != deliveries || misplaced.sum() != 0 {
		fail("messages read: %d, %d of them out of order; %d expected", read.sum(), misplaced.sum(), deliveries)
	}
	return perOperation(deliveries, elapsed, "ns_per_delivery")
}

func city(r *request, n uint64) *answer {
	units := r.number("units")
	// Whoever puts a unit in waits for room, whoever takes one out for a unit.
	power := make(chan struct{}, r.number("room"))
	var river struct {
		sync.Mutex
		drawn uint64
	}
	draw := func() {
		river.Lock()
		river.drawn++
		river.Unlock()
	}
	var done sync.WaitGroup
	var used counter
	start := now()
	done.Add(1)
	go func() {
		defer done.Done()
		for i := uint64(0); i < n*units; i++ {
			draw()
			power <- struct{}{}
		}
	}()
	for house := uint64(0); house < n; house++ {
		done.Add(1)
		go func() {
			defer done.Done()
			count := uint64(0)
			for i := uint64(0); i < units; i++ {
				<-power
				draw()
				count++
			}
			used.add(house, count)
		}()
	}
	done.Wait()
	elapsed := now() - start
	if used.sum() != n*units || river.drawn != 2*n*units {
		fail("units of power and of water: %d and %d, %d and %d expected", used.sum(), river.drawn, n*units, 2*n*units)
	}
	return perOperation(n*units, elapsed, "ns_per_unit")
}

func eratosthenes(r *request, n uint64) *answer {
	room := r.number("room")
	var done sync.WaitGroup
	start := now()
	end := make(chan uint64, room)
	done.Add(1)
	go func(into chan uint64) {
		defer done.Done()
		for number := uint64(2); number <= n; number++ {
			into <- number
		}
		close(into)
	}(end)
	count, sum := uint64(0), uint64(0)
	for {
		prime, open := <-end
		if !open {
			break
		}
		count++
		sum += prime
		to := make(chan uint64, room)
		done.Add(1)
		go func(from chan uint64) {
			defer done.Done()
			for number := range from {
				if number%prime != 0 {
					to <- number
				}
			}
			close(to)
		}(end)
		end = to
	}
	done.Wait()
	elapsed := now() - start
	divided := make([]bool, n+1)
	for number := uint64(2); number <= n; number++ {
		if !divided[number] {
			count--
			sum -= number
			for multiple := number * number; multiple <= n; multiple += number {
				divided[multiple] = true
			}
		}
	}
	if count != 0 || sum != 0 {
		fail("the primes up to %d are wrong: their number is off by %d, their sum by %d", n, int64(count), int64(sum))
	}
	return perOperation(n, elapsed, "ns_per_number")
}

func create(r *request, n uint64) *answer {
	task := func() (ended chan uint64) {
		ended = make(chan uint64, 1)
		go func() { ended <- 1 }()
		return
	}
	ended, elapsed := uint64(0), uint64(0)
	measures := map[string]float64{}
	if r.word("outstanding") == "one" {
		start := now()
		for i := uint64(0); i < n; i++ {
			ended += <-task()
		}
		elapsed = now() - start
	} else {
		runtime.GC()
		before := resident()
		start := now()
		handles := make([]chan uint64, 0, n)
		for i := uint64(0); i < n; i++ {
			handles = append(handles, task())
		}
		elapsed = now() - start
		measures["bytes_per_task"] = float64(max(resident(), before)-before) / float64(n)
		start = now()
		for _, handle := range handles {
			ended += <-handle
		}
		elapsed += now() - start
	}
	if ended != n {
		fail("tasks that ended: %d counted, %d expected", ended, n)
	}
	measures["ns_per_task"] = float64(elapsed) / float64(n)
	return &answer{Operations: n, Nanos: elapsed, Measures: measures}
}

func switches(r *request, n uint64) *answer {
	tasks := r.number("tasks")
	each := max(n/tasks, 1)
	var done sync.WaitGroup
	var yields counter
	start := now()
	for task := uint64(0); task < tasks; task++ {
		done.Add(1)
		go func() {
			defer done.Done()
			count := uint64(0)
			for count < each {
				runtime.Gosched()
				count++
			}
			yields.add(task, count)
		}()
	}
	done.Wait()
	elapsed := now() - start
	if yields.sum() != tasks*each {
		fail("yields: %d counted, %d expected", yields.sum(), tasks*each)
	}
	return perOperation(tasks*each, elapsed, "ns_per_yield")
}
