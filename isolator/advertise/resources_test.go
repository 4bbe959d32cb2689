package advertise

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/isolator/simulated"
)

func TestResourcesOfMachine(t *testing.T) {
	h := host(t)
	for _, provider := range []string{"", "p"} {
		list := MachineGPUs{Host: h}.Resources(provider)
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
	if list := (MachineGPUs{}).Resources("p"); len(list) != 0 {
		t.Errorf("a host without GPUs has %v", list)
	}
}

func TestAttributes(t *testing.T) {
	h := host(t)
	list := MachineGPUs{Host: h}.Attributes()
	inventory, err := gpu.EncodeInventory(h.TrimPaths())
	if err != nil {
		t.Fatal(err)
	}
	want := []mesos.Attribute{
		textAttribute("gpu_type", "V100"), textAttribute("gpu_type", "K80"), textAttribute("gpu_driver", "535.104.05"), textAttribute("gpu_cuda", "12.2"),
		{Name: "gpu_memory", Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 11441}},
		textAttribute("gpu_inventory", inventory),
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if list := (MachineGPUs{Host: gpu.Host{Driver: "535.104.05"}}).Attributes(); len(list) != 0 {
		t.Errorf("a host without GPUs has %v", list)
	}
}

// parse splits the text as Mesos's agent does: resources at ";", the name at the first
// ":", without spaces; numbers are scalars, braces are sets.
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

func TestAgentFlags(t *testing.T) {
	h, err := simulated.NewHost("1xV100,2xRTX 3090", "test")
	if err != nil {
		t.Fatal(err)
	}
	resources, attributes := MachineGPUs{Host: h}.AgentFlags(false)
	ids := []any{h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID}
	if diff := cmp.Diff(map[string][]any{"gpus": {3.0}, "gpu_ids": ids}, parse(t, resources)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	got := parse(t, attributes)
	packed, _ := got[AttributeInventory][0].(string)
	delete(got, AttributeInventory)
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
	if diff := cmp.Diff(h.TrimPaths(), back); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	if r, a := (MachineGPUs{}).AgentFlags(false); r != "" || a != "" {
		t.Errorf("a host without GPUs has flags %q, %q", r, a)
	}
}

// machine has two named V100s with a reservation, and a stock MIG device of an A100 and a
// stock K80.
func machine(t *testing.T) MachineGPUs {
	t.Helper()
	h, err := simulated.NewHost("2xV100,1xK80", "test")
	if err != nil {
		t.Fatal(err)
	}
	mig := gpu.Device{
		UUID: "MIG-1", Model: "NVIDIA A100-SXM4-40GB MIG 1g.5gb", MemMiB: 4864, Minor: 3,
		MIG: &gpu.MIG{Parent: "GPU-p", Profile: "1g.5gb", GPUInstance: 7, GPUInstanceCap: 66, ComputeInstanceCap: 67},
	}
	stock := []gpu.Device{h.Devices[2], mig}
	h.Devices = h.Devices[:2]
	return MachineGPUs{Host: h, Stock: stock, Role: "research"}
}

func TestOnlyNamedDevicesAreReserved(t *testing.T) {
	m := machine(t)
	for _, r := range m.Resources("p") {
		want := []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &m.Role}}
		if diff := cmp.Diff(want, r.Reservations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r.Name, diff)
		}
	}
	m.Role = "*"
	for _, r := range m.Resources("p") {
		if r.Reservations != nil {
			t.Errorf("%s is reserved for everybody: %v", r.Name, r.Reservations)
		}
	}
}

func TestMachineFlags(t *testing.T) {
	m := machine(t)
	named := m.Host.Devices[0].UUID + "," + m.Host.Devices[1].UUID
	free := m
	free.Role = ""
	all := MachineGPUs{Host: m.Host}
	for name, c := range map[string]struct {
		machine  MachineGPUs
		provider bool
		want     string
	}{
		"all there is":            {m, false, "gpus(research):2;gpu_ids(research):{" + named + "};gpus:2"},
		"for any role":            {free, false, "gpus:2;gpu_ids:{" + named + "};gpus:2"},
		"with a provider":         {m, true, "gpus:2"},
		"nothing by count":        {all, true, "gpus:0"},
		"nothing by name":         {MachineGPUs{Stock: m.Stock}, false, "gpus:2"},
		"no GPUs":                 {MachineGPUs{}, false, ""},
		"no GPUs, and a provider": {MachineGPUs{}, true, "gpus:0"},
	} {
		if got, _ := c.machine.AgentFlags(c.provider); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// The attributes describe the whole machine, the inventory only the named devices.
func TestMachineAttributes(t *testing.T) {
	m := machine(t)
	_, flags := m.AgentFlags(true)
	got := parse(t, flags)
	packed, _ := got[AttributeInventory][0].(string)
	delete(got, AttributeInventory)
	want := map[string][]any{
		"gpu_type": {"V100", "K80", "A100"}, "gpu_driver": {"535.104.05"}, "gpu_cuda": {12.2}, "gpu_memory": {4864.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	back, err := gpu.DecodeInventory(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Host.TrimPaths(), back); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	for _, a := range (MachineGPUs{Stock: m.Stock}).Attributes() {
		if a.Name == AttributeInventory {
			t.Errorf("a machine without names has an inventory: %v", a)
		}
	}
}

// MIG devices count like GPUs, with names of their own.
func TestMIGDevicesAreAdvertised(t *testing.T) {
	m := machine(t)
	m = MachineGPUs{Host: gpu.Host{Driver: "d", CUDA: "12.2", Devices: m.Stock}}
	list := m.Resources("")
	if list[0].Scalar.Value != 2 || list[1].Set.Item[1] != "MIG-1" {
		t.Errorf("got %v", list)
	}
	if types := m.Attributes()[:2]; types[1].Text.Value != "A100" {
		t.Errorf("types %v", types)
	}
}

// The attributes of a GPU that may be repartitioned apply to every possible
// MIG device, and do not list the current ones.
func TestMarkRepartitioned(t *testing.T) {
	slice := gpu.Device{UUID: "MIG-1", Model: "NVIDIA A100 MIG 3g.20gb", MemMiB: 19456, MIG: &gpu.MIG{Parent: "GPU-cut"}}
	whole := gpu.Device{UUID: "GPU-cut", Model: "NVIDIA A100", MemMiB: 40960}
	for name, others := range map[string][]gpu.Device{"alone": nil, "with another": {{UUID: "GPU-a", Model: "NVIDIA A100", MemMiB: 40960}}} {
		t.Run(name, func(t *testing.T) {
			m := MachineGPUs{Host: gpu.Host{Driver: "550.54.15", CUDA: "12.4", Devices: append([]gpu.Device{slice}, others...)}}
			m.MarkRepartitioned(whole, layouttest.A100())
			resources, attributes := m.AgentFlags(true)
			if want := "gpu_type:A100;gpu_driver:550.54.15;gpu_cuda:12.4;gpu_memory:4864"; resources != "gpus:0" || !strings.HasPrefix(attributes, want) {
				t.Errorf("got %s, %s; want %s", resources, attributes, want)
			}
			var listed []gpu.Device
			if _, text, ok := strings.Cut(attributes, ";gpu_inventory:"); ok {
				h, err := gpu.DecodeInventory(text)
				if err != nil {
					t.Fatal(err)
				}
				listed = h.Devices
			}
			if diff := cmp.Diff(others, listed); diff != "" {
				t.Errorf("inventory (-want +got):\n%s", diff)
			}
		})
	}
}

// The memory of a display card is not that of the GPUs for jobs.
func TestMemoryIsWithoutDisplayCards(t *testing.T) {
	card := gpu.Device{UUID: "GPU-d", Model: "NVIDIA DGX Display", MemMiB: 4096}
	a100 := gpu.Device{UUID: "GPU-a", Model: "NVIDIA A100-SXM4-80GB", MemMiB: 81920, Minor: 1}
	for want, devices := range map[float64][]gpu.Device{81920: {card, a100}, 4096: {card}} {
		for _, a := range (MachineGPUs{Host: gpu.Host{Devices: devices}}).Attributes() {
			if a.Name == AttributeMemory && a.Scalar.Value != want {
				t.Errorf("gpu_memory of %v is %g, want %g", devices, a.Scalar.Value, want)
			}
		}
	}
}
