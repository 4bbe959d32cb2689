//go:build mesos

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
)

// moduleAgent is an unmodified Mesos agent that loads our module, with the socket of its
// daemon and a folder into which its tasks write.
type moduleAgent struct {
	*apachemesos.MesosProcess
	master, socket, notes string
}

func startModuleAgent(t *testing.T, resources string, flags ...string) *moduleAgent {
	t.Helper()
	testneeds.RequireDevicesCgroup(t)
	if hasDriver() {
		t.Skip("this machine has a driver: the nodes would open")
	}
	work := t.TempDir()
	a := &moduleAgent{socket: filepath.Join(work, "agent.sock"), notes: filepath.Join(work, "notes")}
	if err := os.Mkdir(a.notes, 0o777); err != nil {
		t.Fatal(err)
	}
	a.master = apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr
	so := buildModule(t)
	modules := fmt.Sprintf(`{"libraries":[{"file":%q,"modules":[{"name":"io_mesosgpu_GpuIsolator","parameters":[
		{"key":"socket","value":%q},{"key":"timeout","value":"3secs"},{"key":"runtime_dir","value":%q}]}]}]}`, so, a.socket, filepath.Join(work, "run"))
	a.MesosProcess = apachemesos.AgentProcess{
		Master: a.master, IP: "127.0.0.1", RuntimeDir: filepath.Join(work, "run"), Prepare: prepareDevScript, Env: []string{"WORK=" + work},
		ExecutorEnv: map[string]string{"MESOS_GPU_SOCKET": a.socket, "MESOS_GPU_DEV": filepath.Join(work, "nodes")},
		Flags: append([]string{"--modules=" + modules, "--resources=cpus:8;mem:4096;disk:1024;" + resources,
			"--isolation=cgroups/devices,filesystem/linux,docker/runtime,volume/host_path,io_mesosgpu_GpuIsolator"}, flags...),
	}.Start(t)
	a.AwaitReady(t)
	return a
}

// buildModule runs "make module", which does nothing if the module is up to date.
func buildModule(t *testing.T) string {
	t.Helper()
	testneeds.RequireProgram(t, "g++", "g++")
	out, err := exec.Command("make", "-s", "-j2", "-C", "../../isolator/module", "module").CombinedOutput()
	if err != nil {
		t.Fatalf("build the module: %v\n%s", err, out)
	}
	so, err := filepath.Abs("../../bin/libmesosgpumodule.so")
	if err != nil {
		t.Fatal(err)
	}
	return so
}

// restart kills the agent and starts it again. It recovers its containers.
func (a *moduleAgent) restart(t *testing.T) {
	t.Helper()
	a.MesosProcess.Kill(t)
	a.MesosProcess = a.MesosProcess.Restart(t)
	a.AwaitReady(t)
}

// agentFlag returns the value of one of the agent's flags.
func (a *moduleAgent) agentFlag(t *testing.T, name string) string {
	t.Helper()
	var v struct{ Flags map[string]string }
	a.getJSON(t, "/flags", &v)
	return v.Flags[name]
}

func (a *moduleAgent) getJSON(t *testing.T, path string, into any) {
	t.Helper()
	resp, err := http.Get("http://" + a.Addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// startDaemon runs "mesos-gpu agent" for the agent until kill is called. stock are the devices
// that it assigns by count.
func (a *moduleAgent) startDaemon(t *testing.T, stock string, flags ...string) (kill func()) {
	t.Helper()
	driver := a.notes + "-driver"
	if err := volumemgr.WriteSimulatedDriver(driver, simulated.DriverVersion); err != nil {
		t.Fatal(err)
	}
	p := apachemesos.Spawn(t, nil, binary, append([]string{"agent", "--agent", "http://" + a.Addr, "--simulate", "4xV100", "--stock", stock,
		"--socket", a.socket, "--runtime-dir", a.notes + "-runtime", "--state-dir", a.notes + "-state", "--volumes", a.notes + "-volumes", "--driver-root", driver,
		"--listen", "", "--cgroups-root", a.agentFlag(t, "cgroups_root")}, flags...)...)
	apachemesos.PollUntil(t, "the daemon's socket", func() bool {
		c, err := net.Dial("unix", a.socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return func() { p.Kill(t) }
}

// openDevicesScript is the command of the tasks in these tests: it records which devices it
// can open, at its start and on request, and ends on request.
const openDevicesScript = `look() {
  for n in 0 1 2 3; do
    if e=$( { : </dev/nvidia$n; } 2>&1 ); then e=open; fi
    echo "nvidia$n ${e##*: }"
  done >"$1.new"
  mv "$1.new" "$1"
}
look %[1]s.1
until [ -e %[1]s.end ]; do
  if [ -e %[1]s.again ]; then rm %[1]s.again; look %[1]s.2; fi
  sleep 0.05
done`

// foreignTask is a task of another framework, mesos-execute.
type foreignTask struct {
	t      *testing.T
	agent  *moduleAgent
	name   string
	output *outputBuffer
	ended  chan struct{}
}

// launchForeignTask launches a task that runs openDevicesScript, with the given resources and
// 0.1 CPUs.
func (a *moduleAgent) launchForeignTask(t *testing.T, name, resources string) *foreignTask {
	t.Helper()
	program, err := exec.LookPath("mesos-execute")
	if err != nil {
		program = filepath.Join(os.Getenv("MESOS_PREFIX"), "bin", "mesos-execute")
	}
	f := &foreignTask{t: t, agent: a, name: name, output: newOutputBuffer(), ended: make(chan struct{})}
	c := exec.Command(program, "--master="+a.master, "--name="+name, "--checkpoint", "--framework_capabilities=GPU_RESOURCES",
		"--resources=cpus:0.1;mem:32"+resources, "--command="+fmt.Sprintf(openDevicesScript, f.notePath("")))
	c.Stdout, c.Stderr = f.output, f.output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(f.ended); _ = c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		<-f.ended
		if t.Failed() {
			t.Logf("task %s:\n%s", name, f.output)
		}
	})
	return f
}

func (f *foreignTask) notePath(suffix string) string {
	return filepath.Join(f.agent.notes, f.name+suffix)
}

// awaitOutput waits for a line in the output of mesos-execute.
func (f *foreignTask) awaitOutput(pattern string) {
	f.t.Helper()
	f.output.awaitLine(f.t, f.ended, regexp.MustCompile(pattern))
}

// openDevices returns the devices that the task could open at its start or, if now is true,
// can open now.
func (f *foreignTask) openDevices(now bool) string {
	f.t.Helper()
	note := f.notePath(".1")
	if now {
		note = f.notePath(".2")
		os.Remove(note)
		f.createFile(".again")
	}
	return readNote(f.t, note)
}

func (f *foreignTask) createFile(suffix string) {
	f.t.Helper()
	if err := os.WriteFile(f.notePath(suffix), nil, 0o666); err != nil {
		f.t.Fatal(err)
	}
}

// readNote waits for a note and returns the numbers of the devices that could be opened.
func readNote(t *testing.T, note string) string {
	t.Helper()
	apachemesos.PollUntil(t, note, func() bool { return pathExists(note) })
	text, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for line := range strings.Lines(string(text)) {
		device, says, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch says {
		case "No such device or address":
			open = append(open, strings.TrimPrefix(device, "nvidia"))
		case "Operation not permitted":
		default:
			t.Errorf("opening %s: unexpected error %q", device, says)
		}
	}
	return strings.Join(open, " ")
}

func (f *foreignTask) finish() {
	f.t.Helper()
	f.createFile(".end")
	f.awaitOutput("TASK_FINISHED")
}

var oneDevice = regexp.MustCompile(`^[0-3]$`)

// TestMesosModuleAssignsStockDevices runs tasks of another framework that request GPUs by
// count. Each can open as many devices as it requested, and no two tasks share one.
func TestMesosModuleAssignsStockDevices(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.startDaemon(t, "all")
	first, second, pair, plain := a.launchForeignTask(t, "first", ";gpus:1"), a.launchForeignTask(t, "second", ";gpus:1"), a.launchForeignTask(t,
		"pair", ";gpus:2"), a.launchForeignTask(t, "plain", "")
	held := map[string]bool{}
	for _, f := range []*foreignTask{first, second} {
		got := f.openDevices(false)
		if !oneDevice.MatchString(got) || held[got] {
			t.Errorf("task %s opens devices %q; others %v", f.name, got, held)
		}
		held[got] = true
	}
	both := strings.Fields(pair.openDevices(false))
	if len(both) != 2 || held[both[0]] || held[both[1]] {
		t.Errorf("task pair opens devices %q; others %v", both, held)
	}
	if got := plain.openDevices(false); got != "" {
		t.Errorf("a task without GPUs opens devices %q", got)
	}
	first.finish()
	again := a.launchForeignTask(t, "again", ";gpus:1")
	if got := again.openDevices(false); got != first.openDevices(false) {
		t.Errorf("the next task opens device %s, want the released device %s", first.openDevices(false), got)
	}
	for _, f := range []*foreignTask{second, pair, plain, again} {
		f.finish()
	}
}

// TestMesosModuleDuringDaemonOutage kills the daemon. Running tasks keep their devices, new
// tasks without GPUs start, and new tasks with GPUs fail with a message that names the remedy.
// After a restart of the agent and of the daemon, new tasks get other devices.
func TestMesosModuleDuringDaemonOutage(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	kill := a.startDaemon(t, "all")
	lives, ends, plainEnds := a.launchForeignTask(t, "lives", ";gpus:1"), a.launchForeignTask(t, "ends", ";gpus:1"), a.launchForeignTask(t, "plain-ends", "")
	mine := lives.openDevices(false)
	ends.openDevices(false)
	plainEnds.openDevices(false)
	kill()
	refused := a.launchForeignTask(t, "refused", ";gpus:1")
	refused.awaitOutput(regexp.QuoteMeta("ask the GPU daemon at "+a.socket) + ".*start the daemon: mesos-gpu agent")
	refused.awaitOutput("TASK_FAILED")
	plain := a.launchForeignTask(t, "plain", "")
	if got := plain.openDevices(false); got != "" {
		t.Errorf("a task without GPUs opens devices %q", got)
	}
	if got := lives.openDevices(true); got != mine {
		t.Errorf("a task had device %s, and without the daemon has %s", mine, got)
	}
	ends.finish()
	plainEnds.finish()
	// The agent restarts during the outage. It must not destroy running containers.
	a.restart(t)
	if got := lives.openDevices(true); got != mine {
		t.Errorf("a task had device %s, after the agent's restart %s", mine, got)
	}
	a.startDaemon(t, "all")
	next := a.launchForeignTask(t, "next", ";gpus:3")
	if got := next.openDevices(false); len(strings.Fields(got)) != 3 || strings.Contains(got, mine) {
		t.Errorf("a task has device %s, the next one %s", mine, got)
	}
	for _, f := range []*foreignTask{lives, plain, next} {
		f.finish()
	}
}

// TestMesosModuleKeepsDevicesAcrossAgentRestart restarts the agent while the daemon runs.
func TestMesosModuleKeepsDevicesAcrossAgentRestart(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.startDaemon(t, "all")
	lives := a.launchForeignTask(t, "lives", ";gpus:2")
	mine := lives.openDevices(false)
	a.restart(t)
	next := a.launchForeignTask(t, "next", ";gpus:2")
	got := next.openDevices(false)
	for _, n := range strings.Fields(mine) {
		if strings.Contains(got, n) {
			t.Errorf("a task holds devices %s, the next one got %s", mine, got)
		}
	}
	if now := lives.openDevices(true); now != mine {
		t.Errorf("a task had devices %s, after the agent's restart %s", mine, now)
	}
	lives.finish()
	next.finish()
}

// TestMesosModuleNestedContainersShareParentDevices checks that containers nested in a task
// can open exactly the task's devices: one like those of the default executor, and a debug
// container like that of "mesos task exec".
func TestMesosModuleNestedContainersShareParentDevices(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.startDaemon(t, "all")
	parent := a.launchForeignTask(t, "parent", ";gpus:1")
	mine := parent.openDevices(false)
	var running []struct {
		Container string `json:"container_id"`
	}
	a.getJSON(t, "/containers", &running)
	if len(running) != 1 {
		t.Fatalf("containers: %+v", running)
	}
	for _, call := range []string{"LAUNCH_NESTED_CONTAINER", "LAUNCH_NESTED_CONTAINER_SESSION"} {
		note := filepath.Join(a.notes, call)
		if err := os.WriteFile(note+".end", nil, 0o666); err != nil {
			t.Fatal(err)
		}
		a.callAgent(t, map[string]any{"type": call, strings.ToLower(call): map[string]any{
			"container_id": map[string]any{"value": strings.ToLower(call), "parent": map[string]any{"value": running[0].Container}},
			"command":      map[string]any{"value": fmt.Sprintf(openDevicesScript, note)},
		}})
		if got := readNote(t, note+".1"); got != mine {
			t.Errorf("%s opens devices %q, its parent %q", call, got, mine)
		}
	}
	parent.finish()
}

// callAgent makes a call of the agent's operator API and waits until the response ends.
func (a *moduleAgent) callAgent(t *testing.T, call map[string]any) {
	t.Helper()
	body, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.Addr+"/api/v1", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	if strings.HasSuffix(call["type"].(string), "SESSION") {
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/recordio"}, "Message-Accept": {"application/json"}}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", call["type"], resp.Status, err, text)
	}
}

// TestMesosModuleImageSeesOnlyItsGPU checks that a container with an image and its own /dev
// can use only its device, and has the driver volume if the image's label requests it.
func TestMesosModuleImageSeesOnlyItsGPU(t *testing.T) {
	requireMesosImages(t)
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-module:latest",
		map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	images := t.TempDir()
	testimage.SaveImage(t, docker, image, images)
	resources, attributes := printAgentFlags(t, "")
	a := startModuleAgent(t, resources, attributes, "--image_providers=docker", "--docker_registry="+images)
	a.startDaemon(t, "")
	c := (&mesos{master: a.master}).startScheduler(t)
	r := c.run("run", "--container", "mesos", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", deviceReportScript)
	if open, denied := len(openedDevice.FindAllString(r.out, -1)), len(deniedDevice.FindAllString(r.out, -1)); r.code != 0 || open != 1 || denied != 3 {
		t.Errorf("status %d, %d nodes open and %d denied, want 0, 1 and 3:\n%s%s", r.code, open, denied, r.out, r.err)
	}
	if !strings.Contains(r.out, "volume ro\n") || !strings.Contains(r.out, "libcuda there") {
		t.Errorf("no driver volume:\n%s", r.out)
	}
}

// printAgentFlags returns the resources and the attribute flag that "mesos-gpu agent flags"
// prints for four simulated devices.
func printAgentFlags(t *testing.T, stock string, flags ...string) (resources, attributes string) {
	t.Helper()
	for line := range strings.Lines(runCommand(t, nil, append([]string{"agent", "flags", "--simulate", "4xV100", "--stock", stock}, flags...)...).out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "--resources="); ok {
			resources = value
		} else {
			attributes = strings.TrimSpace(line)
		}
	}
	return resources, attributes
}

// TestMesosModuleAssignsNamedDevices runs tasks of our scheduler, which selects devices by ID.
// The module permits exactly these.
func TestMesosModuleAssignsNamedDevices(t *testing.T) {
	resources, attributes := printAgentFlags(t, "0,1")
	a := startModuleAgent(t, resources, attributes)
	a.startDaemon(t, "0,1")
	foreign := a.launchForeignTask(t, "foreign", ";gpus:2")
	if got := foreign.openDevices(false); got != "0 1" {
		t.Errorf("a task of another framework opens devices %q, want 0 and 1", got)
	}
	m := mesos{master: a.master, agent: a.Addr}
	c := m.startScheduler(t)
	out := c.mustRun("run", "--tasks", "2", "--cpus", "0.2", "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", deviceReportScript+"; sleep 1")
	if open, denied := len(openedDevice.FindAllString(out, -1)), len(deniedDevice.FindAllString(out, -1)); open != 2 || denied != 6 {
		t.Errorf("two tasks open %d devices and are denied %d, want 2 and 6:\n%s", open, denied, out)
	}
	for _, n := range []string{"2", "3"} {
		if !strings.Contains(out, "nvidia"+n+" No such device or address") {
			t.Errorf("no task opened device %s:\n%s", n, out)
		}
	}
	foreign.finish()
}
