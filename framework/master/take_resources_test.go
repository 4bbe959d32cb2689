package master

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"pgregory.net/rapid"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/minimesos/resource"
)

// parseResource parses "name:value@provider/role/refined". A value in braces is a set, one in brackets ranges.
func parseResource(text string) mesos.Resource {
	name, rest, _ := strings.Cut(text, ":")
	rest, role, reserved := strings.Cut(rest, "/")
	value, provider, provided := strings.Cut(rest, "@")
	allocated := "gpu"
	r := mesos.Resource{Name: name, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &allocated}}
	if provided {
		r.ProviderID = &mesos.ResourceProviderID{Value: provider}
	}
	if reserved {
		for name := range strings.SplitSeq(role, "/") {
			r.Reservations = append(r.Reservations, mesos.Resource_ReservationInfo{Role: &name})
		}
	}
	kind := mesos.SCALAR
	if items, ok := strings.CutPrefix(value, "{"); ok {
		kind = mesos.SET
		r.Set = &mesos.Value_Set{Item: strings.Split(strings.TrimSuffix(items, "}"), ",")}
	} else if ranges, ok := strings.CutPrefix(value, "["); ok {
		kind = mesos.RANGES
		r.Ranges = &mesos.Value_Ranges{}
		for part := range strings.SplitSeq(strings.TrimSuffix(ranges, "]"), ",") {
			var one mesos.Value_Range
			fmt.Sscanf(part, "%d-%d", &one.Begin, &one.End)
			r.Ranges.Range = append(r.Ranges.Range, one)
		}
	} else {
		r.Scalar = &mesos.Value_Scalar{}
		fmt.Sscan(value, &r.Scalar.Value)
	}
	r.Type = &kind
	return r
}

func parseResources(text string) []mesos.Resource {
	var list []mesos.Resource
	for _, f := range strings.Fields(text) {
		list = append(list, parseResource(f))
	}
	return list
}

// formatResources is the inverse of res. It fails the test if the allocation is missing.
func formatResources(t *testing.T, list []mesos.Resource) string {
	var out []string
	for _, r := range list {
		if r.GetAllocationInfo().GetRole() != "gpu" {
			t.Errorf("%s has no allocation_info", r.Name)
		}
		text := fmt.Sprintf("%s:%g", r.Name, r.GetScalar().GetValue())
		if r.GetType() == mesos.SET {
			text = fmt.Sprintf("%s:{%s}", r.Name, strings.Join(r.GetSet().GetItem(), ","))
		}
		if r.GetType() == mesos.RANGES {
			text = r.Name + ":" + attributeText(&mesos.Attribute{Type: mesos.RANGES, Ranges: r.Ranges})
		}
		if r.ProviderID != nil {
			text += "@" + r.ProviderID.Value
		}
		for _, v := range r.Reservations {
			text += "/" + v.GetRole()
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestTakeResources(t *testing.T) {
	tests := map[string]struct {
		offered     string
		want        resourceRequest
		taken, rest string
		err         string
	}{
		"scalars": {
			offered: "cpus:4 mem:1024 disk:100", want: resourceRequest{cpus: 1.1, mem: 288},
			taken: "cpus:1.1 mem:288", rest: "cpus:2.9 mem:736 disk:100",
		},
		"entries of one name are drawn from in order": {
			offered: "cpus:0.1 cpus:1 mem:10 mem:20", want: resourceRequest{cpus: 0.3, mem: 10},
			taken: "cpus:0.1 cpus:0.2 mem:10", rest: "cpus:0.8 mem:20",
		},
		"what is reserved most narrowly goes first": {
			offered: "cpus:0.1 cpus:2/gpu cpus:1/gpu/gpu.team mem:10", want: resourceRequest{cpus: 2.3, mem: 10},
			taken: "cpus:1/gpu/gpu.team cpus:1.3/gpu mem:10", rest: "cpus:0.7/gpu cpus:0.1",
		},
		"ports": {
			offered: "ports:[31000-31005,31010-31010] cpus:1", want: resourceRequest{cpus: 1, ports: []int{31003, 31010, 31002, 31005}},
			taken: "cpus:1 ports:[31002-31003,31005-31005,31010-31010]", rest: "ports:[31000-31001,31004-31004]",
		},
		"ports of two reservations": {
			offered: "ports:[1-2] ports:[3-4]/gpu", want: resourceRequest{ports: []int{2, 3}},
			taken: "ports:[3-3]/gpu ports:[2-2]", rest: "ports:[4-4]/gpu ports:[1-1]",
		},
		"all ports":    {offered: "ports:[1-2]", want: resourceRequest{ports: []int{1, 2}}, taken: "ports:[1-2]"},
		"no such port": {offered: "ports:[1-2]", want: resourceRequest{ports: []int{3}}, err: "port 3 is not among the offered ports"},
		"a port twice": {offered: "ports:[1-2]", want: resourceRequest{ports: []int{2, 2}}, err: "port 2 is not among the offered ports"},
		"devices by name": {
			offered: "cpus:1 mem:1 gpu_ids:{a,b,c}@p gpus:3@p", want: resourceRequest{cpus: 1, mem: 1, gpus: 2, devices: []string{"c", "a"}},
			taken: "cpus:1 mem:1 gpus:2@p gpu_ids:{c,a}@p", rest: "gpu_ids:{b}@p gpus:1@p",
		},
		"each device's scalar comes from its provider": {
			offered: "gpus:1 gpus:2@p gpus:1@q gpu_ids:{a}@q gpu_ids:{b,c}@p", want: resourceRequest{gpus: 2, devices: []string{"a", "b"}},
			taken: "gpus:1@q gpus:1@p gpu_ids:{a}@q gpu_ids:{b}@p", rest: "gpus:1 gpus:1@p gpu_ids:{c}@p",
		},
		"a device whose provider has no scalar left": {
			offered: "gpus:2 gpu_ids:{a,b}@p", want: resourceRequest{gpus: 1, devices: []string{"b"}},
			taken: "gpus:1 gpu_ids:{b}@p", rest: "gpus:1 gpu_ids:{a}@p",
		},
		"GPUs by count": {
			offered: "gpus:1/gpu gpus:4", want: resourceRequest{gpus: 3},
			taken: "gpus:1/gpu gpus:2", rest: "gpus:2",
		},
		"parts of shared devices": {
			offered: "cpus:1 gpu_mem.GPU-a:16000@p gpu_cores.GPU-a:100@p gpu_mem.GPU-b:16000@p gpu_cores.GPU-b:100@p",
			want:    resourceRequest{cpus: 1, shares: []gpu.DeviceShare{{UUID: "GPU-b", MemMiB: 4096, Cores: 30}, {UUID: "GPU-a", MemMiB: 16000}}},
			taken:   "cpus:1 gpu_mem.GPU-b:4096@p gpu_cores.GPU-b:30@p gpu_mem.GPU-a:16000@p",
			rest:    "gpu_cores.GPU-a:100@p gpu_mem.GPU-b:11904@p gpu_cores.GPU-b:70@p",
		},
		"a part of two entries, the one that is reserved first": {
			offered: "gpu_mem.GPU-a:3000@p gpu_mem.GPU-a:2000@p/gpu gpu_cores.GPU-a:100@p",
			want:    resourceRequest{shares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 4000, Cores: 100}}},
			taken:   "gpu_mem.GPU-a:2000@p/gpu gpu_mem.GPU-a:2000@p gpu_cores.GPU-a:100@p", rest: "gpu_mem.GPU-a:1000@p",
		},
		"too little of a device": {offered: "gpu_mem.GPU-a:1000",
			want: resourceRequest{shares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 1001}}},
			err:  "task needs 1001 gpu_mem.GPU-a, offers have 1000"},
		"too few of its cores": {offered: "gpu_mem.GPU-a:1000 gpu_cores.GPU-a:20",
			want: resourceRequest{shares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 1000, Cores: 30}}},
			err:  "task needs 30 gpu_cores.GPU-a, offers have 20"},
		"too little":   {offered: "cpus:1 mem:1", want: resourceRequest{cpus: 2}, err: "task needs 2 cpus, offers have 1"},
		"too few GPUs": {offered: "gpus:1", want: resourceRequest{gpus: 2}, err: "task needs 2 gpus, offers have 1"},
		"no such device": {offered: "gpus:1 gpu_ids:{a}", want: resourceRequest{gpus: 1, devices: []string{"z"}},
			err: "device z is not among the offered gpu_ids"},
		"names and numbers": {offered: "gpus:2 gpu_ids:{a,b}", want: resourceRequest{gpus: 2, devices: []string{"a"}}, err: "requests 2 GPUs and names 1"},
		"taken twice":       {offered: "gpus:2 gpu_ids:{a,b}", want: resourceRequest{gpus: 2, devices: []string{"a", "a"}}, err: "device a is not among"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			offered := parseResources(tt.offered)
			taken, rest, err := takeResources(offered, tt.want)
			if formatResources(t, offered) != tt.offered {
				t.Errorf("carve changed its argument to %s", formatResources(t, offered))
			}
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := formatResources(t, taken); got != tt.taken {
				t.Errorf("taken %s, want %s", got, tt.taken)
			}
			if got := formatResources(t, rest); got != tt.rest {
				t.Errorf("rest %s, want %s", got, tt.rest)
			}
		})
	}
}

// TestTakeShares checks that the shares which tasks take are within the offer, each and in total, by the comparison
// that a master makes.
func TestTakeShares(t *testing.T) {
	offered := parseResources("cpus:4 mem:1024 gpu_mem.GPU-a:10000@p/gpu gpu_mem.GPU-a:6000@p gpu_cores.GPU-a:100@p " +
		"gpu_mem.GPU-b:16000.5@q gpu_cores.GPU-b:150@q gpu_ids:{GPU-c}@p gpus:1@p")
	rest := offered
	var taken []mesos.Resource
	for _, parts := range [][]gpu.DeviceShare{
		{{UUID: "GPU-a", MemMiB: 9000, Cores: 60}},
		{{UUID: "GPU-a", MemMiB: 3000}, {UUID: "GPU-b", MemMiB: 16000, Cores: 150}},
		{{UUID: "GPU-a", MemMiB: 4000, Cores: 40}},
	} {
		for _, p := range parts {
			for _, s := range sharedDevicesIn(rest) {
				if s.UUID == p.UUID && (s.MemMiB < p.MemMiB || s.Cores < p.Cores) {
					t.Fatalf("share %+v remains after taking %+v", s, p)
				}
			}
		}
		got, left, err := takeResources(rest, resourceRequest{cpus: 1, shares: parts})
		if err != nil {
			t.Fatal(err)
		}
		if !resource.Contains(rest, got) || !resource.Equal(resource.Subtract(rest, got), left) {
			t.Errorf("took %s of %s and left %s", formatResources(t, got), formatResources(t, rest), formatResources(t, left))
		}
		taken, rest = append(taken, got...), left
	}
	if !resource.Contains(offered, taken) {
		t.Errorf("took %s of %s", formatResources(t, taken), formatResources(t, offered))
	}
	if _, _, err := takeResources(rest, resourceRequest{shares: []gpu.DeviceShare{{UUID: "GPU-b", MemMiB: 1}}}); err == nil {
		t.Error("took 1 MiB although only 0.5 MiB was free")
	}
}

func sharedDevicesIn(resources []mesos.Resource) []sched.SharedDevice {
	all := sumResources(resources)
	return all.sharedDevices()
}

// TestSharedDevicesInOffers checks that offered amounts of shared devices are added up and rounded down to whole MiB
// and percent.
func TestSharedDevicesInOffers(t *testing.T) {
	for text, want := range map[string][]sched.SharedDevice{
		"gpus:1 gpu_ids:{GPU-a}": nil,
		"gpu_mem.GPU-b:100 gpu_mem.GPU-a:0.5 gpu_cores.GPU-a:30.5@p gpu_mem.GPU-a:7.5/gpu": {{UUID: "GPU-a", MemMiB: 8, Cores: 30}, {UUID: "GPU-b", MemMiB: 100}},
		"gpu_cores.GPU-a:70": {{UUID: "GPU-a", Cores: 70}},
		"gpu_mem.:5":         nil,
	} {
		if diff := cmp.Diff(want, sharedDevicesIn(parseResources(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	total, used := sumResources(parseResources("gpu_mem.GPU-a:100 gpu_cores.GPU-a:100 gpu_mem.GPU-b:50")),
		sumResources(parseResources("gpu_mem.GPU-a:40 gpu_cores.GPU-a:30 gpu_mem.GPU-b:60"))
	if diff := cmp.Diff([]sched.SharedDevice{{UUID: "GPU-a", MemMiB: 60, Cores: 70}, {UUID: "GPU-b"}}, total.subtractUsed(&used)); diff != "" {
		t.Errorf("what is free (-want +got):\n%s", diff)
	}
}

func TestTakeResourcesSkipsVolumes(t *testing.T) {
	volume, spare, shared := parseResource("disk:100"), parseResource("cpus:8"), parseResource("disk:50")
	volume.Disk = &mesos.Resource_DiskInfo{}
	spare.Revocable = &mesos.Resource_RevocableInfo{}
	shared.Shared = &mesos.Resource_SharedInfo{}
	offered := []mesos.Resource{volume, spare, shared, parseResource("cpus:1"), parseResource("disk:10")}
	if _, _, err := takeResources(offered, resourceRequest{disk: 11}); err == nil {
		t.Error("took a volume for plain disk")
	}
	if _, _, err := takeResources(offered, resourceRequest{cpus: 2}); err == nil {
		t.Error("took revocable cpus")
	}
	if got := sumResources(offered); got.amount.CPUs != 1 || got.amount.DiskMiB != 10 {
		t.Errorf("sum counts %+v, want 1 cpu and 10 MiB of disk", got.amount)
	}
}

// TestPreRefinementReservations covers agents before Mesos 1.4, which reserve by role alone.
func TestPreRefinementReservations(t *testing.T) {
	everybody, ours := "*", "gpu"
	free, kept := parseResource("cpus:1"), parseResource("cpus:2")
	free.Role, kept.Role = &everybody, &ours
	taken, _, err := takeResources([]mesos.Resource{free, kept}, resourceRequest{cpus: 2})
	if err != nil || len(taken) != 1 || taken[0].GetRole() != "gpu" {
		t.Errorf("took %v, %v", taken, err)
	}
}

// TestTakeResourcesPreservesSum checks that taken and remaining resources add up to the offer.
func TestTakeResourcesPreservesSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var offered []mesos.Resource
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			name := rapid.SampledFrom([]string{"cpus", "mem", "gpus"}).Draw(t, "name")
			n := rapid.IntRange(1, 50).Draw(t, "amount")
			if name != "gpus" {
				offered = append(offered, parseResource(fmt.Sprintf("%s:%g", name, float64(n)/10)))
			} else {
				offered = append(offered, parseResource(fmt.Sprintf("gpus:%d@p%d", n%4, n%2)), parseResource(fmt.Sprintf("gpu_ids:{d%d,e%d}@p%d",
					len(offered), len(offered), n%2)))
			}
		}
		before := sumResources(offered)
		w := resourceRequest{cpus: float64(rapid.IntRange(0, 60).Draw(t, "cpus")) / 10, mem: float64(rapid.IntRange(0, 6).Draw(t, "mem"))}
		w.devices = before.devices[:rapid.IntRange(0, len(before.devices)).Draw(t, "devices")]
		w.gpus = len(w.devices)
		fits := before.amount.CPUs >= w.cpus && before.amount.MemMiB >= w.mem && before.gpus >= w.gpus
		taken, rest, err := takeResources(offered, w)
		if (err == nil) != fits {
			t.Fatalf("fits: %t, error: %v", fits, err)
		}
		if err != nil {
			return
		}
		got, left := sumResources(taken), sumResources(rest)
		if toMilli(got.amount.CPUs) != toMilli(w.cpus) || toMilli(got.amount.MemMiB) != toMilli(w.mem) || got.gpus != w.gpus || len(got.devices) != w.gpus {
			t.Fatalf("wanted %+v, got %+v", w, got)
		}
		if diff := cmp.Diff(toMilli(before.amount.CPUs), toMilli(got.amount.CPUs)+toMilli(left.amount.CPUs)); diff != "" ||
			before.gpus != got.gpus+left.gpus || len(before.devices) != len(got.devices)+len(left.devices) {
			t.Fatalf("offered %+v, taken %+v, left %+v", before, got, left)
		}
	})
}
