package master

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestAttributeTexts(t *testing.T) {
	scalar := func(x float64) mesos.Attribute {
		return mesos.Attribute{Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: x}}
	}
	for want, a := range map[string]mesos.Attribute{
		"rack 7":    {Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "rack 7"}},
		"12.2":      scalar(12.2),
		"8":         scalar(8),
		"100":       scalar(100),
		"0.062":     scalar(0.0625),
		"0.188":     scalar(0.1875),
		"[1-2,5-6]": {Type: mesos.RANGES, Ranges: &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 5, End: 6}, {Begin: 1, End: 2}}}},
		"{a,b}":     {Type: mesos.SET, Set: &mesos.Value_Set{Item: []string{"b", "a"}}},
		"{}":        {Type: mesos.SET},
	} {
		if got := attributeText(&a); got != want {
			t.Errorf("%v is %q, want %q", a, got, want)
		}
	}
}

// TestConvertOffer checks all fields of an offer except amounts and devices.
func TestConvertOffer(t *testing.T) {
	role := "team"
	text := func(name, value string) mesos.Attribute {
		return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
	}
	got := newTestClient(t).convertOffer(&mesos.Offer{
		ID: mesos.OfferID{Value: "o1"}, AgentID: mesos.AgentID{Value: "a1"}, Hostname: "h1",
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Resources:      []mesos.Resource{parseResource("ports:[31000-31002,31005-31005]"), parseResource("cpus:2"), parseResource("ports:[1-1]/team")},
		Attributes:     []mesos.Attribute{text(attrDriver, "535.104.05"), text("rack", "1"), text(attrCUDA, "12.2"), text("rack", "2")},
		Domain: &mesos.DomainInfo{FaultDomain: &mesos.DomainInfo_FaultDomain{
			Region: mesos.DomainInfo_FaultDomain_RegionInfo{Name: "eu"}, Zone: mesos.DomainInfo_FaultDomain_ZoneInfo{Name: "eu-1"},
		}},
		Unavailability: &mesos.Unavailability{Start: mesos.TimeInfo{Nanoseconds: 1_800_000_000_000_000_000}},
	})
	want := sched.Offer{
		ID: "o1", AgentID: "a1", Hostname: "h1", Role: "team", Free: sched.Amount{CPUs: 2}, Reserved: true, Unreserved: true,
		Driver: "535.104.05", CUDA: "12.2", Region: "eu", Zone: "eu-1", Unavailable: time.Unix(1_800_000_000, 0),
		Attributes: []sched.Attribute{
			{Name: "gpu_driver", Value: "535.104.05"},
			{Name: "rack", Value: "1"},
			{Name: "gpu_cuda", Value: "12.2"},
			{Name: "rack", Value: "2"},
		},
		Ports: []sched.PortRange{{First: 31000, Last: 31002}, {First: 31005, Last: 31005}, {First: 1, Last: 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offer (-want +got):\n%s", diff)
	}
}

// TestStockGPUsAreNotCounted checks that GPUs without an id are ignored if an agent offers devices by id. They are
// for frameworks that use GPUs by count.
func TestStockGPUsAreNotCounted(t *testing.T) {
	inventory, err := gpu.EncodeInventory(gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a", Model: "Tesla V100"}, {UUID: "GPU-b", Model: "Tesla V100"}}})
	if err != nil {
		t.Fatal(err)
	}
	named := []mesos.Attribute{{Name: attrInventory, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: inventory}}}
	for _, c := range []struct {
		name       string
		attributes []mesos.Attribute
		resources  []mesos.Resource
		gpus       int
	}{
		{"two named, three set aside", named, []mesos.Resource{parseResource("gpus:3"), parseResource("gpus:2"), parseResource("gpu_ids:{GPU-a,GPU-b}")}, 2},
		{"all named ones taken", named, []mesos.Resource{parseResource("gpus:3")}, 0},
		{"an agent that names none", nil, []mesos.Resource{parseResource("gpus:3")}, 3},
	} {
		got := newTestClient(t).convertOffer(&mesos.Offer{Resources: c.resources, Attributes: c.attributes})
		if got.GPUs != c.gpus {
			t.Errorf("%s: %d GPUs, want %d", c.name, got.GPUs, c.gpus)
		}
	}
}

func newOffer(id, role string, resources ...mesos.Resource) mesos.Offer {
	return mesos.Offer{ID: mesos.OfferID{Value: id}, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role}, Resources: resources}
}

// TestTaskGetsPortsAndEnvironment checks that a task is sent the variables of its job and of the scheduler, which take
// precedence.
func TestTaskGetsPortsAndEnvironment(t *testing.T) {
	spec := &job.Spec{Name: "t", CPUs: 1, Env: map[string]string{"RANK": "mine", "LANG": "C"}}
	accept := sched.AcceptOffers{AgentID: "a1", Launches: []sched.TaskLaunch{
		{TaskID: "t1", Spec: spec, Attempt: 3, Host: "a", Ports: []int{31001}, Peers: []job.GangPeer{{Host: "a"}}},
		{TaskID: "t2", Spec: spec, Ports: []int{31000, 31002}},
	}}
	tasks, _, err := newTestClient(t).buildTasks(accept, []mesos.Offer{newOffer("o1", "r", parseResource("cpus:2"), parseResource("ports:[31000-31002]"))}, "f")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		resources string
		env       map[string]string
	}{
		{"cpus:1 ports:[31001-31001]", map[string]string{"RANK": "0", "PORT0": "31001", "LANG": "C", "MESOS_GPU_RESTART_COUNT": "2"}},
		{"cpus:1 ports:[31000-31000,31002-31002]", map[string]string{"RANK": "mine", "PORT1": "31002", "LANG": "C", "MESOS_GPU_RESTART_COUNT": "0"}},
	} {
		launch, _, err := job.ParseLaunch(tasks[i].Data)
		if err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(launch.Env, func(name, _ string) bool { return want.env[name] == "" })
		if diff := cmp.Diff(want.env, launch.Env); diff != "" || formatResources(t, tasks[i].Resources) != want.resources {
			t.Errorf("task %s has %s, environment (-want +got):\n%s", tasks[i].TaskID.Value, formatResources(t, tasks[i].Resources), diff)
		}
	}
	if spec.Env["RANK"] != "mine" {
		t.Error("the job's environment was changed")
	}
}

// TestExecutorHasHostsToFetchFrom checks that only an executor of a task with files to fetch has the label, and that an empty
// list differs from none.
func TestExecutorHasHostsToFetchFrom(t *testing.T) {
	files := &job.Spec{Name: "t", CPUs: 1, Container: job.Container{Fetch: []job.FetchArtifact{{URI: "https://example.org/x"}}}}
	for _, c := range []struct {
		name  string
		spec  *job.Spec
		hosts job.FetchHosts
		want  string
	}{
		{"any host", files, nil, "none"},
		{"no host", files, job.FetchHosts{}, ""},
		{"two hosts", files, job.FetchHosts{"a", "*.b:1"}, "a *.b:1"},
		{"no files", &job.Spec{Name: "t", CPUs: 1}, job.FetchHosts{"a"}, "none"},
	} {
		accept := sched.AcceptOffers{AgentID: "a1", Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: c.spec, FetchHosts: c.hosts}}}
		tasks, _, err := newTestClient(t).buildTasks(accept, []mesos.Offer{newOffer("o1", "r", parseResource("cpus:2"))}, "f")
		if err != nil {
			t.Fatal(err)
		}
		got := "none"
		for _, l := range tasks[0].Executor.GetLabels().GetLabels() {
			if l.Key == job.FetchHostsLabel {
				got = l.GetValue()
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestAcceptRejectsOffersOfTwoRoles: the master would refuse the whole ACCEPT.
func TestAcceptRejectsOffersOfTwoRoles(t *testing.T) {
	accept := sched.AcceptOffers{AgentID: "a1", Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: &job.Spec{Name: "t", CPUs: 2}}}}
	_, _, err := newTestClient(t).buildTasks(accept,
		[]mesos.Offer{newOffer("o1", "r", parseResource("cpus:1")), newOffer("o2", "s", parseResource("cpus:1"))}, "f")
	if err == nil || !strings.Contains(err.Error(), "offers o1 and o2 of agent a1 are allocated to roles r and s") {
		t.Errorf("error %v", err)
	}
}

// TestFrameworkInfo checks the fields for users and for the allocator.
func TestFrameworkInfo(t *testing.T) {
	cfg := ConnectionConfig{WebURL: "http://h:8080", MinOffer: sched.Amount{CPUs: 0.2, MemMiB: 64}}
	info := cfg.frameworkInfo("", []string{"a", "b"})
	if info.GetWebUiURL() != "http://h:8080" || info.Principal != nil {
		t.Errorf("info %v", info)
	}
	for _, role := range []string{"a", "b"} {
		filter := info.OfferFilters[role]
		least := filter.GetMinAllocatableResources().GetQuantities()
		if len(least) != 1 || len(least[0].Quantities) != 2 || least[0].Quantities["cpus"].Value != 0.2 || least[0].Quantities["mem"].Value != 64 {
			t.Errorf("role %s is offered no less than %v", role, least)
		}
	}
	if bare := (&ConnectionConfig{}).frameworkInfo("", []string{"a"}); bare.OfferFilters != nil || bare.WebUiURL != nil {
		t.Errorf("info %v", bare)
	}
	if !slices.Equal(info.Roles, []string{"a", "b"}) {
		t.Errorf("roles %v", info.Roles)
	}
}

// A task takes the gpus scalar and the id of each GPU that is not shared, and all of each shared one. The executor learns
// whether it requested whole GPUs.
func TestTaskTakesWholeAndSharedGPUs(t *testing.T) {
	all := gpu.DeviceShare{UUID: "GPU-b", MemMiB: 16000, Cores: 100}
	for name, c := range map[string]struct {
		request gpu.Request
		shares  []gpu.DeviceShare
		want    resourceRequest
		isWhole bool
	}{
		"not shared": {gpu.Request{GPUs: 2}, nil, resourceRequest{gpus: 2, devices: []string{"GPU-a", "GPU-b"}}, false},
		"both": {gpu.Request{GPUs: 2}, []gpu.DeviceShare{all},
			resourceRequest{gpus: 1, devices: []string{"GPU-a"}, shares: []gpu.DeviceShare{all}}, true},
		"shares": {gpu.Request{GPUs: 2, Share: gpu.ShareRequest{Cores: 100}}, []gpu.DeviceShare{all, {UUID: "GPU-a", MemMiB: 16000, Cores: 100}},
			resourceRequest{shares: []gpu.DeviceShare{all, {UUID: "GPU-a", MemMiB: 16000, Cores: 100}}}, false},
	} {
		l := sched.TaskLaunch{Spec: &job.Spec{Request: c.request}, DeviceIDs: []string{"GPU-a", "GPU-b"}, Shares: c.shares}
		if diff := cmp.Diff(c.want, taskResources(l), cmp.AllowUnexported(resourceRequest{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := holdsWholeShared(l); got != c.isWhole {
			t.Errorf("%s: whole GPUs among the shared ones: %t, want %t", name, got, c.isWhole)
		}
	}
}
