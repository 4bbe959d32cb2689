package api

import (
	"math"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/job"
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
			Processed: summarizeOffers(q.Exclusions),
		})
	}
	s.writeJSON(w, http.StatusOK, map[string][]queueItem{"queue": items})
	return nil
}

// rejectReasons are Marathon's names of the causes.
func rejectReasons() map[job.ExclusionCause]string {
	return map[job.ExclusionCause]string{
		job.ExcludedByRole: "UnfulfilledRole", job.ExcludedByConstraint: "UnfulfilledConstraint", job.ExcludedByMaintenance: "AgentMaintenance",
		job.ExcludedForScarceGPUs: "DeclinedScarceResources", job.ExcludedByCPUs: "InsufficientCpus", job.ExcludedByMemory: "InsufficientMemory",
		job.ExcludedByDisk: "InsufficientDisk", job.ExcludedByGPUs: "InsufficientGpus", job.ExcludedByPorts: "InsufficientPorts",
	}
}

func summarizeOffers(counts []job.ExclusionCount) (s offersSummary) {
	if len(counts) == 0 {
		return s
	}
	unused, names := 0, rejectReasons()
	for _, c := range counts {
		unused += c.Excluded
		s.LastOffers = append(s.LastOffers, rejectSummary{Reason: names[c.Cause], Declined: c.Excluded, Processed: c.Agents})
	}
	s.Processed, s.Unused = &counts[0].Agents, &unused
	return s
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
