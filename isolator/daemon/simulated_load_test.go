package daemon

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/isolator/simulated"
)

func TestListGPUProcesses(t *testing.T) {
	c := exec.Command("sleep", "1000")
	c.Env = []string{"A=b", "NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	var list []simulated.Process
	i := -1
	for end := time.Now().Add(time.Minute); i < 0 || list[i].ResidentBytes == 0; { // it has no memory while it starts
		if time.Now().After(end) {
			t.Fatalf("not among %+v, or without memory", list)
		}
		list = listGPUProcesses()
		i = slices.IndexFunc(list, func(p simulated.Process) bool { return p.PID == c.Process.Pid })
	}
	if p := list[i]; !slices.Equal(p.Devices, []string{"GPU-a", "GPU-b"}) || p.ResidentBytes < 1<<12 || p.ResidentBytes > 1<<30 ||
		p.CPUTime < 0 || p.CPUTime > time.Minute {
		t.Errorf("got %+v", p)
	}
	if slices.ContainsFunc(list, func(p simulated.Process) bool { return p.PID == os.Getpid() }) {
		t.Error("this process has no GPU")
	}
}

func TestFindVisibleDevices(t *testing.T) {
	for environ, want := range map[string][]string{
		"": nil, "A=GPU-1\x00": nil, "NVIDIA_VISIBLE_DEVICES=all\x00": nil, "XNVIDIA_VISIBLE_DEVICES=GPU-1\x00": nil,
		"A=b\x00NVIDIA_VISIBLE_DEVICES=GPU-1,GPU-2\x00C=d": {"GPU-1", "GPU-2"},
	} {
		if diff := cmp.Diff(want, findVisibleDevices([]byte(environ))); diff != "" {
			t.Errorf("%q: (-want +got):\n%s", environ, diff)
		}
	}
}

func TestParseProcessStat(t *testing.T) {
	const fields = " S 1 2 3 0 -1 4194560 5 6 7 8 250 50 9 10 20 0 1 0 11 12 3 18446744073709551615"
	for stat, ok := range map[string]bool{
		"7 (sh)" + fields:      true,
		"7 (a) b (c)" + fields: true,
		"":                     false,
		"7 (sh) S 1":           false,
		"7 (sh" + fields:       false,
		"7 (sh) S 1 2 3 0 -1 4194560 5 6 7 8 x 50 9 10 20 0 1 0 11 12 3 4": false,
	} {
		p, got := parseProcessStat(stat)
		if got != ok || ok && (p.CPUTime != 3*time.Second || p.ResidentBytes != 3*int64(os.Getpagesize())) {
			t.Errorf("%q: %+v, %v", stat, p, got)
		}
	}
}
