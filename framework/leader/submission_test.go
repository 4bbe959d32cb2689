package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// TestSubmissionChecksAreDocumented: reading-the-code.md has the checks in their order, with the key and where they apply.
func TestSubmissionChecksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/internals/reading-the-code.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| what must be true | key | jobs of users | runs of schedules | apps | schedules |\n|---|---|---|---|---|---|\n")
	for _, c := range submissionChecks {
		key := ""
		if c.field != "" {
			key = "`" + c.field + "`"
		}
		fmt.Fprintf(&table, "| %s | %s |", c.name, key)
		for _, origin := range []submissionOrigin{byUser, bySchedule, byExtension, asSchedule} {
			mark := ""
			if c.of&origin != 0 {
				mark = "✓"
			}
			fmt.Fprintf(&table, " %s |", mark)
		}
		table.WriteString("\n")
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("docs/internals/reading-the-code.md lacks this table:\n%s", table.String())
	}
}

// TestEveryWayInRefusesAlike: a job is refused for the same reason, with the same key, by its submission, by a dry run, as a
// schedule and as the job of an extension.
func TestEveryWayInRefusesAlike(t *testing.T) {
	l := newTestLoop(&orderedJournal{})
	ctx, cancel := context.WithCancel(t.Context())
	leads := New(l, Config{Stopped: ctx.Done()})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	leads.UpdateAgents([]master.ListedAgent{{ID: "a", Hostname: "a", Active: true, GPUs: 1, Types: []string{"V100"}}})
	ways := map[string]func(job.Spec) error{
		"submission": func(s job.Spec) error { _, _, err := leads.Jobs.SubmitJob(ctx, nil, s); return err },
		"dry run":    func(s job.Spec) error { _, err := leads.Jobs.ValidateJob(ctx, nil, s); return err },
		"schedule": func(s job.Spec) error {
			s.Schedule = frameworktest.ScheduledSpec("nightly", "0 3 * * *").Schedule
			_, _, err := leads.Schedules.AddSchedule(ctx, nil, s)
			return err
		},
		"extension": func(s job.Spec) error { return NewExtensionHandle(leads).SubmitJobs(ctx, s) },
	}
	for _, c := range []struct {
		field  string
		status int
		change func(*job.Spec)
		ways   string
	}{
		{"artifacts", http.StatusUnprocessableEntity, func(s *job.Spec) { s.Artifacts = []string{"model"} }, "submission, dry run, schedule"},
		{"role", http.StatusUnprocessableEntity, func(s *job.Spec) { s.Role = "missing" }, "submission, dry run, schedule, extension"},
		{"notify", http.StatusForbidden, func(s *job.Spec) {
			s.Notify = []job.NotificationRule{{To: "https://example.org/hook", On: []job.NotificationEvent{job.NotifyEnd}}}
		}, "submission, dry run, schedule, extension"},
		{"after", http.StatusUnprocessableEntity, func(s *job.Spec) { s.After = []job.Dependency{{Job: "missing"}} }, "submission, dry run, schedule, extension"},
	} {
		for name, submit := range ways {
			if !strings.Contains(c.ways, name) {
				continue
			}
			s := frameworktest.JobSpec("train", 1, 1)
			s.SetDefaults()
			c.change(&s)
			p := (*api.Problem)(nil)
			if err := submit(s); !errors.As(err, &p) || p.Status != c.status || p.Field != c.field || p.Detail == "" {
				t.Errorf("%s by %s: got %v (%+v), want status %d for key %q", c.field, name, err, p, c.status, c.field)
			}
		}
	}
	if n := leads.Model.JobCount(); n != 0 {
		t.Errorf("there are %d jobs, want none", n)
	}
}
