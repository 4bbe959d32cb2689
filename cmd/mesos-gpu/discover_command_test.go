package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
)

// -o json prints the whole host.
func TestDiscoverJSON(t *testing.T) {
	var out, errs bytes.Buffer
	s := cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }}
	if code := runCommandLine(t.Context(), []string{"discover", "--simulate", "2xV100", "-o", "json"}, s); code != 0 {
		t.Fatalf("status %d: %s", code, errs.String())
	}
	var got gpu.Host
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Devices) != 2 || !got.Simulated || got.Devices[0].NVLinks[got.Devices[1].UUID] != 1 {
		t.Errorf("got %+v", got)
	}
}
