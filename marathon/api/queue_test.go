package api

import (
	"net/http"
	"slices"
	"testing"
	"time"
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
