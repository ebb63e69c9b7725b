package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// serveReadiness answers 200 on /ready once the app may be called Ready.
func serveReadiness(o options, started time.Time) {
	host, _ := os.Hostname()
	never := o.neverReady || !strings.HasSuffix(host, o.readyHost)
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if never || time.Since(started) < o.readyAfter {
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
