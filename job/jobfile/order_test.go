package jobfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

// orders are lines after head, and the tasks, queueing and schedule that they define.
var orders = []struct {
	name, lines string
	want        job.Spec
}{
	{"matrix", "matrix: {lr: [0.1, 0.01], seed: [1, 2, 3]}\nmax_parallel: 4\n", job.Spec{
		Tasks:       6,
		MaxParallel: 4,
		Matrix:      &job.Matrix{Axes: []job.MatrixAxis{{Name: "lr", Values: []string{"0.1", "0.01"}}, {Name: "seed", Values: []string{"1", "2", "3"}}}},
	}},
	{"matrix of entries alone", "tasks: 2\nmatrix:\n  include:\n    - {model: small}\n    - {model: large, lr: 0.1}\n", job.Spec{
		Tasks: 2, Matrix: &job.Matrix{Include: []map[string]string{{"model": "small"}, {"model": "large", "lr": "0.1"}}},
	}},
	{"after one", "after: prepare\n", job.Spec{Tasks: 1, After: []job.Dependency{{Job: "prepare"}}}},
	{"after some", "after: [prepare, {job: fetch, state: failed}]\n", job.Spec{
		Tasks: 1,
		After: []job.Dependency{{Job: "prepare"}, {Job: "fetch", Outcome: job.OutcomeFailed}},
	}},
	{"files of secrets", "secret_files: {db: db/password, keys/token: token}\n", job.Spec{
		Tasks:       1,
		SecretFiles: map[string]string{"db": "db/password", "keys/token": "token"},
	}},
	{"pull secret", "pull_secret: team/registry\n", job.Spec{Tasks: 1, Container: job.Container{PullSecret: "team/registry"}}},
	{"secrets", "secrets: {DB_PASSWORD: db/password, TOKEN: token}\n", job.Spec{
		Tasks:   1,
		Secrets: map[string]string{"DB_PASSWORD": "db/password", "TOKEN": "token"},
	}},
	{"schedule", "schedule: 0 3 * * *\n", job.Spec{Tasks: 1, Schedule: &job.Schedule{Cron: "0 3 * * *", Overlap: job.SkipOverlap, History: job.DefaultHistory}}},
	{"schedule in full", "schedule: {cron: \"@daily\", time_zone: Europe/Berlin, overlap: allow, history: 9}\n", job.Spec{
		Tasks: 1, Schedule: &job.Schedule{Cron: "@daily", TimeZone: "Europe/Berlin", Overlap: job.AllowOverlap, History: 9},
	}},
}

func TestMatrixAndScheduleKeys(t *testing.T) {
	for _, c := range orders {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(strings.NewReader(head+c.lines), "f")
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			want.Name, want.Image, want.Command = "a", "debian:12", shellCommand("serve")
			want.SetDefaults()
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// orderRefusals are lines after head, and the errors for them.
var orderRefusals = []struct{ name, lines, want string }{
	{"matrix list", "matrix: [1, 2]", `f.yaml:4:9: matrix: needs axes and their values, for example {lr: [0.1, 0.01], seed: [1, 2]}`},
	{"axis of one value", "matrix: {lr: 0.1}", `f.yaml:4:14: matrix: lr: needs a list of values, for example [1, 2]`},
	{"axis of lists", "matrix:\n  lr: [[1]]", `f.yaml:5:8: matrix: lr: item 1: is not a single value`},
	{"axis twice", "matrix:\n  lr: [1]\n  lr: [2]", `f.yaml:6:3: matrix: lr is already set in line 5`},
	{"value twice", "matrix: {lr: [1, 1]}", `f.yaml:4:14: matrix: lr has the value "1" twice`},
	{"axis's name", "matrix: {\"l r\": [1]}", `f.yaml:4:17: matrix: "l r" is not an axis: use 1 to 63 letters`},
	{"no axis", "matrix: {lr: [1], exclude: [{seed: 1}]}", `f.yaml:4:36: matrix: exclude: item 1: "seed" is not an axis of the matrix`},
	{"empty entry", "matrix: {lr: [1], include: [{}]}", `f.yaml:4:29: matrix: include: item 1: is empty`},
	{"none left", "matrix: {lr: [1], exclude: [{lr: 1}]}", `f.yaml:4:9: matrix: 0 combinations are not between 1 and 10000`},
	{"too many", "matrix: {a: [" + numbers(101) + "], b: [" + numbers(100) + "]}",
		`f.yaml:4:9: matrix: 10100 combinations or more are above 10000: split the job`},
	{"other tasks", "tasks: 3\nmatrix: {lr: [1, 2]}", `f.yaml:4:8: tasks: 3, and the matrix has 2 combinations, a task each: leave tasks out`},
	{"matrix and env", "env: {lr: 1}\nmatrix: {lr: [1, 2]}", `f.yaml:4:11: env: lr is set by the matrix`},
	{"matrix of a gang", "gang: true\nmatrix: {lr: [1, 2]}", `f.yaml:5:9: matrix: the tasks of a gang or a service are equal`},
	{"unknown placeholder", "env: {A: \"{{matrix.rl}}\"}\nmatrix: {lr: [1, 2]}", `f.yaml:5:9: {{matrix.rl}}: not every combination of the matrix has it`},
	{"placeholder of some", "env: {A: \"{{ matrix.b }}\"}\nmatrix: {lr: [1, 2], include: [{lr: 1, b: 2}]}",
		`f.yaml:5:9: {{matrix.b}}: not every combination of the matrix has it`},
	{"parallel gang", "gang: true\nmax_parallel: 1", `f.yaml:5:15: max_parallel: the tasks of a gang or a service run together`},
	{"no parallel", "max_parallel: 0", `f.yaml:4:15: max_parallel: 0 is not above 0`},
	{"after itself", "after: a", `f.yaml:4:8: after: a job cannot wait for itself`},
	{"after twice", "after: [b, {job: b, state: ended}]", `f.yaml:4:12: after: b is given twice`},
	{"after none", "after: []", `f.yaml:4:8: after: needs jobs, for example [prepare]`},
	{"after in another way", "after: [{job: b, state: done}]", `f.yaml:4:9: after: state "done" of b is not one of finished, ended, failed`},
	{"after misspelt", "after:\n  - {job: b, sate: ended}", `f.yaml:5:14: after: item 1: unknown key "sate"; did you mean "state"?`},
	{"secret's path", "secrets: {A: ../passwd}", `f.yaml:4:14: secrets: A: "../passwd" is not a secret's name: use words`},
	{"secret's absolute path", "secrets: {A: /etc/passwd}", `f.yaml:4:14: secrets: A: "/etc/passwd" is not a secret's name: use words`},
	{"path of a secret's file", "secret_files: {../a: a}", `f.yaml:4:22: secret_files: "../a" is not a path of a file such as /run/secrets/db`},
	{"pull secret's path", "pull_secret: ../registry", `f.yaml:4:14: pull_secret: "../registry" is not a secret's name: use words`},
	{"pull secret of a mesos container", "container: mesos\npull_secret: registry", `f.yaml:5:14: pull_secret needs container: docker`},
	{"secret's variable", "secrets: {A-B: a}", `f.yaml:4:16: secrets: "A-B" is not a variable's name`},
	{"secret and env", "env: {A: b}\nsecrets: {A: a}", `f.yaml:5:14: secrets: A is in env too`},
	{"secret of the matrix", "matrix: {A: [1]}\nsecrets: {A: a}", `f.yaml:5:14: secrets: A is set by the matrix`},
	{"no cron", "schedule: soon", `f.yaml:4:11: schedule: cron "soon": `},
	{"cron's seconds", "schedule: 0 0 3 * * *", `f.yaml:4:11: schedule: cron "0 0 3 * * *": expected exactly 5 fields`},
	{"cron's zone", "schedule: TZ=UTC 0 3 * * *",
		`f.yaml:4:11: schedule: cron "TZ=UTC 0 3 * * *" begins with "TZ=UTC": write five fields such as "0 3 * * *", and the zone as time_zone`},
	{"interval", "schedule: \"@every 5m\"", `begins with "@every"`},
	{"no such day", "schedule: 0 0 30 2 *", `f.yaml:4:11: schedule: cron "0 0 30 2 *" names no day that there is`},
	{"no zone", "schedule: {cron: 0 3 * * *, time_zone: Mars/Olympus}",
		`f.yaml:4:40: schedule: time_zone "Mars/Olympus" is not a time zone such as Europe/Berlin`},
	{"overlap", "schedule: {cron: 0 3 * * *, overlap: queue}", `f.yaml:4:38: schedule: overlap: "queue" is not one of skip, allow, replace`},
	{"history", "schedule: {cron: 0 3 * * *, history: 101}", `f.yaml:4:38: schedule: history: 101 is not between 1 and 100`},
	{"scheduled service", "service: true\nschedule: 0 3 * * *", `f.yaml:5:11: schedule: the job is a service`},
	{"scheduled dependency", "after: b\nschedule: 0 3 * * *", `f.yaml:4:8: after: the runs of a schedule wait for no other job`},
}

func numbers(n int) string {
	var all []string
	for i := range n {
		all = append(all, strings.Repeat("1", i+1))
	}
	return strings.Join(all, ", ")
}

func TestMatrixAndScheduleKeysReject(t *testing.T) {
	for _, c := range orderRefusals {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(head+c.lines), "f.yaml")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant …%s…", err, c.want)
			}
		})
	}
}
