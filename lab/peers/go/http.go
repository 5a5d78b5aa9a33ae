package main

// The HTTP server: net/http with its defaults, a goroutine for each connection, and for each backend that a request asks.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/bits"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

const question = 14

// asks is what a client's connection has to ask: a connection of its own to each backend.
type asks [3]net.Conn

type asksKey struct{}

func digest(rounds uint64) uint64 {
	state := uint64(0x9e3779b97f4a7c15)
	for round := uint64(0); round < rounds; round++ {
		state = bits.RotateLeft64((state^round)*0xbf58476d1ce4e5b9, 31)
	}
	return state
}

func ask(backend net.Conn) (uint64, error) {
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], question)
	if _, err := backend.Write(bytes[:]); err != nil {
		return 0, err
	}
	_, err := io.ReadFull(backend, bytes[:])
	return binary.LittleEndian.Uint64(bytes[:]), err
}

func (a *asks) all() (sum uint64, failed error) {
	var answers [len(a)]uint64
	var errors [len(a)]error
	var done sync.WaitGroup
	for i, backend := range a {
		done.Add(1)
		go func() {
			answers[i], errors[i] = ask(backend)
			done.Done()
		}()
	}
	done.Wait()
	for i, answer := range answers {
		sum += answer
		if errors[i] != nil {
			failed = errors[i]
		}
	}
	return
}

func handle(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path == "/" {
		io.WriteString(w, "Hello, World!")
	} else if text, ok := strings.CutPrefix(path, "/compute/"); ok {
		rounds, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, strconv.FormatUint(digest(rounds), 10))
	} else if own, ok := r.Context().Value(asksKey{}).(*asks); ok && path == "/fan-out" {
		sum, err := own.all()
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		io.WriteString(w, strconv.FormatUint(sum, 10))
	} else {
		http.NotFound(w, r)
	}
}

// listen gives a listener, and says where it listens.
func listen() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail("no listener: %v", err)
	}
	said := map[string]string{"version": runtime.Version(), "address": listener.Addr().String()}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		fail("the address cannot be written: %v", err)
	}
	return listener
}

// serve answers until the program ends.
func serve(r *request) {
	var open sync.Map
	server := http.Server{Handler: http.HandlerFunc(handle)}
	if len(r.Backends) > 0 {
		server.ConnContext = func(ctx context.Context, client net.Conn) context.Context {
			own := new(asks)
			for i, address := range r.Backends {
				backend, err := net.Dial("tcp", address)
				if err != nil {
					fail("a backend: %v", err)
				}
				own[i] = backend
			}
			open.Store(client, own)
			return context.WithValue(ctx, asksKey{}, own)
		}
		server.ConnState = func(client net.Conn, state http.ConnState) {
			if state != http.StateClosed {
				return
			}
			if own, ok := open.LoadAndDelete(client); ok {
				for _, backend := range own.(*asks) {
					backend.Close()
				}
			}
		}
	}
	fail("%v", server.Serve(listen()))
}
