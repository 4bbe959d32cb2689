// Command webapp is a small web service that shuts down gracefully. Tests run it
// as the instance of an app. It controls only how long it stays up after SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	// work is the duration of a response, so that requests are in flight when an instance
	// receives SIGTERM.
	work = 20 * time.Millisecond
	// drainTime is how long an instance still accepts requests after SIGTERM. Clients may
	// learn of its end seconds later on a slow machine.
	drainTime = 3 * time.Second
)

func main() { os.Exit(run()) }

func run() int {
	if err := serveRelease(os.Getenv("HOST")+":"+os.Getenv("PORT0"), os.Getenv("RELEASE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// serveRelease serves the release until SIGTERM and then shuts down like a service behind a
// load balancer: it keeps serving for drainTime, closes the port, and returns when the last
// response is sent.
func serveRelease(addr, release string) error {
	terminated, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(work):
			fmt.Fprint(w, release)
		case <-r.Context().Done():
		}
	})
	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() {
		<-terminated.Done()
		time.Sleep(drainTime)
		ended <- server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", addr, err)
	}
	return <-ended
}
