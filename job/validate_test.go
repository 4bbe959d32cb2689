package job

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

func valid() Spec {
	s := Spec{Name: "x", Command: []string{"true"}, Request: gpu.Request{GPUs: 1}}
	s.SetDefaults()
	return s
}

// wantMistake checks that err is one mistake in these fields, with want in its text.
func wantMistake(t *testing.T, err error, fields, want string) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) != 1 {
		t.Fatalf("got %v, want one mistake: %s", err, want)
	}
	mistake, ok := errors.AsType[*FieldError](err)
	if !ok || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want …%s…", err, want)
	}
	var got []string
	for _, path := range mistake.Paths() {
		got = append(got, path.String())
	}
	if strings.Join(got, " ") != fields {
		t.Errorf("the mistake is in %q, want %q", got, fields)
	}
}

func TestValidateAcceptsTheDefaults(t *testing.T) {
	s := valid()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateRejectsImpossibleRequests(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"gpu_uuid: \"0\" is not a UUID": func(s *Spec) { s.Request.Devices.Include = []string{"0"} },
		"gpu_uuid: 1 devices are named, a task needs 2": func(s *Spec) {
			s.Request.GPUs, s.Request.Devices.Include = 2, []string{"GPU-a"}
		},
		"gpu_mem: -1 MiB":                       func(s *Spec) { s.Request.MinMemMiB = -1 },
		"gpu_cuda: \"new\" is not a version":    func(s *Spec) { s.Request.MinCUDA = "new" },
		"gpu_topology: \"ring\" is not one of":  func(s *Spec) { s.Request.Topology = "ring" },
		"needs gpus: 1 or more":                 func(s *Spec) { s.Request = gpu.Request{MinCUDA: "12"} },
		"constraint \"a UNIQUE b\"":             func(s *Spec) { s.Constraints = []Constraint{{"a", Unique, "b"}} },
		"constraints: 51 are more":              func(s *Spec) { s.Constraints = make([]Constraint, 51) },
		"ports: 1001":                           func(s *Spec) { s.Ports = make([]Port, 1001) },
		"role \"a b\"":                          func(s *Spec) { s.Role = "a b" },
		"role \"/a\"":                           func(s *Spec) { s.Role = "/a" },
		"role \"a/../b\"":                       func(s *Spec) { s.Role = "a/../b" },
		"priority: 1000001":                     func(s *Spec) { s.Priority = MaxPriority + 1 },
		"retries: -1":                           func(s *Spec) { s.Retries = -1 },
		"timeout: -1s":                          func(s *Spec) { s.Timeout = -time.Second },
		"max_wait: 8808h":                       func(s *Spec) { s.MaxWait = 367 * 24 * time.Hour },
		"run_time: 2h0m0s is longer than the":   func(s *Spec) { s.RunTime, s.Timeout = 2*time.Hour, time.Hour },
		"cpus: 1e+300":                          func(s *Spec) { s.CPUs = 1e300 },
		"cpus: NaN":                             func(s *Spec) { s.CPUs = math.NaN() },
		"mem: +Inf MiB":                         func(s *Spec) { s.MemMiB = math.Inf(1) },
		"mem: NaN MiB":                          func(s *Spec) { s.MemMiB = math.NaN() },
		"disk: -1 MiB":                          func(s *Spec) { s.DiskMiB = -1 },
		"disk: NaN MiB":                         func(s *Spec) { s.DiskMiB = math.NaN() },
		"share needs gpus: 1 or more":           func(s *Spec) { s.Request.GPUs, s.Request.Share.MemMiB = 0, 1 },
		"share: cores of a share are -1 %":      func(s *Spec) { s.Request.GPUs, s.Request.Share.Cores = 1, -1 },
		"share: memory: 1099511627776 MiB":      func(s *Spec) { s.Request.GPUs, s.Request.Share.MemMiB = 1, 1<<40 },
		"parts of devices have no gpu_topology": func(s *Spec) { s.Request.GPUs, s.Request.Share.MemMiB, s.Request.Topology = 2, 1, gpu.SameNUMA },
		"gpus: 1099511627776":                   func(s *Spec) { s.Request.GPUs = 1 << 40 },
		"tasks: 10001":                          func(s *Spec) { s.Tasks = MaxTasks + 1 },
		"kill_grace: 2562047h47m16":             func(s *Spec) { s.KillGrace = math.MaxInt64 },
		"kill_grace: -1s":                       func(s *Spec) { s.KillGrace = -time.Second },
		"gpu_type: V100, not v100 leaves no type": func(s *Spec) {
			s.Request.Types.Include, s.Request.Types.Exclude = []string{"V100"}, []string{"v100"}
		},
		"gpu_type: same is for the tasks of a gang": func(s *Spec) { s.Tasks, s.Request.Types.Same = 2, true },
		"gpu_type: same needs gpus":                 func(s *Spec) { s.Request = gpu.Request{Types: gpu.TypeSelector{Same: true}} },
		"gpu_type: a type is empty":                 func(s *Spec) { s.Request.Types.Include = []string{"V100", ""} },
		"the program, is empty":                     func(s *Spec) { s.Command = []string{""} },
		"command: word 2 holds a NUL byte":          func(s *Spec) { s.Command = []string{"echo", "\x00"} },
		"image: \"a\\x00\" is not REPOSITORY":       func(s *Spec) { s.Image, s.Containerizer = "a\x00", Docker },
		"image: \"a/b:2.1:latest\" is not":          func(s *Spec) { s.Image, s.Containerizer = "a/b:2.1:latest", Docker },
		"env: A holds a NUL byte":                   func(s *Spec) { s.Env = map[string]string{"A": "\x00"} },
		`env: "" is not a variable's name`:          func(s *Spec) { s.Env = map[string]string{"": "a", "node.name": "b", "a b": "c"} },
		`env: "A=B" is not a variable's`:            func(s *Spec) { s.Env = map[string]string{"A=B": "a"} },
		"word 2 has 131072 bytes":                   func(s *Spec) { s.Command = []string{"echo", strings.Repeat("x", 128<<10)} },
		"have 300003 bytes together": func(s *Spec) {
			s.Command = []string{"run", strings.Repeat("x", 100_000), strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)}
		},
		`name ".."`:  func(s *Spec) { s.Name = ".." },
		`name "a/b"`: func(s *Spec) { s.Name = "a/b" },
	} {
		s := valid()
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}
