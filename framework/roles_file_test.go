package framework

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
)

func TestParseRoles(t *testing.T) {
	got, err := parseRoles([]byte("research: V100=8, A100=4, *=16\nprod: {weight: 2, quota: \"A100=32\"}\nguests: " +
		"{}\nteam/vision:\nfast: {order: shortest, patience: 6h, policy: spread}\nbatch: {order: fifo, backfill: false}\nlab: " +
		"{deserved: \"A100=8, *=12, cpus=64, mem=1.5TiB\", limit: \"A100=16\"}\nlab/x: {deserved: \"A100=8\"}\nsweeps: {deserved: \"cpus=0.5\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.Role{
		{Name: "research", Quota: quota.Quota{"V100": 8, "A100": 4, "*": 16}},
		{Name: "prod", Weight: 2, Quota: quota.Quota{"A100": 32}},
		{Name: "guests", Quota: quota.Quota{}},
		{Name: "team/vision", Quota: quota.Quota{}},
		{Name: "fast", Quota: quota.Quota{}, Order: queue.ShortestFirst, Patience: 6 * time.Hour, FitPolicy: "spread"},
		{Name: "batch", Quota: quota.Quota{}, Order: queue.OldestFirst, Strict: true},
		{Name: "lab", Quota: quota.Quota{"A100": 16}, Deserved: quota.Quota{"A100": 8, "*": 12}, DeservedHost: quota.HostQuota{"cpus": 64, "mem": 1.5 * 1024 * 1024}},
		{Name: "lab/x", Quota: quota.Quota{}, Deserved: quota.Quota{"A100": 8}},
		{Name: "sweeps", Quota: quota.Quota{}, DeservedHost: quota.HostQuota{"cpus": 0.5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestInvalidRolesAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "parse roles",
		"[a]":                             "write ROLE: QUOTA lines",
		"a: V100":                         `line 1: role a: quota "V100": write TYPE=GPUS`,
		"a: V100=8\nb: V100=-1":           "line 2: role b",
		"a: V100=8, v100=9":               "appears twice",
		"a: cpus=8":                       "quotas and limits count GPUs only; cpus and mem are for deserved",
		"a: {deserved: cpus=many}":        `line 1: role a: deserved: cpus: "many" is not a number of CPUs such as 32`,
		"a: {deserved: mem=8gb}":          `deserved: mem: "8gb" is not a size: write 8GB or 8GiB`,
		"a: {deserved: 'cpus=8, cpus=9'}": "cpus appears twice",
		"a: {deserved: cpus=8}\na/b: {deserved: cpus=9}": `role "a" deserves 8 CPUs, the roles below it (a/b) deserve 9 CPUs together`,
		"a: {}\na: {}":                        "appears twice",
		"a b: {}":                             `role "a b"`,
		"a: {wait: 2}":                        "want weight, quota",
		"a: {weigth: 2}":                      `line 1: role a: unknown key "weigth"; did you mean "weight"?`,
		"a: {weight: -1}":                     "weight -1 is not between",
		"a: {order: lifo}":                    `role "a": order "lifo" is not one of fifo, shortest`,
		"a: {patience: 1h}":                   "patience is for order shortest",
		"a: {order: shortest, patience: -1h}": "patience -1h0m0s is not between",
		"a: {patience: soon}":                 "line 1: role a: patience: \"soon\" is not a duration such as 30s",
		"a: {default_for: [ann]}":             "line 1: role a: default_for: want {users: [alice], groups: [vision]}",
		"a: {default_for: {user: [ann]}}":     "line 1: role a: default_for: unknown key \"user\"; did you mean \"users\"?",
		"a: {default_for: {users: [ann]}}\nb: {default_for: {users: [ann]}}": "role \"b\": default_for: user \"ann\" has the default role \"a\" already",
		"a: {keep_ended: 3600}":              "line 1: role a: keep_ended: \"3600\" is not a duration: write 3600s",
		"a: {weight: heavy}":                 "role a: weight: want a number",
		"a: {weight: 1, weight: 2}":          "already defined",
		"a: {policy: best}":                  `role "a": policy "best" is not one of`,
		"a: {backfill: perhaps}":             "role a: backfill: want true or false",
		"a: V100=99999999999999999999":       "write TYPE=GPUS",
		"a: {deserved: lots}":                "line 1: role a: deserved: quota \"lots\": write TYPE=GPUS",
		"a: {deservd: V100=1}":               `did you mean "deserved"?`,
		"a: {quota: V100=1, limit: V100=1}":  "two names of one setting",
		"a: {half_life: 30s}":                `role "a": half-life 30s is not 0 or at least 1m`,
		"a: {waiting_jobs: -1}":              `role "a": waiting_jobs -1 is negative`,
		"a: {user: 4}":                       "line 1: role a: user: want keys of gpus, running_jobs",
		"a: {user: {gpu: \"*=4\"}}":          `user: unknown key "gpu"; did you mean "gpus"?`,
		"a: {user: {gpus: 4}}":               `user: gpus: quota "4": write TYPE=GPUS`,
		"a: {user: {running_jobs: 0}}":       `user: running_jobs: "0" is not a number of at least 1, or none`,
		"a: {user: {waiting_jobs: 9999999}}": `role "a": user: waiting_jobs 9999999 is not between 1 and 1000000`,
		"a: {users: {ann: {running: 1}}}":    `users: ann: unknown key "running"`,
		"a: {users: [ann]}":                  "role a: users: want a mapping of users to their limits",
		"a: {notify: ann}":                   "role a: notify: want a list",
		"a: [V100=8]":                        "it is a list: write a quota such as V100=8",

		"a: {limit: V100=4, deserved: V100=8}":            `role "a": it deserves V100=8, its limit is V100=4`,
		"a: {limit: \"*=4\", deserved: \"V100=2, T4=3\"}": `role "a": it deserves 5 GPUs, its limit is *=4`,
		"a: {deserved: \"V100=2, *=1\"}":                  `role "a": it deserves *=1, less than the 2 of its types together`,
		"a: {deserved: V100=4}\na/b: {deserved: V100=3}\na/c/d: " +
			"{deserved: v100=2}": `role "a" deserves V100=4, the roles below it (a/b, a/c/d) deserve V100=5 together`,
		"a: {deserved: V100=4}\na/b: {deserved: T4=1}":                                          `role "a" deserves T4=0, the roles below it (a/b) deserve T4=1`,
		"a: {deserved: \"*=4\"}\na/b: {}\na/b/c: {deserved: \"V100=3\"}\na/d: {deserved: T4=3}": `role "a" deserves *=4, the roles below it (a/b/c, a/d) deserve *=6`,
		"a: {deserved: V100=4}\na/b: {deserved: \"*=5\"}":                                       `role "a" deserves *=4, the roles below it (a/b) deserve *=5`,
	} {
		if _, err := parseRoles([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestParseUserLimits: the limits of a named user replace those of each user key by key.
func TestParseUserLimits(t *testing.T) {
	got, err := parseRoles([]byte("a: {waiting_jobs: 500, user: {gpus: \"V100=4, *=8\", running_jobs: 2, waiting_jobs: 20, " +
		"submissions_per_minute: 30}, users: {ann: {gpus: none, running_jobs: 9}, bob: {waiting_jobs: none}}}\nb: {half_life: 24h, users: {ann: {gpus: \"*=0\"}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.Role{
		{
			Name: "a", Quota: quota.Quota{}, WaitingJobs: 500,
			EachUser: quota.UserLimits{GPUs: quota.Quota{"V100": 4, "*": 8}, RunningJobs: 2, WaitingJobs: 20, SubmissionsPerMinute: 30},
			NamedUsers: map[string]quota.UserLimits{
				"ann": {RunningJobs: 9, WaitingJobs: 20, SubmissionsPerMinute: 30},
				"bob": {GPUs: quota.Quota{"V100": 4, "*": 8}, RunningJobs: 2, SubmissionsPerMinute: 30},
			},
		},
		{Name: "b", Quota: quota.Quota{}, HalfLife: 24 * time.Hour, NamedUsers: map[string]quota.UserLimits{"ann": {GPUs: quota.Quota{"*": 0}}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

// TestReloadKeepsOldRolesOnError: Reload reads the file again, and an invalid file changes nothing.
func TestReloadKeepsOldRolesOnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "roles.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("research: V100=8\n")
	s, err := New(SchedulerConfig{RolesFile: path, Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	var got []sched.Policy
	s.setLeadership(nil, func(p sched.Policy, applied func()) error {
		got = append(got, p)
		applied()
		return nil
	})
	write("research: V100=4\nprod: {weight: 3}\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	write("research: lots\n")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a mistake: got %v", err)
	}
	if len(got) != 1 {
		t.Fatalf("%d policies, want 1", len(got))
	}
	want := []queue.Role{{Name: "research", Quota: quota.Quota{"V100": 4}}, {Name: "prod", Weight: 3, Quota: quota.Quota{}}}
	if diff := cmp.Diff(want, got[0].Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if _, err := New(SchedulerConfig{RolesFile: path, Log: frameworktest.DiscardLog()}); err == nil {
		t.Error("a scheduler starts with a roles file that cannot be read")
	}
}

// TestWeightsOfRolesFileAreSetInMesos: the leader sets the weights of the roles file in Mesos, and again after a reload. A role
// without a weight has 1, and a file without weights leaves those in Mesos as they are.
func TestWeightsOfRolesFileAreSetInMesos(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	changes := make(chan map[string]float64, 10)
	c.OnWeights = func(changed map[string]float64) { changes <- changed }
	path := filepath.Join(t.TempDir(), "roles.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gold: {weight: 3}\nbronze: {}\nlab/x: {weight: 0.5}\n")
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: path})
	wantChange := func(want map[string]float64) {
		t.Helper()
		if diff := cmp.Diff(want, <-changes); diff != "" {
			t.Errorf("weights set in Mesos (-want +got):\n%s", diff)
		}
	}
	wantChange(map[string]float64{"gold": 3, "lab/x": 0.5})
	for _, text := range []string{"gold: {}\nbronze: {}\n", "gold: {}\nbronze: {weight: 2}\n"} {
		write(text)
		if err := in.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	wantChange(map[string]float64{"gold": 1, "bronze": 2})
}

// TestInvalidRolesFileDoesNotStopTheLeader: a scheduler whose roles file has become invalid
// leads with the roles that it last read.
func TestInvalidRolesFileDoesNotStopTheLeader(t *testing.T) {
	path := writeRolesFile(t, "research: V100=1\nprod: {weight: 3}\n")
	s, err := New(SchedulerConfig{RolesFile: path, Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	want := s.loadPolicy().Roles
	for _, breakFile := range []func() error{
		func() error { return os.WriteFile(path, []byte("research: lots\n"), 0o600) },
		func() error { return os.Remove(path) },
	} {
		if err := breakFile(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.loadPolicy().Roles); diff != "" {
			t.Errorf("roles (-want +got):\n%s", diff)
		}
	}
	if len(want) != 2 || want[1].Weight != 3 {
		t.Errorf("roles %+v", want)
	}
}

// TestPackagedRolesFile: the packages' example file is valid and contains every key.
func TestPackagedRolesFile(t *testing.T) {
	roles, err := LoadRoles(filepath.Join("..", "deploy", "etc", "roles.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := queue.Role{Name: "prod", Weight: 2, Order: queue.ShortestFirst, Patience: 6 * time.Hour, FitPolicy: "binpack"}
	if len(roles) != 3 || roles[0].Name != "research" {
		t.Fatalf("read %+v", roles)
	}
	got := roles[1]
	want.WaitingJobs, want.EachUser = 500, quota.UserLimits{GPUs: quota.Quota{"A100": 8, "*": 12}, RunningJobs: 20, WaitingJobs: 50, SubmissionsPerMinute: 30}
	want.HalfLife, want.NamedUsers = 24*time.Hour, map[string]quota.UserLimits{"carol": {GPUs: quota.Quota{"A100": 16, "*": 16},
		RunningJobs: 20, SubmissionsPerMinute: 30}}
	got.Quota, want.Deserved = want.Quota, quota.Quota{"A100": 16}
	want.DeservedHost = quota.HostQuota{quota.CPUs: 128, quota.Memory: 512 * 1024}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
