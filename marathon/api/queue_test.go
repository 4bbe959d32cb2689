package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

func TestDelayIsReset(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[time.Duration]queueDelay{
		-time.Minute:            {0, true},
		0:                       {0, true},
		time.Millisecond:        {1, false},
		1500 * time.Millisecond: {2, false},
		time.Minute:             {60, false},
	} {
		if got := remainingDelay(now.Add(in), now); got != want {
			t.Errorf("%s ahead: got %+v, want %+v", in, got, want)
		}
	}
	if got := remainingDelay(time.Time{}, now); got != (queueDelay{0, true}) {
		t.Errorf("without a pause: got %+v, want none", got)
	}
}

func TestResetDelay(t *testing.T) {
	a := newEventServer(t)
	w := a.send(http.MethodDelete, "/v2/queue/shop/db/delay", "", http.StatusNoContent)
	if want := []string{"/shop/db"}; !slices.Equal(a.reset, want) || w.Body.Len() > 0 {
		t.Errorf("got the pauses of %v reset and the answer %q, want %v and none", a.reset, w.Body, want)
	}
}

// TestOffersSummary checks the counts of agents in Marathon's form, and that there are none for an app that waits for
// something else. Each cause has a name.
func TestOffersSummary(t *testing.T) {
	for want, counts := range map[string][]job.ExclusionCount{
		`{}`: nil,
		`{"processedOffersCount":4,"unusedOffersCount":3,"rejectSummaryLastOffers":[` +
			`{"reason":"UnfulfilledRole","declined":1,"processed":4},{"reason":"InsufficientGpus","declined":2,"processed":3}]}`: {
			{Cause: job.ExcludedByRole, Agents: 4, Excluded: 1}, {Cause: job.ExcludedByGPUs, Agents: 3, Excluded: 2},
		},
		`{"processedOffersCount":0,"unusedOffersCount":0,"rejectSummaryLastOffers":[{"reason":"UnfulfilledRole","declined":0,"processed":0}]}`: {{}},
	} {
		got, err := json.Marshal(summarizeOffers(counts))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if names := rejectReasons(); len(names) != int(job.ExcludedByPorts)+1 {
		t.Errorf("%d causes have names, want %d", len(names), job.ExcludedByPorts+1)
	}
}
