package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// routeTasks returns the handlers below /v2/tasks.
func (s *apiServer) routeTasks(rest string) methodHandlers {
	switch below := splitSegments(rest); {
	case len(below) == 0:
		return methodHandlers{http.MethodGet: s.listTasks}
	case len(below) == 1 && below[0] == "delete":
		return methodHandlers{http.MethodPost: s.killTasks}
	}
	return nil
}

func (s *apiServer) listTasks(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var states []string
	for _, status := range append(q["status"], q["status[]"]...) {
		switch strings.ToLower(status) {
		case "running":
			states = append(states, runningState)
		case "staging":
			states = append(states, "TASK_STAGING")
		}
	}
	apps, err := s.service.ListApps(r.Context())
	if err != nil {
		return err
	}
	if wantsPlainText(r) {
		return s.writeEndpoints(w, apps)
	}
	s.answerTasks(w, selectTasks(apps, func(t AppTask) bool { return len(states) == 0 || slices.Contains(states, t.State) }))
	return nil
}

func (s *apiServer) answerTasks(w http.ResponseWriter, tasks []AppTask) {
	s.writeJSON(w, http.StatusOK, map[string][]AppTask{"tasks": tasks})
}

// selectTasks returns the tasks of the apps that are wanted.
func selectTasks(apps []AppStatus, wanted func(AppTask) bool) []AppTask {
	list := []AppTask{}
	for _, a := range apps {
		for _, t := range completeTasks(a) {
			if wanted(t) {
				list = append(list, t)
			}
		}
	}
	return list
}

func anyTask(AppTask) bool { return true }

// wantsPlainText reports whether the client accepts plain text and no JSON.
func wantsPlainText(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "text/plain") && !strings.Contains(accept, "json")
}

// writeEndpoints writes a line for each service port, for load balancers: the app, the port,
// and the addresses of running instances, separated by tabs.
func (s *apiServer) writeEndpoints(w http.ResponseWriter, apps []AppStatus) error {
	var text strings.Builder
	for _, a := range apps {
		name := strings.ReplaceAll(strings.TrimPrefix(a.App.ID, "/"), "/", "_")
		ports := servicePorts(a.App)
		for i, port := range ports {
			fmt.Fprintf(&text, "%s\t%d\t", name, port)
			for _, t := range a.Tasks {
				if t.State == runningState && i < len(t.Ports) {
					fmt.Fprintf(&text, "%s:%d\t", t.Host, t.Ports[i])
				}
			}
			text.WriteByte('\n')
		}
		if len(ports) > 0 {
			continue
		}
		fmt.Fprintf(&text, "%s\t \t", name)
		for _, t := range a.Tasks {
			if t.State == runningState {
				fmt.Fprintf(&text, "%s\t", t.Host)
			}
		}
		text.WriteByte('\n')
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text.String())) // fails only if the client has disconnected
	return nil
}

func (s *apiServer) listAppTasks(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	a, err := s.getApp(r, p.id)
	if err != nil {
		return err
	}
	if wantsPlainText(r) {
		return s.writeEndpoints(w, []AppStatus{a})
	}
	s.answerTasks(w, completeTasks(a))
	return nil
}

func (s *apiServer) listGroupTasks(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	wanted, err := s.selectGroupApps(r, p.id)
	if err != nil {
		return err
	}
	apps, err := s.service.ListApps(r.Context())
	if err != nil {
		return err
	}
	s.answerTasks(w, selectTasks(slices.DeleteFunc(apps, func(a AppStatus) bool { return !wanted(a.App) }), anyTask))
	return nil
}

// killOptions are the parameters of requests that kill tasks. wipe has no effect, because
// there are no persistent volumes.
type killOptions struct{ scale, wipe, force bool }

func readKillOptions(r *http.Request) (k killOptions, err error) {
	q := r.URL.Query()
	for name, v := range map[string]*bool{"scale": &k.scale, "wipe": &k.wipe, "force": &k.force} {
		if *v, err = readBoolParam(q, name, false); err != nil {
			return k, err
		}
	}
	if k.scale && k.wipe {
		return k, newProblem(http.StatusBadRequest, "You cannot use scale and wipe at the same time.")
	}
	return k, nil
}

func (s *apiServer) killAppTasks(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	host := r.URL.Query().Get("host")
	return s.killSelected(w, r, p.id, func(t AppTask) bool { return host == "" || host == "*" || t.Host == host }, s.answerTasks)
}

func (s *apiServer) killAppTask(w http.ResponseWriter, r *http.Request, p resourcePath) error {
	if _, err := readKillOptions(r); err != nil {
		return err
	}
	a, err := s.getApp(r, p.id)
	if err != nil {
		return err
	}
	this := func(t AppTask) bool { return t.ID == p.arg }
	if !slices.ContainsFunc(a.Tasks, this) {
		return notFound("Task '%s' does not exist", p.arg)
	}
	return s.killSelected(w, r, p.id, this, func(w http.ResponseWriter, tasks []AppTask) {
		s.writeJSON(w, http.StatusOK, map[string]AppTask{"task": tasks[0]})
	})
}

// killSelected ends the wanted tasks of an app and answers with them as they were.
func (s *apiServer) killSelected(
	w http.ResponseWriter, r *http.Request, app string, wanted func(AppTask) bool,
	killed func(http.ResponseWriter, []AppTask),
) error {
	k, err := readKillOptions(r)
	if err != nil {
		return err
	}
	a, err := s.getApp(r, app)
	if err != nil {
		return err
	}
	return s.killAndAnswer(w, r.Context(), selectTasks([]AppStatus{a}, wanted), k, killed)
}

func (s *apiServer) killAndAnswer(
	w http.ResponseWriter, ctx context.Context, tasks []AppTask, k killOptions,
	killed func(http.ResponseWriter, []AppTask),
) error {
	var ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	if k.scale {
		d, err := s.service.KillAndScale(ctx, ids, k.force)
		if err != nil {
			return err
		}
		s.answerDeployment(w, http.StatusOK, d)
		return nil
	}
	if err := s.service.KillTasks(ctx, ids); err != nil {
		return err
	}
	killed(w, tasks)
	return nil
}

// killTasks ends the named tasks that exist and that the user may see, as in Marathon.
func (s *apiServer) killTasks(w http.ResponseWriter, r *http.Request) error {
	k, err := readKillOptions(r)
	if err != nil {
		return err
	}
	data, err := readBody(w, r)
	if err != nil {
		return err
	}
	var sent struct {
		IDs []string `json:"ids"`
	}
	switch err := json.Unmarshal(data, &sent); {
	case err != nil && json.Valid(data):
		return invalidAt("/ids", "an array of strings is wanted here")
	case err != nil:
		return &marathon.SyntaxError{Cause: err}
	}
	if sent.IDs == nil {
		return invalidAt("/ids", "it is needed")
	}
	for _, id := range sent.IDs {
		if _, _, _, ok := job.ParseTaskID(id); !ok {
			return newProblem(http.StatusBadRequest, "Invalid task id '%s'. It is JOB.INDEX.ATTEMPT.TIME", id)
		}
	}
	apps, err := s.service.ListApps(r.Context())
	if err != nil {
		return err
	}
	named := selectTasks(apps, func(t AppTask) bool { return slices.Contains(sent.IDs, t.ID) })
	if k.scale && len(named) == 0 {
		return notFound("none of the %d tasks exists", len(sent.IDs)) // there is nothing to deploy
	}
	return s.killAndAnswer(w, r.Context(), named, k, s.answerTasks)
}
