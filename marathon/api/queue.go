package api

import (
	"math"
	"net/http"
	"slices"
	"time"
)

// routeQueue returns the handlers below /v2/queue.
func (s *apiServer) routeQueue(rest string) methodHandlers {
	p := parseQueuePath(rest)
	switch {
	case p.part == "delay":
		return methodHandlers{http.MethodDelete: func(w http.ResponseWriter, r *http.Request) error { return s.resetDelay(w, r, p.id) }}
	case p.id == "/":
		return methodHandlers{http.MethodGet: s.listQueue}
	}
	return nil
}

func (s *apiServer) listQueue(w http.ResponseWriter, r *http.Request) error {
	queued, err := s.service.ListQueue(r.Context())
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
			Count: q.Count, Role: q.App.Role, Delay: remainingDelay(q.NotBefore, s.now()),
			Since: Time{q.Since}, LastUnusedOffers: unused, App: q.App, Message: q.Message,
		})
	}
	s.writeJSON(w, http.StatusOK, map[string][]queueItem{"queue": items})
	return nil
}

func remainingDelay(notBefore, now time.Time) queueDelay {
	left := max(0, notBefore.Sub(now))
	return queueDelay{TimeLeftSeconds: int(math.Ceil(left.Seconds())), Overdue: left == 0}
}

func (s *apiServer) resetDelay(w http.ResponseWriter, r *http.Request, id string) error {
	if err := s.service.ResetDelay(r.Context(), id); err != nil {
		return orNotFound(err, "Application %s not found in tasks queue.", id)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
