package main

import (
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// serveReadiness answers 200 on /ready once the app may be called Ready.
func serveReadiness(o options, started time.Time) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if o.neverReady || time.Since(started) < o.readyAfter {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(o.ready, mux))
}

// countingListener counts the connections that reached the app.
type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}
