package job

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoffPause(t *testing.T) {
	marathon := BackoffPolicy{Initial: time.Second, Factor: 1.15, Max: 5 * time.Minute}
	double := BackoffPolicy{Initial: time.Second, Factor: 2, Max: 5 * time.Second}
	steady := BackoffPolicy{Initial: time.Second, Factor: 1, Max: time.Second}
	for _, c := range []struct {
		backoff  BackoffPolicy
		failures int
		want     time.Duration
	}{
		{double, -1, 0},
		{double, 0, 0},
		{double, 1, time.Second},
		{double, 2, 2 * time.Second},
		{double, 3, 4 * time.Second},
		{double, 4, 5 * time.Second},
		{double, math.MaxInt, 5 * time.Second},
		{steady, 1, time.Second},
		{steady, 1000, time.Second},
		{marathon, 2, 1150 * time.Millisecond},
		{marathon, 41, 267863546000}, // 1.15^40 s
		{marathon, 42, 5 * time.Minute},
	} {
		if got := c.backoff.PauseAfter(c.failures); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%+v after %d failures: got %s, want %s", c.backoff, c.failures, got, c.want)
		}
	}
}

// For every BackoffPolicy that Validate accepts, a pause is never shorter than the one before, nor longer than Max.
func TestBackoffPausesGrow(t *testing.T) {
	grows := func(seed uint64) bool {
		r := rand.New(rand.NewPCG(seed, 1))
		b := BackoffPolicy{Initial: time.Duration(r.Int64N(int64(maxTime))), Factor: 1 + r.ExpFloat64()}
		if r.IntN(2) == 0 {
			b.Initial >>= r.IntN(50)
		}
		b.Max = b.Initial + time.Duration(r.Int64N(int64(maxTime-b.Initial)+1))
		s := valid()
		if s.Service = (&Service{Backoff: b}); s.Validate() != nil && b.Factor <= maxBackoffFactor {
			t.Errorf("%+v is refused: %v", b, s.Validate())
		}
		for failures, last := 1, time.Duration(0); failures < 1000; failures += 1 + r.IntN(20) {
			pause := b.PauseAfter(failures)
			if pause < last || pause < b.Initial || pause > b.Max {
				t.Errorf("%+v after %d failures: got %s after %s", b, failures, pause, last)
				return false
			}
			last = pause
		}
		return true
	}
	if err := quick.Check(grows, nil); err != nil {
		t.Error(err)
	}
}

func TestServiceDefaults(t *testing.T) {
	for _, c := range []struct{ given, want Service }{
		{Service{}, Service{Backoff: BackoffPolicy{time.Second, 1.15, 5 * time.Minute}}},
		{Service{Backoff: BackoffPolicy{Initial: time.Hour}}, Service{Backoff: BackoffPolicy{time.Hour, 1.15, time.Hour}}},
		{Service{Backoff: BackoffPolicy{2, 3, 4}, ReplaceAfter: Unlimited}, Service{Backoff: BackoffPolicy{2, 3, 4}, ReplaceAfter: Unlimited}},
	} {
		got := c.given
		got.setDefaults()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.given, diff)
		}
	}
}

func TestValidateServices(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string // "" means accepted
	}{
		"plain":                {func(*Spec) {}, ""},
		"never replaced":       {func(s *Spec) { s.Service.ReplaceAfter = Unlimited }, ""},
		"preemptible":          {func(s *Spec) { s.Preemptible, s.Priority = true, 5 }, ""},
		"steady":               {func(s *Spec) { s.Service.Backoff = BackoffPolicy{1, 1, 1} }, ""},
		"group":                {func(s *Spec) { s.Group = "/web/front-1.2_3" }, ""},
		"group without it":     {func(s *Spec) { s.Service, s.Group = nil, "a" }, ""},
		"longest group":        {func(s *Spec) { s.Group = strings.Repeat("a", 255) }, ""},
		"gang":                 {func(s *Spec) { s.Gang = true }, "gang: the job is a service: its tasks are started again one by one"},
		"retries":              {func(s *Spec) { s.Retries = 1 }, "retries: the job is a service: it is started again however often"},
		"timeout":              {func(s *Spec) { s.Timeout = 1 }, "timeout: the job is a service: it runs until"},
		"run time":             {func(s *Spec) { s.RunTime = 1 }, "run_time: the job is a service: it runs until"},
		"max wait":             {func(s *Spec) { s.MaxWait = 1 }, "max_wait: the job is a service: it waits until"},
		"negative":             {func(s *Spec) { s.Service.Backoff = BackoffPolicy{-1, 1, 1} }, "service: backoff from -1ns by 1 to 1ns"},
		"shrinks":              {func(s *Spec) { s.Service.Backoff.Factor = 0.99 }, "service: backoff from 1s by 0.99 to 5m0s: it does not shrink"},
		"jumps":                {func(s *Spec) { s.Service.Backoff.Factor = 101 }, "service: backoff from 1s by 101"},
		"no factor":            {func(s *Spec) { s.Service.Backoff.Factor = math.NaN() }, "service: backoff from 1s by NaN"},
		"ends below its start": {func(s *Spec) { s.Service.Backoff.Max = time.Millisecond }, "service: backoff from 1s by 1.15 to 1ms"},
		"endless":              {func(s *Spec) { s.Service.Backoff.Max = maxTime + 1 }, "and grows to 8784h0m0s at most"},
		"delayed too long": {func(s *Spec) { s.Service.ShutdownDelay = maxKillGrace + 1 },
			"service: shutdown_delay: 24h0m0.000000001s is not between 0 and 24h0m0s"},
		"replaced too late":  {func(s *Spec) { s.Service.ReplaceAfter = maxTime + 1 }, "service: replace_after: 8784h0m0.000000001s is more than 8784h0m0s"},
		"group with a blank": {func(s *Spec) { s.Group = "a b" }, `group: "a b": use 1 to 255 letters`},
		"too long a group":   {func(s *Spec) { s.Group = strings.Repeat("a", 256) }, "use 1 to 255 letters"},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid()
			s.Service = &Service{}
			s.SetDefaults()
			c.change(&s)
			requireRejected(t, &s, c.want)
		})
	}
}

// requireRejected checks that the error of Validate contains the text. "" means that Validate accepts the job.
func requireRejected(t *testing.T, s *Spec, want string) {
	t.Helper()
	err := s.Validate()
	if want == "" && err != nil {
		t.Error(err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want …%s…", err, want)
	}
}

// Retired tasks of a scaled service do not count. The service has not ended until a user kills it.
func TestJobStateOfScaledServices(t *testing.T) {
	code := func(n int) *int { return &n }
	running, waiting := Task{State: Running}, Task{State: Waiting}
	retired := Task{State: Killed, KillReason: KillByScaling, ExitCode: code(143)}
	leaving := Task{State: Killing, KillReason: KillByScaling}
	replaced := Task{State: Killing, KillReason: KillByReplacement}
	killed := Task{State: Killed, ExitCode: code(137)}
	for name, c := range map[string]struct {
		tasks    []Task
		wanted   int
		state    State
		terminal bool
		exit     int
	}{
		"whole":                    {[]Task{running, running}, 2, Running, false, 1},
		"one retired":              {[]Task{running, retired}, 1, Running, false, 1},
		"one about to be":          {[]Task{running, leaving}, 1, Running, false, 1},
		"one replaced":             {[]Task{running, replaced}, 2, Running, false, 1},
		"another waits":            {[]Task{retired, waiting, running}, 2, Running, false, 1},
		"scaled to nothing":        {[]Task{retired, retired}, 0, Killed, false, 1},
		"ended":                    {[]Task{killed, killed}, 2, Killed, true, 137},
		"killed but for a retired": {[]Task{retired, killed}, 1, Killed, false, 137},
		"no task":                  {nil, 0, Finished, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j := &Job{Spec: &Spec{Service: &Service{}}, Tasks: c.tasks}
			if got := j.WantedTasks(); got != c.wanted {
				t.Errorf("wanted: got %d, want %d", got, c.wanted)
			}
			if got := j.State(); got != c.state {
				t.Errorf("state: got %s, want %s", got, c.state)
			}
			counted := 0
			for _, n := range j.CountTasks() {
				counted += n
			}
			if retired := len(slices.DeleteFunc(slices.Clone(c.tasks), func(t Task) bool { return !t.IsRetired() })); counted != len(c.tasks)-retired {
				t.Errorf("counted %v", j.CountTasks())
			}
			if got := j.IsTerminal(); got != c.terminal {
				t.Errorf("terminal: got %v, want %v", got, c.terminal)
			}
			if got := j.ExitCode(); got != c.exit {
				t.Errorf("exit code: got %d, want %d", got, c.exit)
			}
		})
	}
}

func TestRetiredTasks(t *testing.T) {
	for _, state := range States() {
		for _, why := range []KillReason{KillByUser, KillByTimeout, KillByPeer, KillByPreemption, KillByGangRestart, KillByScaling, KillByReplacement, KillByDrain} {
			task := Task{State: state, KillReason: why}
			if got, want := task.IsRetired(), why == KillByScaling && !state.IsLive(); got != want {
				t.Errorf("%s by %q: got %v, want %v", state, why, got, want)
			}
		}
	}
}
