package api

import (
	"errors"
	"net/http"

	"mesos-gpu/marathon/deploy"
)

// deployments answers below /v2/deployments.
func (s *server) deployments(rest string) methods {
	switch below := parts(rest); len(below) {
	case 0:
		return methods{http.MethodGet: s.listDeployments}
	case 1:
		return methods{http.MethodDelete: func(w http.ResponseWriter, r *http.Request) error { return s.cancel(w, r, below[0]) }}
	}
	return nil
}

// deployment is one under way.
type deployment struct {
	ID             string            `json:"id"`
	Version        string            `json:"version"`
	AffectedApps   []string          `json:"affectedApps"`
	AffectedPods   []string          `json:"affectedPods"`
	Steps          []deploy.PlanStep `json:"steps"`
	CurrentActions []currentAction   `json:"currentActions"`
	CurrentStep    int               `json:"currentStep"`
	TotalSteps     int               `json:"totalSteps"`
}

type currentAction struct {
	deploy.PlanAction
	Readiness []Readiness `json:"readinessCheckResults"`
	// Message says what keeps the action from being done; Marathon has none.
	Message string `json:"message,omitempty"`
}

func (s *server) listDeployments(w http.ResponseWriter, r *http.Request) error {
	all, err := s.service.Deployments(r.Context())
	if err != nil {
		return err
	}
	list := []deployment{}
	for i := range all {
		one, err := s.underWay(r, &all[i])
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	s.answer(w, http.StatusOK, list)
	return nil
}

func (s *server) underWay(r *http.Request, d *deploy.Deployment) (deployment, error) {
	one := deployment{
		ID: d.ID, Version: d.Version,
		AffectedApps: some(d.Affected()), AffectedPods: []string{},
		Steps: some(d.Steps), CurrentActions: []currentAction{},
		CurrentStep: d.Current, TotalSteps: len(d.Steps),
	}
	for _, action := range d.Step().Actions {
		readiness := []Readiness{}
		a, err := s.service.App(r.Context(), action.App)
		var unknown *deploy.Unknown
		switch {
		case err == nil:
			readiness = some(a.Readiness)
		case !errors.As(err, &unknown): // of an app that goes there is nothing to say
			return deployment{}, err
		}
		one.CurrentActions = append(one.CurrentActions, currentAction{action, readiness, a.Message})
	}
	return one, nil
}

func (s *server) cancel(w http.ResponseWriter, r *http.Request, id string) error {
	force, err := whether(r.URL.Query(), "force", false)
	if err != nil {
		return err
	}
	d, err := s.service.Cancel(r.Context(), id, force)
	if err != nil {
		return orNotFound(err, "DeploymentPlan %s does not exist", id)
	}
	if force {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	s.deployed(w, http.StatusOK, d)
	return nil
}
