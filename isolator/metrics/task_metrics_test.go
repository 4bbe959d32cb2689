package metrics

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/watch"
)

// Frameworks choose the names in labels: no name breaks a scrape, and the number of
// series is limited.
func TestLabelsAreBounded(t *testing.T) {
	c := newConfig(t)
	c.Agent = "agent\xff"
	long := strings.Repeat("ü", 1000)
	c.Holders = func() []gpu.ContainerDevices {
		list := []gpu.ContainerDevices{
			{Container: "c\xff\n\"", Task: long, Job: long, Devices: []string{"GPU-a"}},
			{Container: "c\xff\n\"", Task: long, Job: long, Devices: []string{"GPU-a", "GPU-a"}}, // a duplicate
		}
		for i := range 10_000 {
			list = append(list, gpu.ContainerDevices{Container: fmt.Sprint("c", i), Devices: []string{"GPU-a", "MIG-b"}})
		}
		return list
	}
	body := scrapeText(t, c)
	if n := strings.Count(body, "mesos_gpu_task_memory_used_bytes{"); n != maxHolderPairs {
		t.Errorf("%d tasks are shown, want %d", n, maxHolderPairs)
	}
	if want := fmt.Sprintf("mesos_gpu_holders_omitted{agent=\"agent?\"} %d", 20_001-maxHolderPairs); !strings.Contains(body, want) {
		t.Errorf("lacks %s", want)
	}
	for line := range strings.Lines(body) {
		if len(line) > 4*maxLabelBytes+500 {
			t.Fatalf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

func TestProcessesAreAttributed(t *testing.T) {
	c := newConfig(t)
	c.procRoot = makeProc(t, map[string]string{
		"1": "0::/mesos/c1\n", "2": "0::/mesos/c1/mesos/n1\n", "3": "0::/mesos/c2/leaf\n", "4": "0::/\n", "5": "broken", "6": "0::/mesos/other\n",
	})
	c.Devices = func() []watch.DeviceState {
		d := newConfig(t).Devices()[0]
		d.Sample.Processes = nil
		for i := range 7 { // the last one is no longer in /proc
			d.Sample.Processes = append(d.Sample.Processes, gpu.DeviceProcess{PID: i + 1, MemBytes: 1 << (4 * i)})
		}
		return []watch.DeviceState{d}
	}
	c.Holders = func() []gpu.ContainerDevices {
		return []gpu.ContainerDevices{
			{Container: "c1", Task: "t1", Devices: []string{"GPU-a"}}, {Container: "c2", Task: "t2", Devices: []string{"GPU-a"}},
			{Container: "c2", Task: "t3", Devices: []string{"GPU-a"}}, {Container: "other", Task: "t4", Devices: []string{"GPU-b"}},
		}
	}
	body := scrapeText(t, c)
	for task, want := range map[string]int{"t1": 0x11, "t2": 0x100} {
		line := fmt.Sprintf(`mesos_gpu_task_process_memory_bytes{agent="agent1",container="c%s",framework="",gpu="GPU-a",job="",model="Tesla V100-SXM2-16GB",task="%s"} %d`,
			task[1:], task, want)
		if !strings.Contains(body, line) {
			t.Errorf("lacks %s", line)
		}
	}
	if n := strings.Count(body, "mesos_gpu_task_process_memory_bytes{"); n != 2 {
		t.Errorf("%d tasks have processes, want 2", n)
	}
	if want := `mesos_gpu_unattributed_memory_bytes{agent="agent1",gpu="GPU-a",model="Tesla V100-SXM2-16GB"} 1.7895424e+07`; !strings.Contains(body, want) {
		t.Errorf("lacks %s", want)
	}
}

func TestContainerFromCgroups(t *testing.T) {
	known := map[string]bool{"c1": true, "c1.n1": true, "c1.n1.m": true, "c2": true}
	for name, c := range map[string]struct{ text, want string }{
		"v1":                    {"12:devices:/mesos/c1\n11:cpu,cpuacct:/mesos/c1\n", "c1"},
		"v2":                    {"0::/mesos/c2/leaf", "c2"},
		"below systemd's":       {"0::/system.slice/mesos.slice/c2\n", "c2"},
		"nested":                {"0::/mesos/c1/mesos/n1/mesos/m\n", "c1.n1.m"},
		"nested, not known":     {"0::/mesos/c1/mesos/n9/mesos/m\n", "c1"},
		"innermost of several":  {"2:cpu:/mesos/c1\n3:freezer:/mesos/c1/mesos/n1\n", "c1.n1"},
		"a name that holds one": {"0::/mesos/c1x/xc2\n", ""},
		"colons in the path":    {"1:name=systemd:/a:b/c2\n", "c2"},
		"docker's":              {"0::/system.slice/docker-0123.scope\n", ""},
		"none":                  {"", ""},
	} {
		if got := containerFromCgroups(strings.NewReader(c.text), func(id string) bool { return known[id] }); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Any text is parsed, and only known containers are found.
func FuzzFromCgroups(f *testing.F) {
	f.Add("0::/mesos/c1/mesos/n1\n")
	f.Add("12:devices:/mesos/c1\n:::::\n\n")
	known := map[string]bool{"c1": true, "c1.n1": true, "": true}
	f.Fuzz(func(t *testing.T, text string) {
		if got := containerFromCgroups(strings.NewReader(text), func(id string) bool { return known[id] }); !known[got] {
			t.Errorf("found %q", got)
		}
	})
}

// Measures one scrape of a full host: 16 GPUs, each held by a task with one process.
func BenchmarkScrape(b *testing.B) {
	cgroups := map[string]string{}
	var devices []watch.DeviceState
	var holders []gpu.ContainerDevices
	template := newConfig(b)
	for i := range 16 {
		d := template.Devices()[0]
		d.Device.UUID = fmt.Sprint("GPU-", i)
		d.Sample.Processes = []gpu.DeviceProcess{{PID: i + 1, MemBytes: 1 << 30}}
		devices = append(devices, d)
		container := fmt.Sprint("container-", i)
		cgroups[fmt.Sprint(i+1)] = "12:devices:/mesos/" + container + "\n"
		holders = append(holders, gpu.ContainerDevices{Container: container, Framework: "F", Task: fmt.Sprint("t", i), Job: "j", Devices: []string{d.Device.UUID}})
	}
	template.procRoot = makeProc(b, cgroups)
	template.Devices = func() []watch.DeviceState { return devices }
	template.Holders = func() []gpu.ContainerDevices { return holders }
	template.maxSampleAge = 1 << 62
	h, err := NewHandler(template)
	if err != nil {
		b.Fatal(err)
	}
	if n := strings.Count(getText(b, h), "mesos_gpu_task_"); n < 16*34 {
		b.Fatalf("%d task series", n)
	}
	b.ReportAllocs()
	for b.Loop() {
		getText(b, h)
	}
}
