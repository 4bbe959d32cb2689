package master

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
)

// logLines passes each message of a log and its error to a channel.
type logLines chan string

func (logLines) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

func (l logLines) Fire(e *logrus.Entry) error {
	text := e.Message
	if err, ok := e.Data[logrus.ErrorKey].(error); ok {
		text += ": " + err.Error()
	}
	l <- text
	return nil
}

func maintainWeights(t *testing.T, c *Client, mayAct func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.MaintainWeights(ctx, mayAct) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWeightsAreSetInMaster: the weights that differ are set, at the leading master. A role without a weight in Mesos has 1, and
// roles that are not named keep theirs.
func TestWeightsAreSetInMaster(t *testing.T) {
	changes := make(chan map[string]float64, 10)
	old, leader := mesostest.NewMaster(t), mesostest.NewMaster(t)
	leader.OnWeights = func(changed map[string]float64) { changes <- changed }
	r := startClient(t, ConnectionConfig{Master: old.URL()})
	nextEvent[sched.Subscribed](t, r)
	old.Demote(leader.URL())
	maintainWeights(t, r.Client, func() bool { return true })
	for _, test := range []struct{ weights, changes map[string]float64 }{
		{map[string]float64{"gold": 3, "bronze": 1}, map[string]float64{"gold": 3}},
		{map[string]float64{"theirs": 9}, map[string]float64{"theirs": 9}},
		{map[string]float64{"gold": 1, "bronze": 2}, map[string]float64{"gold": 1, "bronze": 2}},
	} {
		r.SetWeights(test.weights)
		if diff := cmp.Diff(test.changes, <-changes); diff != "" {
			t.Errorf("changes for %v (-want +got):\n%s", test.weights, diff)
		}
	}
	present, err := r.ListWeights(t.Context(), slices.Values([]string{"bronze", "theirs", "unlisted"}))
	if diff := cmp.Diff(map[string]float64{"bronze": 2, "theirs": 9, "unlisted": 1}, present); err != nil || diff != "" {
		t.Errorf("weights of the master: %v (-want +got):\n%s", err, diff)
	}
}

// TestRefusedWeightsAreLogged: a scheduler that may not set weights, or whose master has none, logs which weights are missing and
// what permits them.
func TestRefusedWeightsAreLogged(t *testing.T) {
	for name, test := range map[string]struct {
		refused mastermsg.Call_Type
		status  int
		want    []string
	}{
		"not permitted": {mastermsg.Call_UPDATE_WEIGHTS, http.StatusForbidden,
			[]string{"set the weights gold=3 in master http", "403 Forbidden", `principal "scheduler" may not do that: see its --acls`}},
		"unknown to the master": {mastermsg.Call_GET_WEIGHTS, http.StatusNotImplemented,
			[]string{"list the weights of master http", "501 Not Implemented"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mesostest.NewMaster(t, mesostest.WithAuth("scheduler", "secret"))
			m.RefuseWeights, m.RefuseText = map[mastermsg.Call_Type]int{test.refused: test.status}, "no"
			log, lines := logrus.New(), make(logLines, 100)
			log.SetOutput(io.Discard)
			log.AddHook(lines)
			r := startClient(t, ConnectionConfig{Master: m.URL(), Credential: Credential{Principal: "scheduler", Secret: "secret"}, Log: log})
			nextEvent[sched.Subscribed](t, r)
			maintainWeights(t, r.Client, func() bool { return true })
			r.SetWeights(map[string]float64{"gold": 3})
			line := <-lines
			for _, want := range test.want {
				if !strings.Contains(line, want) {
					t.Errorf("logged %q, want %q", line, want)
				}
			}
		})
	}
}

// TestFailedWeightsAreRetried: weights are set when the scheduler may act and the master answers again.
func TestFailedWeightsAreRetried(t *testing.T) {
	changes := make(chan map[string]float64, 1)
	m := mesostest.NewMaster(t)
	m.OnWeights = func(changed map[string]float64) { changes <- changed }
	attempts := 0
	r := startClient(t, ConnectionConfig{Master: m.URL(), listInterval: time.Millisecond})
	maintainWeights(t, r.Client, func() bool { attempts++; return attempts == 3 })
	r.SetWeights(map[string]float64{"gold": 3})
	<-changes
	if attempts != 3 {
		t.Errorf("set in attempt %d, want 3", attempts)
	}
}
