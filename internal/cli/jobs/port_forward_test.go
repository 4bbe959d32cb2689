package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]string{
		"8888": "8888 8888", "8080:http": "8080 http", "8080:": "8080 ", ":http": "0 http", ":": "0 ", "http": "0 http", "0:80": "0 80",
		"x:80": `"x" is not a port`, "70000:80": `"70000" is not a port`, "-1:80": `"-1" is not a port`,
	} {
		local, remote, err := parsePorts(text)
		got := fmt.Sprint(local, " ", remote)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || err == nil && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestNotebookKeys(t *testing.T) {
	plain := func() *job.Spec { return &job.Spec{Name: "lab", Command: []string{"true"}} }
	first, second := plain(), plain()
	for _, s := range []*job.Spec{first, second} {
		if err := addNotebookKeys(s); err != nil {
			t.Fatal(err)
		}
	}
	token := first.Env[notebookToken]
	if len(token) < 26 || token == second.Env[notebookToken] || first.IdleTimeout != defaultIdleTimeout || len(first.Ports) != 1 ||
		first.Ports[0].Name != notebookPort || first.Env[notebookAddress] != "" {
		t.Errorf("got %+v", first)
	}
	own := plain()
	own.Env, own.IdleTimeout, own.Ports = map[string]string{notebookToken: "mine"}, defaultIdleTimeout/2, []job.Port{{Name: "web"}}
	if err := addNotebookKeys(own); err != nil || own.Env[notebookToken] != "mine" || own.IdleTimeout != defaultIdleTimeout/2 || own.Ports[0].Name != "web" {
		t.Errorf("its own keys became %+v, %v", own, err)
	}
	bridge := plain()
	bridge.Containerizer, bridge.Image, bridge.Network = job.Docker, "jupyter", job.BridgeNetwork
	if err := addNotebookKeys(bridge); err != nil || bridge.Env[notebookAddress] != "0.0.0.0" {
		t.Errorf("in a network of its own the notebook has %v, %v", bridge.Env, err)
	}
	for name, change := range map[string]func(*job.Spec){
		"tasks": func(s *job.Spec) { s.Tasks = 2 }, "service": func(s *job.Spec) { s.Service = &job.Service{} }, "stdin": func(s *job.Spec) { s.Stdin = true },
	} {
		s := plain()
		change(s)
		if err := addNotebookKeys(s); !errors.As(err, new(*cli.UsageError)) {
			t.Errorf("%s: %v, want an error of usage", name, err)
		}
	}
}
