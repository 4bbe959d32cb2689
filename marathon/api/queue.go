package api

import (
	"math"
	"net/http"
	"slices"
	"time"
)

// queue answers below /v2/queue.
func (s *server) queue(rest string) methods {
	p := queuePlace(rest)
	switch {
	case p.part == "delay":
		return methods{http.MethodDelete: func(w http.ResponseWriter, r *http.Request) error { return s.resetDelay(w, r, p.id) }}
	case p.id == "/":
		return methods{http.MethodGet: s.listQueue}
	}
	return nil
}

func (s *server) listQueue(w http.ResponseWriter, r *http.Request) error {
	queued, err := s.service.Queue(r.Context())
	if err != nil {
		return err
	}
	var unused *[]struct{}
	if slices.Contains(r.URL.Query()["embed"], "lastUnusedOffers") {
		unused = &[]struct{}{}
	}
	items := []queueItem{}
	for _, q := range queued {
		items = append(items, queueItem{
			Count: q.Count, Role: q.App.Role, Delay: delay(q.NotBefore, s.now()),
			Since: Time{q.Since}, LastUnusedOffers: unused, App: q.App, Message: q.Message,
		})
	}
	s.answer(w, http.StatusOK, map[string][]queueItem{"queue": items})
	return nil
}

func delay(notBefore, now time.Time) queueDelay {
	left := max(0, notBefore.Sub(now))
	return queueDelay{TimeLeftSeconds: int(math.Ceil(left.Seconds())), Overdue: left == 0}
}

func (s *server) resetDelay(w http.ResponseWriter, r *http.Request, id string) error {
	if err := s.service.ResetDelay(r.Context(), id); err != nil {
		return orNotFound(err, "Application %s not found in tasks queue.", id)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
