package clusterview

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
)

// TestConcurrentRequestsShareOneListing: whoever comes while the master is asked shares the
// next answer, which is younger than each of their requests.
func TestConcurrentRequestsShareOneListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		asked := 0
		list := func(context.Context) ([]master.ListedAgent, error) {
			asked++ // nobody else is here, or the race detector says so
			agents := []master.ListedAgent{{Hostname: time.Now().String(), GPUs: asked}}
			time.Sleep(time.Second)
			return agents, nil
		}
		var people sync.WaitGroup
		for i := range 100 {
			people.Go(func() {
				time.Sleep(time.Duration(i) * 15 * time.Millisecond) // within 1.5 s
				came := time.Now()
				agents, err := s.listAgents(context.Background(), list)
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(came); took > 2*time.Second {
					t.Errorf("after %d ms one waited %s, longer than two questions take", 15*i, took)
				}
				if early := 1 + (15*i+999)/1000; agents[0].GPUs < early {
					t.Errorf("after %d ms one got answer %d, which was asked before", 15*i, agents[0].GPUs)
				}
			})
		}
		people.Wait()
		if asked != 3 {
			t.Errorf("the master was asked %d times, want 3: at 0, 1 and 2 s", asked)
		}
	})
}

// TestListingSurvivesCancelledRequester: the others ask again; one that goes away waits for
// nobody.
func TestListingSurvivesCancelledRequester(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		hangs := func(ctx context.Context) ([]master.ListedAgent, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var people sync.WaitGroup
		people.Go(func() { // the first, who asks
			if _, err := s.listAgents(ctx, hangs); !errors.Is(err, context.Canceled) {
				t.Errorf("the first got %v", err)
			}
		})
		synctest.Wait()
		second, end := context.WithCancel(context.Background())
		people.Go(func() { // who would ask next, and goes
			if _, err := s.listAgents(second, hangs); !errors.Is(err, context.Canceled) {
				t.Errorf("the second got %v", err)
			}
		})
		synctest.Wait()
		people.Go(func() { // who shares the second's, and stays
			agents, err := s.listAgents(context.Background(), func(context.Context) ([]master.ListedAgent, error) { return make([]master.ListedAgent, 3), nil })
			if len(agents) != 3 || err != nil {
				t.Errorf("the third got %d agents, %v", len(agents), err)
			}
		})
		third, leave := context.WithCancel(context.Background())
		people.Go(func() {
			if _, err := s.listAgents(third, hangs); !errors.Is(err, context.Canceled) {
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

// TestLaterPagesReuseListing: who goes on in a list has the answer of a moment ago; who
// begins one never has, nor anybody an old one or an error.
func TestLaterPagesReuseListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s AgentLister
		asked, fault := 0, error(nil)
		list := func(context.Context) ([]master.ListedAgent, error) {
			asked++
			return []master.ListedAgent{{GPUs: asked}}, fault
		}
		first, later := t.Context(), api.WithContinuation(t.Context())
		for i, step := range []struct {
			ctx  context.Context
			wait time.Duration
			err  error
			want int
		}{
			{later, 0, nil, 1}, // of a scheduler that has just begun
			{later, listingLifetime, nil, 1},
			{later, time.Millisecond, nil, 2},
			{first, 0, nil, 3},
			{later, 0, nil, 3},
			{first, 0, errors.New("no master"), 4},
			{later, 0, nil, 3}, // what was there before the error
			{later, 2 * listingLifetime, nil, 5},
		} {
			time.Sleep(step.wait)
			fault = step.err
			agents, err := s.listAgents(step.ctx, list)
			if !errors.Is(err, step.err) || err == nil && agents[0].GPUs != step.want {
				t.Errorf("step %d: got %+v, %v, want answer %d", i, agents, err, step.want)
			}
		}
	})
}
