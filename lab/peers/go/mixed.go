package main

// A server that computes: it reads a message, sorts in parallel, and sends the message back.

import (
	"io"
	"net"
	"slices"
	"sync"
)

// Ranges up to this long are not split.
const cutOff = 1024

func checksum(numbers []uint64) (sum uint64) {
	for _, number := range numbers {
		sum += scramble(number)
	}
	return
}

// partition is Hoare's around the median of three, as the other contestants have it.
func partition(numbers []uint64) int {
	last := len(numbers) - 1
	three := []uint64{numbers[0], numbers[last/2], numbers[last]}
	slices.Sort(three)
	pivot := three[1]
	for low, high := 0, last; ; low, high = low+1, high-1 {
		for numbers[low] < pivot {
			low++
		}
		for numbers[high] > pivot {
			high--
		}
		if low >= high {
			return low
		}
		numbers[low], numbers[high] = numbers[high], numbers[low]
	}
}

func quicksort(numbers []uint64) {
	if len(numbers) <= cutOff {
		slices.Sort(numbers)
		return
	}
	middle := partition(numbers)
	var right sync.WaitGroup
	right.Add(1)
	go func() {
		quicksort(numbers[middle:])
		right.Done()
	}()
	quicksort(numbers[:middle])
	right.Wait()
}

func sortForClients(r *request) {
	input := make([]uint64, r.number("numbers"))
	state := uint64(0x50f7)
	for i := range input {
		state = scramble(state)
		input[i] = state
	}
	expected := checksum(input)
	listener := listen()
	for {
		client, err := listener.Accept()
		if err != nil {
			fail("no connection: %v", err)
		}
		go func(client net.Conn) {
			defer client.Close()
			var message [24]byte
			for {
				if _, err := io.ReadFull(client, message[:]); err != nil {
					return
				}
				numbers := slices.Clone(input)
				quicksort(numbers)
				if !slices.IsSorted(numbers) || checksum(numbers) != expected {
					fail("a sort went wrong")
				}
				if _, err := client.Write(message[:]); err != nil {
					return
				}
			}
		}(client)
	}
}
