package api

import (
	"errors"
	"net/http"

	"mesos-gpu/marathon/deploy"
)

// routeDeployments returns the handlers below /v2/deployments.
func (s *apiServer) routeDeployments(rest string) methodHandlers {
	switch below := splitSegments(rest); len(below) {
	case 0:
		return methodHandlers{http.MethodGet: s.listDeployments}
	case 1:
		return methodHandlers{http.MethodDelete: func(w http.ResponseWriter, r *http.Request) error { return s.cancelDeployment(w, r, below[0]) }}
	}
	return nil
}

// deploymentStatus is a current deployment in an answer.
type deploymentStatus struct {
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
	Readiness []ReadinessResult `json:"readinessCheckResults"`
}

func (s *apiServer) listDeployments(w http.ResponseWriter, r *http.Request) error {
	all, err := s.service.ListDeployments(r.Context())
	if err != nil {
		return err
	}
	list := []deploymentStatus{}
	for i := range all {
		one, err := s.describeDeployment(r, &all[i])
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	s.writeJSON(w, http.StatusOK, list)
	return nil
}

func (s *apiServer) describeDeployment(r *http.Request, d *deploy.Deployment) (deploymentStatus, error) {
	one := deploymentStatus{
		ID: d.ID, Version: d.Version,
		AffectedApps: emptyIfNil(d.AffectedApps()), AffectedPods: []string{},
		Steps: emptyIfNil(d.Steps), CurrentActions: []currentAction{},
		CurrentStep: d.Current, TotalSteps: len(d.Steps),
	}
	for _, action := range d.CurrentStep().Actions {
		readiness := []ReadinessResult{}
		a, err := s.service.GetApp(r.Context(), action.App)
		var unknown *deploy.NotFoundError
		switch {
		case err == nil:
			readiness = emptyIfNil(a.Readiness)
		case !errors.As(err, &unknown): // a removed app has no readiness
			return deploymentStatus{}, err
		}
		one.CurrentActions = append(one.CurrentActions, currentAction{action, readiness})
	}
	return one, nil
}

func (s *apiServer) cancelDeployment(w http.ResponseWriter, r *http.Request, id string) error {
	force, err := readBoolParam(r.URL.Query(), "force", false)
	if err != nil {
		return err
	}
	d, err := s.service.CancelDeployment(r.Context(), id, force)
	if err != nil {
		return orNotFound(err, "DeploymentPlan %s does not exist", id)
	}
	if force {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	s.answerDeployment(w, http.StatusOK, d)
	return nil
}
