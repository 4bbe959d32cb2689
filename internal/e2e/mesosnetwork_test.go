//go:build mesos

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
)

// cniFolder has the plugins of Debian's package containernetworking-plugins.
const cniFolder = "/usr/lib/cni"

// cniSubnet has the addresses of the test's network. The bridge has the first.
var cniSubnet = netip.MustParsePrefix("10.213.17.0/24")

// writeCNINetwork writes the configuration of the network "front" and its plugin, which records
// the configuration that it gets from the agent and then runs the plugin bridge. It returns the
// agent's flags and the folder of the records.
func writeCNINetwork(t *testing.T) (flags []string, records string) {
	t.Helper()
	testneeds.RequireRoot(t)
	t.Setenv("PATH", os.Getenv("PATH")+":"+cniFolder)
	testneeds.RequireProgram(t, "host-local", "containernetworking-plugins")
	dir := t.TempDir()
	records = filepath.Join(dir, "records")
	bridge := fmt.Sprintf("mgpu-%d", os.Getpid())
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", bridge).CombinedOutput(); err != nil && !strings.Contains(string(out), "Cannot find device") {
			t.Errorf("bridge %s was not removed: %v: %s", bridge, err, out)
		}
	})
	// Mesos reads the addresses of results in version 0.2.0 only.
	config := fmt.Sprintf(`{"cniVersion": "0.2.0", "name": "front", "type": "record", "bridge": %q, "isGateway": true,
		"ipam": {"type": "host-local", "dataDir": %q, "subnet": %q, "routes": [{"dst": "0.0.0.0/0"}]}}`, bridge, filepath.Join(dir, "leases"), cniSubnet)
	plugin := fmt.Sprintf("#!/bin/sh\nset -e\ncat >%[1]s/$CNI_COMMAND-$CNI_CONTAINERID\nexec %[2]s/bridge <%[1]s/$CNI_COMMAND-$CNI_CONTAINERID\n",
		records, cniFolder)
	for path, text := range map[string]string{"records/README": "configurations that the agent passed", "networks/front.conf": config, "plugins/record": plugin} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"--isolation=cgroups/devices,gpu/nvidia,filesystem/linux,docker/runtime,network/cni", "--http_executor_domain_sockets",
		"--network_cni_config_dir=" + filepath.Join(dir, "networks"), "--network_cni_plugins_dir=" + filepath.Join(dir, "plugins") + ":" + cniFolder,
	}, records
}

// cniRecord is the part of a CNI call that describes the container.
type cniRecord struct {
	Args struct {
		Mesos struct {
			NetworkInfo struct {
				Name         string
				Labels       struct{ Labels []struct{ Key, Value string } }
				PortMappings []struct {
					HostPort      int `json:"host_port"`
					ContainerPort int `json:"container_port"`
				} `json:"port_mappings"`
			} `json:"network_info"`
		} `json:"org.apache.mesos"`
	}
}

func readCNIRecords(t *testing.T, dir string) (all []cniRecord) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "ADD-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var r cniRecord
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		all = append(all, r)
	}
	return all
}

// TestMesosAppsJoinCNINetworks runs Marathon apps with GPUs and MESOS containers on a CNI network, with and
// without an image: each instance has an address of its own, at which other hosts and its health
// check reach it, and the plugin gets labels and port mappings.
func TestMesosAppsJoinCNINetworks(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	testneeds.RequireProgram(t, "busybox", "busybox-static")
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-cni", nil, nil))
	flags, records := writeCNINetwork(t)
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, nil, flags...)
	testimage.SaveImage(t, docker, image, m.imagesDir)
	c := m.startScheduler(t)
	seen := map[netip.Addr]bool{}
	containers := map[string]string{"plain": `"type": "MESOS"`, "image": `"type": "MESOS", "docker": {"image": "` + image + `"}`}
	if !startsMesosImages() {
		delete(containers, "image")
	}
	for name, container := range containers {
		c.mustCallMarathon(http.MethodPost, "/apps", fmt.Sprintf(`{"id": "/cni/%s", "cmd": "cd $MESOS_SANDBOX; echo it is %[1]s > index.html; exec busybox httpd -f -p 8080", "cpus": 0.1, "mem": 64, "gpus": 1,
			"networks": [{"mode": "container", "name": "front", "labels": {"policy": "web"}}], "container": {%s, "portMappings": [{"containerPort": 8080, "hostPort": 0, "name": "http"}]},
			"healthChecks": [{"protocol": "MESOS_HTTP", "path": "/index.html", "portIndex": 0, "intervalSeconds": 1, "delaySeconds": 0}], "taskKillGracePeriodSeconds": 1}`,
			name, container))
		app := c.awaitApp("/cni/"+name, "be healthy", func(a *appView) bool { return a.TasksHealthy == 1 || a.LastTaskFailure != nil })
		if app.TasksHealthy != 1 {
			t.Fatalf("%s failed: %s", name, app.LastTaskFailure.Message)
		}
		task := app.Tasks[0]
		if len(task.IPAddresses) != 1 {
			t.Fatalf("%s has the addresses %v, want one", name, task.IPAddresses)
		}
		ip, err := netip.ParseAddr(task.IPAddresses[0].IPAddress)
		if err != nil || !cniSubnet.Contains(ip) || seen[ip] {
			t.Errorf("%s has the address %s, want one of its own in %s", name, ip, cniSubnet)
		}
		seen[ip] = true
		if status, answer := c.sendRequest(http.MethodGet, "http://"+netip.AddrPortFrom(ip, 8080).String()+"/index.html", ""); status != http.StatusOK ||
			string(answer) != "it is "+name+"\n" {
			t.Errorf("%s answers %d: %s", name, status, answer)
		}
		jobName, _, _ := strings.Cut(task.ID, ".0.")
		if view := c.mustRun("describe", "-o", "json", jobName); !strings.Contains(view, `"`+ip.String()+`"`) {
			t.Errorf("describe does not contain the address %s:\n%s", ip, view)
		}
		if !slices.ContainsFunc(readCNIRecords(t, records), func(r cniRecord) bool {
			n := r.Args.Mesos.NetworkInfo
			return n.Name == "front" && len(n.Labels.Labels) == 1 && n.Labels.Labels[0].Value == "web" && len(n.PortMappings) == 1 &&
				n.PortMappings[0].ContainerPort == 8080 && n.PortMappings[0].HostPort == task.Ports[0]
		}) {
			t.Errorf("the plugin got %+v, want the label policy=web and host port %d for 8080", readCNIRecords(t, records), task.Ports[0])
		}
	}
	if n := len(readCNIRecords(t, records)); n != len(containers) {
		t.Errorf("%d containers joined the network, want the executors of %d tasks", n, len(containers))
	}
	c.mustCallMarathon(http.MethodDelete, "/groups/cni?force=true", "")
	apachemesos.PollUntil(t, "the apps to go", func() bool { return c.countApps() == 0 })
	if !startsMesosImages() && !t.Failed() {
		t.Skip("the app without an image passed. This kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
}

// TestMesosReportsUnknownCNINetwork checks that a job of a network that the agent lacks fails with
// Mesos's message.
func TestMesosReportsUnknownCNINetwork(t *testing.T) {
	flags, _ := writeCNINetwork(t)
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, nil, flags...)
	c := m.startScheduler(t)
	c.mustRun("submit", writeJobFile(t, "other.yaml", "name: other\ncommand: 'true'\nnetwork: other\n"))
	view := c.awaitJob("other", func(v *api.JobView) bool { return v.Terminal })
	if message := view.Tasks[0].Message; !strings.Contains(message, "'other'") {
		t.Errorf("ended %s: %s", view.State, message)
	}
}
