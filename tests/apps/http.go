package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func serveHTTP(l *countingListener, _ options, ready *readiness) error {
	return http.Serve(l, handler(l, ready))
}

func handler(l *countingListener, ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		host, _ := os.Hostname()
		fmt.Fprintf(w, "app %s\n", host)
	})
	mux.HandleFunc("/peer", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintln(w, host)
	})
	mux.HandleFunc("/accepted", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, l.accepted.Load())
	})
	mux.HandleFunc("/since-refused", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, ready.sinceRefused().Milliseconds())
	})
	mux.HandleFunc("/resolve", resolve)
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/big", bigAnswer)
	mux.HandleFunc("/slow", slow)
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/page", page)
	mux.HandleFunc("/status/", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.URL.Path[len("/status/"):])
		if err != nil || code < 200 || code > 599 {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, "the app's own %d\n", code)
	})
	return mux
}

// resolve answers with the addresses of ?name=NAME, as any program of the pod finds them.
func resolve(w http.ResponseWriter, r *http.Request) {
	addresses, err := net.DefaultResolver.LookupHost(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	slices.Sort(addresses)
	fmt.Fprintln(w, strings.Join(addresses, " "))
}

// upload answers with the hash and length of what it was sent.
func upload(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.Copy(hash, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %d\n", hex.EncodeToString(hash.Sum(nil)), n)
}

// bigAnswer sends ?bytes=N bytes that a test can make too, and their hash as a header.
func bigAnswer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64)
	if err != nil || n < 0 || n > 1<<30 {
		http.Error(w, "bytes must be 0 to 1073741824", http.StatusBadRequest)
		return
	}
	hash := sha256.New()
	_, _ = io.CopyN(hash, rand.New(rand.NewSource(n)), n)
	w.Header().Set("X-Sha256", hex.EncodeToString(hash.Sum(nil)))
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	_, _ = io.CopyN(w, rand.New(rand.NewSource(n)), n)
}

// slow answers ?after=DURATION later.
func slow(w http.ResponseWriter, r *http.Request) {
	after, err := time.ParseDuration(r.URL.Query().Get("after"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(after):
		fmt.Fprintln(w, "slow")
	case <-r.Context().Done():
	}
}

// events sends ?count=N server-sent events, one ?every=DURATION.
func events(w http.ResponseWriter, r *http.Request) {
	every, err := time.ParseDuration(r.URL.Query().Get("every"))
	count, err2 := strconv.Atoi(r.URL.Query().Get("count"))
	if err != nil || err2 != nil {
		http.Error(w, "every and count are needed", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flusher, _ := w.(http.Flusher)
	for i := range count {
		fmt.Fprintf(w, "data: %d\n\n", i)
		flusher.Flush()
		select {
		case <-time.After(every):
		case <-r.Context().Done():
			return
		}
	}
}

// page answers with ?html=HTML that was last changed a year ago, and with
// ?cache=WORDS as its Cache-Control if there are any.
func page(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Last-Modified", time.Now().AddDate(-1, 0, 0).UTC().Format(http.TimeFormat))
	if words := query.Get("cache"); words != "" {
		w.Header().Set("Cache-Control", words)
	}
	fmt.Fprint(w, query.Get("html"))
}
