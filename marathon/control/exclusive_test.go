package control

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
)

// TestAuthorizationHoldsDuringChange: while a request is being authorized, another one moves the app to another role.
// The first request must not change the app after that. Its user may only change apps of the default role, *.
func TestAuthorizationHoldsDuringChange(t *testing.T) {
	for _, c := range []struct{ name, method, path, body string }{
		{"update", "PUT", web + "?force=true", `{"instances": 2}`},
		{"remove", "DELETE", web, ""},
		{"restart", "POST", web + "/restart?force=true", ""},
		{"kill", "POST", "/v2/tasks/delete", `{"ids": ["TASK"]}`},
		{"kill and scale", "POST", "/v2/tasks/delete?scale=true&force=true", `{"ids": ["TASK"]}`},
		{"change a group", "PUT", "/v2/groups/shop?force=true", `{"scaleBy": 2}`},
		{"remove a group", "DELETE", "/v2/groups/shop?force=true", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkAuthorizationDuringChange(t, c.method, c.path, c.body) })
		})
	}
}

func checkAuthorizationDuringChange(t *testing.T, method, path, body string) {
	m := &movingAuthorizer{moved: make(chan error, 1)}
	s := startControllerWith(t, newFakeCluster(), ControllerConfig{Log: discardLogger(), Authorize: m.may})
	synctest.Wait()
	m.control = s.control
	s.mustSend("POST", "/v2/apps", `{"id": "/shop/web", "cmd": "one", "mem": 32}`)
	var got struct {
		App struct{ Tasks []struct{ ID string } }
	}
	if s.sendRequest("GET", web, "", &got); len(got.App.Tasks) != 1 {
		t.Fatalf("%d tasks run, want 1", len(got.App.Tasks))
	}
	m.armed = true
	w := httptest.NewRecorder()
	s.control.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(strings.Replace(body, "TASK", got.App.Tasks[0].ID, 1))))
	switch {
	case m.armed:
		t.Error("permission was not checked")
	case m.before && w.Code/100 == 2:
		t.Errorf("it was done (%d) to an app that was of the role prod by then", w.Code)
	case !m.before && w.Code/100 != 2:
		t.Errorf("the app was of the role *: %d %s", w.Code, w.Body)
	}
	synctest.Wait()
	select {
	case err := <-m.moved:
		if m.before && err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the app could not be moved afterwards either")
	}
	if err := s.stopAndWait(); err != nil {
		t.Error(err)
	}
}

// movingAuthorizer permits changes in the role * and, once armed, moves the app to prod during the check.
type movingAuthorizer struct {
	control *Controller
	armed   bool
	moved   chan error
	before  bool // the app was moved before the permitted change
}

func (m *movingAuthorizer) may(_ context.Context, p api.Permission, role string) error {
	change := p == api.Change
	if change && m.armed {
		m.armed = false
		go func() { m.moved <- m.moveToProd() }()
		synctest.Wait()
		m.before = len(m.moved) > 0
	}
	if change && role != "*" {
		return errors.New("not in role " + role)
	}
	return nil
}

func (m *movingAuthorizer) moveToProd() error {
	_, _, err := m.control.UpdateApps(context.Background(), func(stored func(string) *marathon.App) ([]*marathon.App, error) {
		now := stored("/shop/web")
		if now == nil {
			return nil, errors.New("it is gone")
		}
		a := *now
		a.Role = "prod"
		return []*marathon.App{&a}, nil
	}, true)
	return err
}
