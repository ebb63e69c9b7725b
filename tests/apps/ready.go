package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// readiness says when the app may be called Ready.
type readiness struct {
	// never is for good.
	never bool
	// from is the earliest moment.
	from time.Time

	mu sync.Mutex
	// refusals is how many more probes are refused.
	refusals int
	// refused is when the last probe was.
	refused time.Time
}

func newReadiness(o options, started time.Time) *readiness {
	host, _ := os.Hostname()
	return &readiness{
		never:    o.neverReady || !strings.HasSuffix(host, o.readyHost),
		from:     started.Add(o.readyAfter),
		refusals: o.refuseProbes,
	}
}

// probe answers one probe.
func (r *readiness) probe() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.never || now.Before(r.from) || r.refusals > 0 {
		r.refusals = max(r.refusals-1, 0)
		r.refused = now
		return false
	}
	return true
}

// sinceRefused is how long ago the last refused probe was: from then on the app
// has been able to serve, as far as its probe can tell.
func (r *readiness) sinceRefused() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.refused)
}

// serve answers 200 on /ready once the app may be called Ready.
func (r *readiness) serve(address string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if !r.probe() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(address, mux))
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
