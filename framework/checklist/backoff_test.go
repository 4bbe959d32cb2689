//go:build !mesos

package checklist

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	embedded "mesos-gpu/internal/local/master"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/internal/testing/inmemory"
)

// runInBubble runs the scheduler's master client under a fake clock against an embedded master.
// prepare may inject faults first.
func runInBubble(t *testing.T, prepare func(*testEnv), test func(*testEnv, *master.Client)) {
	synctest.Test(t, func(t *testing.T) {
		m := embedded.New(embedded.MasterConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = m.Run(ctx) })
		w := &testEnv{t: t, Proxy: faultproxy.New(m.Handler())}
		c, err := master.New(master.ConnectionConfig{
			Master: "http://master:5050", Name: "checklist", User: "root", Roles: []string{"*"}, ExecutorPath: "/usr/bin/mesos-gpu",
			Log: newLogger(t, "client"), Transport: inmemory.HandlerTransport{Handler: w.Proxy},
		})
		if err != nil {
			t.Fatal(err)
		}
		prepare(w)
		parts.Go(func() { _ = c.Run(ctx, func(sched.Event) {}) })
		test(w, c)
		cancel()
		w.CutStream()
		parts.Wait()
		c.Close()
	})
}

func TestMesos06_BackoffAndCallTimeoutAreBounded(t *testing.T) {
	t.Run("backoff", func(t *testing.T) {
		overloaded := func(w *testEnv) {
			w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_SUBSCRIBE), faultproxy.AnswerOverloaded())
		}
		runInBubble(t, overloaded, func(w *testEnv, _ *master.Client) {
			time.Sleep(time.Hour) // of the fake clock
			calls := w.listCalls(scheduler.Call_SUBSCRIBE, nil)
			if n := len(calls); n < 3600/15 || n > 3600/15*3 {
				t.Fatalf("%d attempts within an hour, want about one each 15 s", n)
			}
			var longest time.Duration
			for n := 1; n < len(calls); n++ {
				gap := calls[n].At.Sub(calls[n-1].At)
				longest = max(longest, gap)
				if gap > 16*time.Second {
					t.Errorf("attempt %d came %s after the one before", n+1, gap)
				}
			}
			first := calls[1].At.Sub(calls[0].At)
			if first > 2*time.Second || longest < 4*first {
				t.Errorf("the first backoff is %s, the longest %s: want growth", first, longest)
			}
			w.ClearFaults()
			w.awaitEvent(1, scheduler.Event_SUBSCRIBED, nil)
		})
	})
	t.Run("call", func(t *testing.T) {
		runInBubble(t, func(*testEnv) {}, func(w *testEnv, c *master.Client) {
			w.awaitEvent(1, scheduler.Event_SUBSCRIBED, nil)
			w.InjectFault(1, faultproxy.MatchType(scheduler.Call_REVIVE), faultproxy.NeverAnswer)
			synctest.Wait() // until the client has processed SUBSCRIBED
			c.PostOperation(sched.ReviveOffers{})
			hung := w.awaitCall(1, scheduler.Call_REVIVE, nil)
			time.Sleep(95 * time.Second)
			after := w.Calls()
			last := after[len(after)-1]
			if gap := last.At.Sub(hung.At); gap <= 0 || gap > 91*time.Second {
				t.Errorf("the next call came %s after an unanswered one, want at most 75 s plus the backoff", gap)
			}
		})
	})
}
