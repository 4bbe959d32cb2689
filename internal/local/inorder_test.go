package local

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestInOrderStopsLastComponentFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ended []int
	started := make(chan int, 3)
	part := func(n int) func(context.Context) error {
		return func(ctx context.Context) error {
			started <- n
			<-ctx.Done()
			ended = append(ended, n) // one after the other, as the test asserts
			return ctx.Err()
		}
	}
	done := make(chan error)
	go func() { done <- inOrder(ctx, part(1), part(2), part(3)) }()
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
	err := inOrder(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); return nil },
		func(context.Context) error { return broken },
	)
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
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
