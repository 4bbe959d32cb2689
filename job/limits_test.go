package job

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// Limits include their ends.
func TestValidateAcceptsLimits(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"tasks":                     func(s *Spec) { s.Tasks = MaxTasks },
		"gpus":                      func(s *Spec) { s.Request.GPUs = MaxGPUs },
		"cpus":                      func(s *Spec) { s.CPUs = maxCPUs },
		"mem":                       func(s *Spec) { s.MemMiB = maxMiB },
		"disk":                      func(s *Spec) { s.DiskMiB = maxMiB },
		"no disk":                   func(s *Spec) { s.DiskMiB = 0 },
		"gpu_mem":                   func(s *Spec) { s.Request.MinMemMiB = maxMiB },
		"share":                     func(s *Spec) { s.Request.Share.MemMiB = maxMiB },
		"highest priority":          func(s *Spec) { s.Priority = MaxPriority },
		"lowest priority":           func(s *Spec) { s.Priority = -MaxPriority },
		"retries":                   func(s *Spec) { s.Retries = MaxRetries },
		"kill_grace":                func(s *Spec) { s.KillGrace = maxKillGrace },
		"timeout":                   func(s *Spec) { s.Timeout = maxTime },
		"run_time":                  func(s *Spec) { s.RunTime = maxTime },
		"max_wait":                  func(s *Spec) { s.MaxWait = maxTime },
		"run_time = timeout":        func(s *Spec) { s.RunTime, s.Timeout = time.Hour, time.Hour },
		"role":                      func(s *Spec) { s.Role = strings.Repeat("r", 255) },
		"word":                      func(s *Spec) { s.Command = []string{strings.Repeat("x", maxTextBytes)} },
		"topology of whole GPUs":    func(s *Spec) { s.Request.GPUs, s.Request.Topology = 2, gpu.SameNUMA },
		"any topology of a share":   func(s *Spec) { s.Request.Share.MemMiB, s.Request.Topology = 1, gpu.AnyTopology },
		"any topology without GPUs": func(s *Spec) { s.Request.GPUs, s.Request.Topology = 0, gpu.AnyTopology },
		"as many devices as GPUs":   func(s *Spec) { s.Request.Devices.Include = []string{"GPU-a"} },
		"excluded devices":          func(s *Spec) { s.Request.Devices.Exclude = []string{"GPU-a", "GPU-b"} },
	} {
		s := valid()
		change(&s)
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each mistake is reported in the fields that it concerns.
func TestValidateNamesFields(t *testing.T) {
	for _, c := range []struct {
		name         string
		change       func(*Spec)
		fields, want string
	}{
		{"type without GPUs", func(s *Spec) { s.Request.GPUs, s.Request.Types.Include = 0, []string{"V100"} }, "gpu_type gpus",
			"gpu_type V100 needs gpus: 1 or more"},
		{"excluded device", func(s *Spec) {
			s.Request.Devices.Include, s.Request.Devices.Exclude = []string{"GPU-a"}, []string{"GPU-b", "c"}
		}, "gpu_uuid.exclude[1]", `"c" is not a UUID`},
		{"first excluded device", func(s *Spec) { s.Request.Devices.Exclude = []string{"c"} }, "gpu_uuid.exclude[0]", `"c" is not a UUID`},
		{"named device", func(s *Spec) { s.Request.Devices.Include = []string{"c"} }, "gpu_uuid.include[0]", `"c" is not a UUID`},
		{"memory of a share", func(s *Spec) { s.Request.Share.MemMiB = -1 }, "share.memory", "share: "},
		{"cores of a share", func(s *Spec) { s.Request.Share.MemMiB, s.Request.Share.Cores = 1, 101 }, "share.cores", "share: "},
		{"docker task without image", func(s *Spec) { s.Containerizer, s.Image = Docker, "" }, "image", "a docker task needs one"},
		{"task without image and command", func(s *Spec) { s.Command = nil }, "command image", "a task without an image needs one"},
		{"unknown containerizer", func(s *Spec) { s.Containerizer = "podman" }, "container", `"podman" is neither docker nor mesos`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := valid()
			c.change(&s)
			wantMistake(t, s.Validate(), c.fields, c.want)
		})
	}
}

func TestValidateRole(t *testing.T) {
	for role, want := range map[string]bool{
		"*": true, "a": true, "a/b-c/d.e": true, "...": true, strings.Repeat("r", 255): true, strings.Repeat("r", 256): false,
		"": false, "a//b": false, "a/": false, ".": false, "a/..": false, "a/./b": false, "a/*": false, "-a": false, "a/-b": false,
		"a b": false, "a\tb": false, "a\x7f": false, `a\b`: false,
	} {
		if err := ValidateRole(role); (err == nil) != want {
			t.Errorf("%q: %v", role, err)
		}
	}
}

func TestParseVolume(t *testing.T) {
	for text, want := range map[string]Volume{
		"/a:/b": {Source: "/a", Target: "/b"}, "/a:/b:ro": {Source: "/a", Target: "/b", ReadOnly: true}, "data:/b:rw": {Source: "data", Target: "/b"},
	} {
		if got, err := ParseVolume(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"/a": "is not a volume", "/a:/b:ro:z": "is not a volume", "/a:/b:z": `has the option "z"`} {
		if _, err := ParseVolume(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestParsePort(t *testing.T) {
	for text, want := range map[string]Port{
		"1": {Container: 1}, "65535": {Container: 65535}, "9090/udp": {Container: 9090, Protocol: UDP}, "80:8080/tcp": {Host: 80, Container: 8080, Protocol: TCP},
	} {
		if got, err := ParsePort(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "65536", "http", "0:80", "80:0", "80:", ":80", "80/", "80/sctp"} {
		if got, err := ParsePort(text); err == nil || got != (Port{}) {
			t.Errorf("%q: got %+v, %v, want an error", text, got, err)
		}
	}
}

func TestParseUlimit(t *testing.T) {
	for text, want := range map[string]Ulimit{
		"65536":       {Name: "nofile", Soft: 65536, Hard: 65536},
		"0:9":         {Name: "nofile", Soft: 0, Hard: 9},
		"unlimited":   {Name: "nofile", Soft: Unlimited, Hard: Unlimited},
		"9:unlimited": {Name: "nofile", Soft: 9, Hard: Unlimited},
		"-1":          {Name: "nofile", Soft: Unlimited, Hard: Unlimited},
	} {
		if got, err := ParseUlimit("nofile", text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "many", "9:", ":9", "-2", "9:-2", "1:2:3"} {
		if _, err := ParseUlimit("nofile", text); err == nil || !strings.HasPrefix(err.Error(), "nofile: ") {
			t.Errorf("%q: got %v, want an error", text, err)
		}
	}
}

func TestParseParameter(t *testing.T) {
	if got, err := ParseParameter("add-host=a=b"); err != nil || got != (DockerParameter{Key: "add-host", Value: "a=b"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, text := range []string{"init", "=true", ""} {
		if _, err := ParseParameter(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A job waits for the outcome that its dependency names, finished by default.
func TestDependencies(t *testing.T) {
	for _, c := range []struct {
		outcome DependencyOutcome
		met     string // by these states
		text    string
	}{
		{"", "FINISHED", "job prepare to finish"},
		{OutcomeFinished, "FINISHED", "job prepare to finish"},
		{OutcomeFailed, "FAILED KILLED", "job prepare to fail"},
		{OutcomeEnded, "FINISHED FAILED KILLED", "job prepare to end"},
	} {
		d := Dependency{Job: "prepare", Outcome: c.outcome}
		var met []string
		for _, state := range []State{Finished, Failed, Killed} {
			if d.IsMetBy(state) {
				met = append(met, string(state))
			}
		}
		if got := strings.Join(met, " "); got != c.met || d.String() != c.text {
			t.Errorf("%q: %s, met by %s; want %s, met by %s", c.outcome, d, got, c.text, c.met)
		}
	}
	s := Spec{After: []Dependency{{Job: "a", Met: true}, {Job: "b"}, {Job: "c"}}}
	if open := s.UnmetDependencies(); len(open) != 2 || open[0].Job != "b" || open[1].Job != "c" {
		t.Errorf("unmet are %v", open)
	}
}

func TestValidateDependencies(t *testing.T) {
	many := func(n int) (after []Dependency) {
		for i := range n {
			after = append(after, Dependency{Job: "a" + strings.Repeat("b", i%60) + strings.Repeat("c", i/60)})
		}
		return after
	}
	for _, c := range []struct {
		name         string
		after        []Dependency
		fields, want string
	}{
		{"valid", []Dependency{{Job: "a"}, {Job: "b", Outcome: OutcomeEnded}, {Job: "c", Outcome: OutcomeFailed}, {Job: "d", Outcome: OutcomeFinished}}, "", ""},
		{"as many as allowed", many(maxDependencies), "", ""},
		{"too many", many(maxDependencies + 1), "after", "101 jobs are more than 100"},
		{"no name", []Dependency{{Job: "a"}, {Job: "a b"}}, "after[1]", `"a b" is not a job`},
		{"itself", []Dependency{{Job: "x"}}, "after[0] name", "a job cannot wait for itself"},
		{"twice", []Dependency{{Job: "a"}, {Job: "b"}, {Job: "a", Outcome: OutcomeEnded}}, "after[2]", "a is given twice"},
		{"unknown outcome", []Dependency{{Job: "a", Outcome: "done"}}, "after[0]", `state "done" of a is not one of finished, ended, failed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := valid()
			s.After = c.after
			if err := s.Validate(); c.want != "" {
				wantMistake(t, err, c.fields, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// Tasks that the scheduler kills for others are queued again, those that end for good are not.
func TestKilledTasksThatAreQueuedAgain(t *testing.T) {
	for reason, want := range map[KillReason]bool{
		KillByPreemption: true, KillByGangRestart: true, KillByReplacement: true, KillByDrain: true, KillByUser: false, KillByScaling: false, KillByPeer: false,
	} {
		if got := reason.RequeuesTask(); got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
	}
}

// A task is expected to run for its run time, or else for at most its timeout.
func TestExpectedRunTime(t *testing.T) {
	for want, s := range map[time.Duration]Spec{time.Minute: {RunTime: time.Minute, Timeout: time.Hour}, time.Hour: {Timeout: time.Hour}, 0: {}} {
		if got := s.ExpectedRunTime(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
