package gpu

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestShareOfADevice(t *testing.T) {
	for _, c := range []struct {
		share            ShareRequest
		want             int64
		whole, exclusive bool
		text, asked      string
	}{
		{ShareRequest{}, 0, true, false, "", "2 GPUs"},
		{ShareRequest{MemMiB: 4096, Cores: 30}, 4096, false, false, "4096 MiB and 30 % cores", "2 x (4096 MiB, 30 %)"},
		{ShareRequest{MemMiB: 99999}, 99999, false, false, "99999 MiB", "2 x (99999 MiB)"},
		{ShareRequest{MemPercent: 33}, 5332, false, false, "33 % memory", "2 x (33 % memory)"},
		{ShareRequest{MemPercent: 33, Cores: 10}, 5332, false, false, "33 % memory and 10 % cores", "2 x (33 % memory, 10 %)"},
		{ShareRequest{Cores: 25}, 4040, false, false, "25 % cores", "2 x (25 %)"},
		{ShareRequest{Cores: 100}, 16160, false, true, "100 % cores", "2 x (100 %)"},
		{ShareRequest{MemMiB: 1, Cores: 100}, 16160, false, true, "1 MiB and 100 % cores", "2 x (100 %)"},
	} {
		if got := c.share.MemOf(16160); got != c.want || c.share.IsWhole() != c.whole || c.share.IsExclusive() != c.exclusive || c.share.String() != c.text {
			t.Errorf("%+v: %d MiB, whole %t, exclusive %t, %q; want %+v", c.share, got, c.share.IsWhole(), c.share.IsExclusive(), c.share, c)
		}
		if err := c.share.Validate(); err != nil {
			t.Errorf("%+v: %v", c.share, err)
		}
		if got := (Request{GPUs: 2, Share: c.share}).String(); got != c.asked {
			t.Errorf("%+v is asked as %q, want %q", c.share, got, c.asked)
		}
	}
	if got := (Request{GPUs: 1, Share: ShareRequest{MemPercent: 50}, Types: TypeSelector{Include: []string{"T4"}}}).String(); got != "1 x (50 % memory) of T4" {
		t.Errorf("a share of a type is %q", got)
	}
}

func TestShareRequestValidate(t *testing.T) {
	for want, s := range map[string]ShareRequest{
		"memory of a share is -1 MiB": {MemMiB: -1}, "memory of a share is 101 %": {MemPercent: 101}, "memory of a share is -1 %": {MemPercent: -1},
		"cores of a share are 101 %": {Cores: 101}, "cores of a share are -1 %": {Cores: -1}, "in MiB and in percent: give one": {MemMiB: 1, MemPercent: 1},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", s, err, want)
		}
	}
}

func TestDeviceShareString(t *testing.T) {
	for want, p := range map[string]DeviceShare{
		"GPU-a (4096 MiB, 30 %)":   {UUID: "GPU-a", MemMiB: 4096, Cores: 30},
		"GPU-a (4096 MiB)":         {UUID: "GPU-a", MemMiB: 4096},
		"GPU-a (16160 MiB, 100 %)": {UUID: "GPU-a", MemMiB: 16160, Cores: 100},
	} {
		if p.String() != want {
			t.Errorf("%+v is %q, want %q", p, p, want)
		}
	}
	text, err := json.Marshal(Request{GPUs: 1})
	if err != nil || strings.Contains(string(text), "share") {
		t.Errorf("a request for whole GPUs is %s, %v", text, err)
	}
}

func TestShareResources(t *testing.T) {
	for name, want := range map[string]struct {
		uuid      string
		cores, ok bool
	}{
		MemResource("GPU-a"): {"GPU-a", false, true}, CoresResource("GPU-a"): {"GPU-a", true, true},
		"gpu_mem.": {"", false, false}, "gpu_cores.": {"", true, false}, "gpus": {"gpus", true, false}, "mem": {"mem", true, false},
	} {
		if uuid, cores, ok := ShareResource(name); ok != want.ok || ok && (uuid != want.uuid || cores != want.cores) {
			t.Errorf("%s: got %q, %t, %t, want %+v", name, uuid, cores, ok, want)
		}
	}
	if m := EnforcementMethods(); m[0] != EnforcedByMIG || m[len(m)-1] != NotEnforced {
		t.Errorf("methods %v", m)
	}
}
