package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
)

// An agent whose background work does not end stops after the margin, and its log says what it left.
func TestAgentStopsDespiteStuckWork(t *testing.T) {
	log, logged := test.NewNullLogger()
	r := newRig(t, false, func(c *AgentConfig) { c.Log, c.stopMargin = log, 100*time.Millisecond })
	release, begun := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	r.agent.loop.post(func() {
		r.agent.runInBackground(func(context.Context) func() {
			close(begun)
			<-release
			return func() {}
		})
	})
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the agent waits for its work without a bound")
	}
	last := logged.LastEntry()
	if last == nil || last.Level != logrus.ErrorLevel || !strings.Contains(last.Message, "work in progress") || last.Data["background"] != 1 {
		t.Errorf("last log entry is %+v", last)
	}
}
