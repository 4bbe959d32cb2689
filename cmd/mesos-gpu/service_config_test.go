package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

func balancedCluster() *fakeCluster {
	web := fakeJob("web", time.Hour, job.Running, job.Waiting)
	web.Spec.Service, web.Spec.Ports = &job.Service{}, []job.Port{{Name: "http"}}
	web.Tasks[0].AgentURL, web.Tasks[0].Ports = "http://10.0.0.1:5051", []int{31001}
	return newFakeCluster(web)
}

func TestServiceConfigIsPrinted(t *testing.T) {
	for line, want := range map[string]string{
		"service-config haproxy":                          "    server web.0 10.0.0.1:31001\n",
		"service-config haproxy --bind 127.0.0.1:18080":   "    bind 127.0.0.1:18080\n",
		"service-config haproxy --stats-socket /run/h":    "    stats socket /run/h mode 600 level admin expose-fd listeners\n",
		"service-config traefik --domain gpu.example.org": "Host(`web.gpu.example.org`)",
		"service-config traefik":                          "- url: http://10.0.0.1:31001\n",
		"service-config haproxy --role *":                 "backend web\n",
	} {
		if r := balancedCluster().command(t, line); r.status != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: status %d %s, lacks %q:\n%s", line, r.status, r.err, want, r.out)
		}
	}
	if r := balancedCluster().command(t, "service-config haproxy --role other"); strings.Contains(r.out, "backend") {
		t.Errorf("another role has services:\n%s", r.out)
	}
	for line, want := range map[string]string{
		"service-config nginx":                           `"nginx": use haproxy or traefik`,
		"service-config haproxy --watch":                 "--watch and --exec-reload need --file",
		"service-config haproxy --exec-reload true":      "--watch and --exec-reload need --file",
		"service-config haproxy --stats-socket relative": "use an absolute path",
		"service-config traefik --domain a`b":            "use a domain such as",
		"service-config haproxy --bind #80":              "use an address such as :80",
	} {
		balancedCluster().command(t, line).expect(t, "", want, 2)
	}
}

// The file is written as a whole, and the reload command is run only if it has changed.
func TestServiceConfigReloadsAfterChange(t *testing.T) {
	dir := t.TempDir()
	file, reloads := filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "reloads")
	c := balancedCluster()
	line := "service-config haproxy --file " + file + " --exec-reload"
	run := func(reload string) commandRun {
		return commandAt(t, c.serve(t), append(strings.Fields(line), reload)...)
	}
	count := func() int {
		text, err := os.ReadFile(reloads)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "reload")
	}
	for range 2 {
		if r := run("echo reload >> " + reloads); r.status != 0 || count() != 1 {
			t.Fatalf("status %d %s, %d reloads, want 1", r.status, r.err, count())
		}
	}
	c.changeTask("web", 0, job.Failed, 1)
	if r := run("echo reload >> " + reloads); r.status != 0 || count() != 2 {
		t.Fatalf("after a change: status %d %s, %d reloads, want 2", r.status, r.err, count())
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "server web") {
		t.Errorf("%v\n%s", err, text)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	c.changeTask("web", 0, job.Running, 0)
	if r := run("exit 3"); r.status == 0 || !strings.Contains(r.err, "--exec-reload: exit status 3") {
		t.Errorf("a failed reload: status %d %s", r.status, r.err)
	}
}
