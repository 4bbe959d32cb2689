package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

func TestInOrderStopsLastComponentFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ended []int
	started := make(chan int, 3)
	part := func(n int) clusterPart {
		return clusterPart{run: func(ctx context.Context) error {
			started <- n
			<-ctx.Done()
			ended = append(ended, n) // one after the other, as the test asserts
			return ctx.Err()
		}}
	}
	done := make(chan error)
	go func() { done <- inOrder(ctx, discardLog(), part(1), part(2), part(3)) }()
	for range 3 {
		<-started
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
	if want := []int{3, 2, 1}; !slices.Equal(ended, want) {
		t.Errorf("ended %v, want %v", ended, want)
	}
}

func TestInOrderStopsAllWhenOneFails(t *testing.T) {
	broken := errors.New("broken")
	err := inOrder(t.Context(), discardLog(),
		clusterPart{run: func(ctx context.Context) error { <-ctx.Done(); return nil }},
		clusterPart{run: func(context.Context) error { return broken }},
	)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func discardLog() logrus.FieldLogger {
	log, _ := test.NewNullLogger()
	return log
}

// A component that does not end is named in the log and in the error, and does not keep the others from stopping. One that
// ends itself may take longer.
func TestInOrderDoesNotWaitForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log, logged := test.NewNullLogger()
		release, stopped := make(chan struct{}), false
		done := make(chan error)
		go func() {
			done <- inOrder(ctx, log,
				clusterPart{name: "the base", run: func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil }},
				clusterPart{name: "the slow one", endsItself: true, run: func(ctx context.Context) error { <-ctx.Done(); time.Sleep(2 * stopTimeout); return nil }},
				clusterPart{name: "the stuck one", run: func(context.Context) error { <-release; return nil }})
		}()
		synctest.Wait()
		cancel()
		began := time.Now()
		err := <-done
		if err == nil || err.Error() != "the stuck one did not end within 25s" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 3*stopTimeout || !stopped {
			t.Errorf("took %s, the base stopped: %t", took, stopped)
		}
		var warnings []string
		for _, e := range logged.AllEntries() {
			warnings = append(warnings, e.Message)
		}
		if want := []string{"stopping: waiting for the stuck one to end", "stopping: waiting for the slow one to end"}; !slices.Equal(warnings, want) {
			t.Errorf("logged %q, want %q", warnings, want)
		}
		close(release)
	})
}

func TestNextAddress(t *testing.T) {
	for _, c := range []struct {
		addr string
		n    int
		want string
	}{{"127.0.0.1:5051", 0, "127.0.0.1:5051"}, {"127.0.0.1:5051", 2, "127.0.0.3:5051"}, {"127.0.0.255:0", 1, "127.0.1.0:0"}, {":5051", 0, ":5051"}} {
		if got, err := nextAddress(c.addr, c.n); got != c.want || err != nil {
			t.Errorf("%d after %s: %q, %v", c.n, c.addr, got, err)
		}
	}
	for _, addr := range []string{":5051", "10.0.0.1:5051", "localhost:5051", "[::1]:5051"} {
		if got, err := nextAddress(addr, 1); err == nil {
			t.Errorf("1 after %s: %q", addr, got)
		}
	}
}
