package advertise

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/simulated"
)

func TestResources(t *testing.T) {
	h := host(t)
	for _, provider := range []string{"", "p"} {
		list := Resources(h, provider)
		if len(list) != 2 || list[0].Name != "gpus" || list[0].Scalar.Value != 3 || list[1].Name != "gpu_ids" {
			t.Fatalf("got %v", list)
		}
		for i, d := range h.Devices {
			if list[1].Set.Item[i] != d.UUID {
				t.Errorf("item %d is %s, want %s", i, list[1].Set.Item[i], d.UUID)
			}
		}
		for _, r := range list {
			if r.ProviderID.GetValue() != provider || (provider == "") != (r.ProviderID == nil) {
				t.Errorf("%s carries provider %v, want %q", r.Name, r.ProviderID, provider)
			}
		}
	}
	if list := Resources(gpu.Host{}, "p"); len(list) != 0 {
		t.Errorf("a host without GPUs has %v", list)
	}
}

func TestAttributes(t *testing.T) {
	h := host(t)
	list := Attributes(h)
	inventory, err := gpu.EncodeInventory(h)
	if err != nil {
		t.Fatal(err)
	}
	want := []mesos.Attribute{
		text("gpu_type", "V100"), text("gpu_type", "K80"), text("gpu_driver", "535.104.05"), text("gpu_cuda", "12.2"),
		{Name: "gpu_memory", Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 11441}},
		text("gpu_inventory", inventory),
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list := Attributes(gpu.Host{Driver: "535.104.05"}); len(list) != 0 {
		t.Errorf("a host without GPUs has %v", list)
	}
}

// parse reads the texts as Mesos's agent does: parts by ";", name by the
// first ":", spaces gone, numbers as scalars, braces as sets.
func parse(t *testing.T, flags string) map[string][]any {
	t.Helper()
	values := map[string][]any{}
	for part := range strings.SplitSeq(flags, ";") {
		name, value, ok := strings.Cut(part, ":")
		if !ok || name == "" || value == "" {
			t.Fatalf("Mesos would end at %q", part)
		}
		value = strings.ReplaceAll(value, " ", "")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = append(values[name], n)
		} else if strings.HasPrefix(value, "{") {
			for item := range strings.SplitSeq(strings.Trim(value, "{}"), ",") {
				values[name] = append(values[name], item)
			}
		} else if strings.ContainsAny(value, "[]{}()") {
			t.Fatalf("Mesos would not take %q for text", value)
		} else {
			values[name] = append(values[name], value)
		}
	}
	return values
}

func TestFlags(t *testing.T) {
	h, err := simulated.Host("1xV100,2xRTX 3090", "test")
	if err != nil {
		t.Fatal(err)
	}
	resources, attributes := Flags(h)
	ids := []any{h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID}
	if diff := cmp.Diff(map[string][]any{"gpus": {3.0}, "gpu_ids": ids}, parse(t, resources)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	got := parse(t, attributes)
	packed, _ := got[Inventory][0].(string)
	delete(got, Inventory)
	want := map[string][]any{
		"gpu_type": {"V100", "RTX3090"}, "gpu_driver": {"535.104.05"}, "gpu_cuda": {12.2}, "gpu_memory": {16160.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	back, err := gpu.DecodeInventory(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, back); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	if r, a := Flags(gpu.Host{}); r != "" || a != "" {
		t.Errorf("a host without GPUs has flags %q, %q", r, a)
	}
}
