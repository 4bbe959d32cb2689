package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/socket"
)

// version prints the release and the versions of its interfaces, the API's as in the OpenAPI
// document.
func TestVersion(t *testing.T) {
	run := func(args ...string) (string, string, int) {
		var out, errs bytes.Buffer
		code := runCommandLine(t.Context(), append([]string{"version"}, args...), cli.ProcessIO{
			Stdout: &out,
			Stderr: &errs,
			Getenv: func(string) string { return "" },
		})
		return out.String(), errs.String(), code
	}
	text, errs, code := run()
	want := fmt.Sprintf("mesos-gpu %s\napi      v1\nmodule   agent API v1; none on this machine\njournal  schema %d, opens 1 to %[2]d\nbuild    %s %s/%s\n",
		version, journal.Schema, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if code != 0 || text != want {
		t.Errorf("exit %d: %s\n%s\nwant:\n%s", code, errs, text, want)
	}
	text, _, _ = run("-o", "json")
	var got releaseInfo
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	var document struct{ Info struct{ Version string } }
	if err := yaml.Unmarshal(api.OpenAPIDocument(), &document); err != nil {
		t.Fatal(err)
	}
	if got.API != document.Info.Version || got.AgentAPI != socket.APIVersion || got.JournalSchema != journal.Schema || got.Module != nil {
		t.Errorf("got %+v, the API's document has version %s", got, document.Info.Version)
	}
	if _, errs, code := run("--module", "version_test.go"); code != 1 || !strings.Contains(errs, "version_test.go") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
