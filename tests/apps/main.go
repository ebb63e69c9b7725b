// Command app is what the tests pause and wake: small real servers that show
// what reached them.
//
// -mode http, tls, grpc, ws or tcp. Every mode can listen late (-listen-after),
// be Ready late (-ready-after, -refuse-probes) and serve on after SIGTERM
// (-serve-on). With -get it serves nothing, and asks for a URL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are the flags, as one value.
type options struct {
	mode        string
	listen      string
	ready       string
	listenAfter time.Duration
	readyAfter  time.Duration
	serveOn     time.Duration
	greet       string
	neverReady  bool
	readyHost   string
	// refuseProbes is how many probes are refused, whenever they come.
	refuseProbes int
	get          string
}

func parse() options {
	var o options
	flag.StringVar(&o.mode, "mode", "http", "http, tls, grpc, ws or tcp")
	flag.StringVar(&o.listen, "listen", ":8080", "address to serve on")
	flag.StringVar(&o.ready, "ready", ":8081", "address of the readiness endpoint, empty for none")
	flag.DurationVar(&o.listenAfter, "listen-after", 0, "how long to wait before listening")
	flag.DurationVar(&o.readyAfter, "ready-after", 0, "how long the readiness endpoint fails")
	flag.DurationVar(&o.serveOn, "serve-on", 0, "how long to serve on after SIGTERM")
	flag.StringVar(&o.greet, "greet", "", "tcp: what to send before reading")
	flag.BoolVar(&o.neverReady, "never-ready", false, "the readiness endpoint always fails")
	flag.StringVar(&o.readyHost, "ready-host", "", "only a host whose name ends so gets Ready")
	flag.IntVar(&o.refuseProbes, "refuse-probes", 0, "how many probes the readiness endpoint refuses")
	flag.StringVar(&o.get, "get", "", "ask for this URL, and serve nothing")
	flag.Parse()
	return o
}

func main() {
	o := parse()
	if o.get != "" {
		if err := get(o.get); err != nil {
			log.Fatal(err)
		}
		return
	}
	serve, ok := modes[o.mode]
	if !ok {
		fmt.Fprintf(os.Stderr, "unknown mode %q\n", o.mode)
		os.Exit(2)
	}
	started := time.Now()
	ready := newReadiness(o, started)
	if o.ready != "" {
		go ready.serve(o.ready)
	}
	time.Sleep(o.listenAfter)
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s on %s after %s", o.mode, listener.Addr(), time.Since(started).Round(time.Millisecond))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		<-ctx.Done()
		time.Sleep(o.serveOn)
		os.Exit(0)
	}()
	counted := &countingListener{Listener: listener}
	if err := serve(counted, o, ready); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Fatal(err)
	}
}

var modes = map[string]func(*countingListener, options, *readiness) error{
	"http": serveHTTP,
	"tls":  serveTLS,
	"grpc": serveGRPC,
	"ws":   serveWebSocket,
	"tcp":  serveTCP,
}
