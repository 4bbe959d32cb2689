package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
)

// hardlyBusy matches the use by a task that sleeps. On a loaded machine its start takes some processor time.
var hardlyBusy = regexp.MustCompile(`busy \d %, memory 0 %, most 0\.0 GiB`)

// TestUsageOfEndedJobs checks the accounting from the daemon's measurements through the executor and the sandbox to the
// commands usage, describe and run.
func TestUsageOfEndedJobs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xV100")
	began := time.Now()
	c.mustRun("run", "--gpus", "2", "--cpus", "0.1", "--mem", "256MiB", "--name", "held", "--", "sleep", "7") // a second measurement follows after 5 s
	var report api.AccountingReport
	decodeJSON(t, c.mustRun("usage", "--by", "job,type", "-o", "json"), &report)
	if len(report.Groups) != 1 || report.Groups[0].Keys["job"] != "held" || report.Groups[0].Keys["type"] != "V100" {
		t.Fatalf("got %+v", report)
	}
	if s := report.Total; s.Attempts != 1 || s.Unfinished != 0 || s.GPUSeconds < 14 || s.GPUSeconds > 2*time.Since(began).Seconds() {
		t.Errorf("got %+v", s)
	}
	res, err := http.Get(c.api + "/v1/jobs/held/accounting?wait=30") // until the measurements are read
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	res.Body.Close()
	text := c.mustRun("describe", "held")
	if !strings.Contains(text, "\nGPUs held for 0.00") || !hardlyBusy.MatchString(text) || !strings.Contains(text, "simulated\n") {
		t.Errorf("describe prints\n%s", text)
	}
	if text := c.mustRun("usage", "--attempts", "--csv"); strings.Count(text, "\n") != 2 || !strings.Contains(text, "\nheld.0.1.") {
		t.Errorf("got\n%s", text)
	}
}
