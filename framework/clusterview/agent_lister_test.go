package clusterview

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/master"
)

// TestConcurrentRequestsShareOneListing: clients that arrive during a request share the
// next result, which is newer than each of their requests.
func TestConcurrentRequestsShareOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		asked := 0
		list := func(context.Context) ([]master.ListedAgent, error) {
			asked++ // not concurrent, or the race detector reports it
			agents := []master.ListedAgent{{Hostname: time.Now().String(), GPUs: asked}}
			time.Sleep(time.Second)
			return agents, nil
		}
		var people sync.WaitGroup
		for i := range 100 {
			people.Go(func() {
				time.Sleep(time.Duration(i) * 15 * time.Millisecond) // within 1.5 s
				came := time.Now()
				agents, err := s.listAgents(context.Background(), false, list)
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(came); took > 2*time.Second {
					t.Errorf("after %d ms one waited %s, longer than two questions take", 15*i, took)
				}
				if early := 1 + (15*i+999)/1000; agents[0].GPUs < early {
					t.Errorf("after %d ms a client got result %d, which was requested before the client's request", 15*i, agents[0].GPUs)
				}
			})
		}
		people.Wait()
		if asked != 3 {
			t.Errorf("%d requests to the master, want 3: at 0, 1 and 2 s", asked)
		}
	})
}

// TestListingSurvivesCancelledRequest: the remaining clients retry, and a client that
// disconnects does not wait.
func TestListingSurvivesCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		hangs := func(ctx context.Context) ([]master.ListedAgent, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var people sync.WaitGroup
		people.Go(func() { // the first client, which runs the request
			if _, err := s.listAgents(ctx, false, hangs); !errors.Is(err, context.Canceled) {
				t.Errorf("the first got %v", err)
			}
		})
		synctest.Wait()
		second, end := context.WithCancel(context.Background())
		people.Go(func() { // would run the next request, but disconnects
			if _, err := s.listAgents(second, false, hangs); !errors.Is(err, context.Canceled) {
				t.Errorf("the second got %v", err)
			}
		})
		synctest.Wait()
		people.Go(func() { // shares the second client's request and stays
			agents, err := s.listAgents(context.Background(), false, func(context.Context) ([]master.ListedAgent, error) { return make([]master.ListedAgent, 3), nil })
			if len(agents) != 3 || err != nil {
				t.Errorf("the third got %d agents, %v", len(agents), err)
			}
		})
		third, leave := context.WithCancel(context.Background())
		people.Go(func() {
			if _, err := s.listAgents(third, false, hangs); !errors.Is(err, context.Canceled) {
				t.Errorf("the fourth got %v", err)
			}
		})
		synctest.Wait()
		leave()
		end()
		cancel()
		people.Wait()
	})
}

// TestLaterPagesReuseListing: later pages of a list use a recent result; a first page never
// does, and neither uses an old result or an error.
func TestLaterPagesReuseListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		asked, fault := 0, error(nil)
		list := func(context.Context) ([]master.ListedAgent, error) {
			asked++
			return []master.ListedAgent{{GPUs: asked}}, fault
		}
		const first, later = false, true
		for i, step := range []struct {
			page bool
			wait time.Duration
			err  error
			want int
		}{
			{later, 0, nil, 1}, // the scheduler has just started
			{later, listingLifetime, nil, 1},
			{later, time.Millisecond, nil, 2},
			{first, 0, nil, 3},
			{later, 0, nil, 3},
			{first, 0, errors.New("no master"), 4},
			{later, 0, nil, 3}, // the result before the error
			{later, 2 * listingLifetime, nil, 5},
		} {
			time.Sleep(step.wait)
			fault = step.err
			agents, err := s.listAgents(t.Context(), step.page, list)
			if !errors.Is(err, step.err) || err == nil && agents[0].GPUs != step.want {
				t.Errorf("step %d: got %+v, %v, want answer %d", i, agents, err, step.want)
			}
		}
	})
}
