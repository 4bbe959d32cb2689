package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// tasks answers below /v2/tasks.
func (s *server) tasks(rest string) methods {
	switch below := parts(rest); {
	case len(below) == 0:
		return methods{http.MethodGet: s.allTasks}
	case len(below) == 1 && below[0] == "delete":
		return methods{http.MethodPost: s.killTasks}
	}
	return nil
}

func (s *server) allTasks(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	var states []string
	for _, status := range append(q["status"], q["status[]"]...) {
		switch strings.ToLower(status) {
		case "running":
			states = append(states, running)
		case "staging":
			states = append(states, "TASK_STAGING")
		}
	}
	apps, err := s.service.Apps(r.Context())
	if err != nil {
		return err
	}
	if plainText(r) {
		return s.endpoints(w, apps)
	}
	s.answerTasks(w, tasksOf(apps, func(t Task) bool { return len(states) == 0 || slices.Contains(states, t.State) }))
	return nil
}

func (s *server) answerTasks(w http.ResponseWriter, tasks []Task) {
	s.answer(w, http.StatusOK, map[string][]Task{"tasks": tasks})
}

// tasksOf are the wanted tasks of the apps.
func tasksOf(apps []App, wanted func(Task) bool) []Task {
	list := []Task{}
	for _, a := range apps {
		for _, t := range filled(a) {
			if wanted(t) {
				list = append(list, t)
			}
		}
	}
	return list
}

func every(Task) bool { return true }

// plainText reports whether the requester wants lines, and nothing else.
func plainText(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "text/plain") && !strings.Contains(accept, "json")
}

// endpoints writes a line for each service port: the app, the port, and where
// instances that run answer for it, with tabs between. Load balancers read it.
func (s *server) endpoints(w http.ResponseWriter, apps []App) error {
	var text strings.Builder
	for _, a := range apps {
		name := strings.ReplaceAll(strings.TrimPrefix(a.App.ID, "/"), "/", "_")
		ports := servicePorts(a.App)
		for i, port := range ports {
			fmt.Fprintf(&text, "%s\t%d\t", name, port)
			for _, t := range a.Tasks {
				if t.State == running && i < len(t.Ports) {
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
			if t.State == running {
				fmt.Fprintf(&text, "%s\t", t.Host)
			}
		}
		text.WriteByte('\n')
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text.String())) // the client that went away learns nothing more
	return nil
}

func (s *server) appTasks(w http.ResponseWriter, r *http.Request, p place) error {
	a, err := s.app(r, p.id)
	if err != nil {
		return err
	}
	if plainText(r) {
		return s.endpoints(w, []App{a})
	}
	s.answerTasks(w, filled(a))
	return nil
}

func (s *server) groupTasks(w http.ResponseWriter, r *http.Request, p place) error {
	wanted, err := s.below(r, p.id)
	if err != nil {
		return err
	}
	apps, err := s.service.Apps(r.Context())
	if err != nil {
		return err
	}
	s.answerTasks(w, tasksOf(slices.DeleteFunc(apps, func(a App) bool { return !wanted(a.App) }), every))
	return nil
}

// killing is what the parameters of a request to kill tasks say. What wipe
// would wipe, persistent volumes, is not there.
type killing struct{ scale, wipe, force bool }

func readKilling(r *http.Request) (k killing, err error) {
	q := r.URL.Query()
	for name, v := range map[string]*bool{"scale": &k.scale, "wipe": &k.wipe, "force": &k.force} {
		if *v, err = whether(q, name, false); err != nil {
			return k, err
		}
	}
	if k.scale && k.wipe {
		return k, problemf(http.StatusBadRequest, "You cannot use scale and wipe at the same time.")
	}
	return k, nil
}

func (s *server) killAppTasks(w http.ResponseWriter, r *http.Request, p place) error {
	host := r.URL.Query().Get("host")
	return s.kill(w, r, p.id, func(t Task) bool { return host == "" || host == "*" || t.Host == host }, s.answerTasks)
}

func (s *server) killAppTask(w http.ResponseWriter, r *http.Request, p place) error {
	a, err := s.app(r, p.id)
	if err != nil {
		return err
	}
	this := func(t Task) bool { return t.ID == p.arg }
	if !slices.ContainsFunc(a.Tasks, this) {
		return notFound("Task '%s' does not exist", p.arg)
	}
	return s.kill(w, r, p.id, this, func(w http.ResponseWriter, tasks []Task) {
		s.answer(w, http.StatusOK, map[string]Task{"task": tasks[0]})
	})
}

// kill ends an app's tasks of that kind, and answers with them as they were.
func (s *server) kill(w http.ResponseWriter, r *http.Request, app string, wanted func(Task) bool, killed func(http.ResponseWriter, []Task)) error {
	k, err := readKilling(r)
	if err != nil {
		return err
	}
	a, err := s.app(r, app)
	if err != nil {
		return err
	}
	return s.end(w, r.Context(), tasksOf([]App{a}, wanted), k, killed)
}

func (s *server) end(w http.ResponseWriter, ctx context.Context, tasks []Task, k killing, killed func(http.ResponseWriter, []Task)) error {
	var ids []string
	for _, t := range tasks {
		ids = append(ids, t.ID)
	}
	if k.scale {
		d, err := s.service.KillAndScale(ctx, ids, k.force)
		if err != nil {
			return err
		}
		s.deployed(w, http.StatusOK, d)
		return nil
	}
	if err := s.service.Kill(ctx, ids); err != nil {
		return err
	}
	killed(w, tasks)
	return nil
}

// killTasks ends those of the tasks named that there are, as in Marathon.
func (s *server) killTasks(w http.ResponseWriter, r *http.Request) error {
	k, err := readKilling(r)
	if err != nil {
		return err
	}
	data, err := body(w, r)
	if err != nil {
		return err
	}
	var sent struct {
		IDs []string `json:"ids"`
	}
	switch err := json.Unmarshal(data, &sent); {
	case err != nil && json.Valid(data):
		return unprocessable("/ids", "an array of strings is wanted here")
	case err != nil:
		return &marathon.Malformed{Cause: err}
	}
	if sent.IDs == nil {
		return unprocessable("/ids", "it is needed")
	}
	apps, err := s.service.Apps(r.Context())
	if err != nil {
		return err
	}
	named := tasksOf(apps, func(t Task) bool { return slices.Contains(sent.IDs, t.ID) })
	return s.end(w, r.Context(), named, k, s.answerTasks)
}
