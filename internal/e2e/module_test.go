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

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
)

// moduleAgent is an unmodified agent with our module loaded, its daemon's
// socket, and a folder into which its tasks write.
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
		Master: a.master, IP: "127.0.0.1", RuntimeDir: filepath.Join(work, "run"), Prepare: nodes, Env: []string{"WORK=" + work},
		ExecutorEnv: map[string]string{"MESOS_GPU_SOCKET": a.socket, "MESOS_GPU_DEV": filepath.Join(work, "nodes")},
		Flags: append([]string{"--modules=" + modules, "--resources=cpus:8;mem:4096;disk:1024;" + resources,
			"--isolation=cgroups/devices,filesystem/linux,docker/runtime,volume/host_path,io_mesosgpu_GpuIsolator"}, flags...),
	}.Start(t)
	a.AwaitReady(t)
	return a
}

// buildModule is "make module", which has mostly been run.
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

// restart ends the agent at once and starts it again, with the containers of
// before.
func (a *moduleAgent) restart(t *testing.T) {
	t.Helper()
	a.MesosProcess.Kill(t)
	a.MesosProcess = a.MesosProcess.Restart(t)
	a.AwaitReady(t)
}

// flag is the value of one of the agent's flags.
func (a *moduleAgent) flag(t *testing.T, name string) string {
	t.Helper()
	var v struct{ Flags map[string]string }
	a.get(t, "/flags", &v)
	return v.Flags[name]
}

func (a *moduleAgent) get(t *testing.T, path string, into any) {
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

// daemon runs "mesos-gpu agent" beside the agent until kill; stock are the
// devices that it gives out by number.
func (a *moduleAgent) daemon(t *testing.T, stock string, flags ...string) (kill func()) {
	t.Helper()
	driver := a.notes + "-driver"
	if err := volumemgr.WriteSimulatedDriver(driver, simulated.DriverVersion); err != nil {
		t.Fatal(err)
	}
	p := apachemesos.Spawn(t, nil, binary, append([]string{"agent", "--agent", "http://" + a.Addr, "--simulate", "4xV100", "--stock", stock,
		"--socket", a.socket, "--runtime-dir", a.notes + "-runtime", "--state-dir", a.notes + "-state", "--volumes", a.notes + "-volumes", "--driver-root", driver,
		"--listen", "", "--cgroups-root", a.flag(t, "cgroups_root")}, flags...)...)
	apachemesos.PollUntil(t, "the daemon's socket", func() bool {
		c, err := net.Dial("unix", a.socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return func() { p.Kill(t) }
}

// looks is what a task of these tests runs: it notes which devices it can
// open whenever it is asked to, and ends when it is told to.
const looks = `look() {
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

// task is a task of a foreign framework, mesos-execute.
type foreign struct {
	t      *testing.T
	agent  *moduleAgent
	name   string
	output *lines
	ended  chan struct{}
}

// execute launches a task that looks, with those resources beside the cpus.
func (a *moduleAgent) execute(t *testing.T, name, resources string) *foreign {
	t.Helper()
	program, err := exec.LookPath("mesos-execute")
	if err != nil {
		program = filepath.Join(os.Getenv("MESOS_PREFIX"), "bin", "mesos-execute")
	}
	f := &foreign{t: t, agent: a, name: name, output: newLines(), ended: make(chan struct{})}
	c := exec.Command(program, "--master="+a.master, "--name="+name, "--checkpoint", "--framework_capabilities=GPU_RESOURCES",
		"--resources=cpus:0.1;mem:32"+resources, "--command="+fmt.Sprintf(looks, f.note("")))
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

func (f *foreign) note(suffix string) string { return filepath.Join(f.agent.notes, f.name+suffix) }

// await waits for a line of what mesos-execute says.
func (f *foreign) await(pattern string) {
	f.t.Helper()
	f.output.await(f.t, f.ended, regexp.MustCompile(pattern))
}

// devices is which devices the task could open: at its start, or now.
func (f *foreign) devices(now bool) string {
	f.t.Helper()
	note := f.note(".1")
	if now {
		note = f.note(".2")
		os.Remove(note)
		f.touch(".again")
	}
	return opened(f.t, note)
}

func (f *foreign) touch(suffix string) {
	f.t.Helper()
	if err := os.WriteFile(f.note(suffix), nil, 0o666); err != nil {
		f.t.Fatal(err)
	}
}

// opened reads a note: the numbers of the devices that could be opened, of
// those there are.
func opened(t *testing.T, note string) string {
	t.Helper()
	apachemesos.PollUntil(t, note, func() bool { return exists(note) })
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
			t.Errorf("opening %s says %q", device, says)
		}
	}
	return strings.Join(open, " ")
}

func (f *foreign) end() {
	f.t.Helper()
	f.touch(".end")
	f.await("TASK_FINISHED")
}

var one = regexp.MustCompile(`^[0-3]$`)

// Tasks of a foreign framework, by the number of GPUs alone: each sees as
// many devices as it asked for, and nobody else does.
func TestMesosModuleGivesStockDevices(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.daemon(t, "all")
	first, second, pair, plain := a.execute(t, "first", ";gpus:1"), a.execute(t, "second", ";gpus:1"), a.execute(t, "pair", ";gpus:2"), a.execute(t, "plain", "")
	held := map[string]bool{}
	for _, f := range []*foreign{first, second} {
		got := f.devices(false)
		if !one.MatchString(got) || held[got] {
			t.Errorf("task %s opens devices %q; others %v", f.name, got, held)
		}
		held[got] = true
	}
	both := strings.Fields(pair.devices(false))
	if len(both) != 2 || held[both[0]] || held[both[1]] {
		t.Errorf("task pair opens devices %q; others %v", both, held)
	}
	if got := plain.devices(false); got != "" {
		t.Errorf("a task without GPUs opens devices %q", got)
	}
	first.end()
	again := a.execute(t, "again", ";gpus:1")
	if got := again.devices(false); got != first.devices(false) {
		t.Errorf("the device given back is %s, the one given %s", first.devices(false), got)
	}
	for _, f := range []*foreign{second, pair, plain, again} {
		f.end()
	}
}

// The daemon goes and comes back.
func TestMesosModuleWithoutTheDaemon(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	kill := a.daemon(t, "all")
	lives, ends, plainEnds := a.execute(t, "lives", ";gpus:1"), a.execute(t, "ends", ";gpus:1"), a.execute(t, "plain-ends", "")
	mine := lives.devices(false)
	ends.devices(false)
	plainEnds.devices(false)
	kill()
	refused := a.execute(t, "refused", ";gpus:1")
	refused.await(regexp.QuoteMeta("ask the GPU daemon at "+a.socket) + ".*start the daemon: mesos-gpu agent")
	refused.await("TASK_FAILED")
	plain := a.execute(t, "plain", "")
	if got := plain.devices(false); got != "" {
		t.Errorf("a task without GPUs opens devices %q", got)
	}
	if got := lives.devices(true); got != mine {
		t.Errorf("a task had device %s, without the daemon %s", mine, got)
	}
	ends.end()
	plainEnds.end()
	// The agent restarts meanwhile: nothing that runs is destroyed.
	a.restart(t)
	if got := lives.devices(true); got != mine {
		t.Errorf("a task had device %s, after the agent's restart %s", mine, got)
	}
	a.daemon(t, "all")
	next := a.execute(t, "next", ";gpus:3")
	if got := next.devices(false); len(strings.Fields(got)) != 3 || strings.Contains(got, mine) {
		t.Errorf("a task has device %s, the next one %s", mine, got)
	}
	for _, f := range []*foreign{lives, plain, next} {
		f.end()
	}
}

// The agent restarts beside a daemon that stays.
func TestMesosModuleAgentRestart(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.daemon(t, "all")
	lives := a.execute(t, "lives", ";gpus:2")
	mine := lives.devices(false)
	a.restart(t)
	next := a.execute(t, "next", ";gpus:2")
	got := next.devices(false)
	for _, n := range strings.Fields(mine) {
		if strings.Contains(got, n) {
			t.Errorf("a task holds devices %s, the next one got %s", mine, got)
		}
	}
	if now := lives.devices(true); now != mine {
		t.Errorf("a task had devices %s, after the agent's restart %s", mine, now)
	}
	lives.end()
	next.end()
}

// Containers nested in a task's see its devices and no others: one that a
// default executor would start, and a debug one as of "mesos task exec".
func TestMesosModuleNestedContainers(t *testing.T) {
	a := startModuleAgent(t, "gpus:4")
	a.daemon(t, "all")
	parent := a.execute(t, "parent", ";gpus:1")
	mine := parent.devices(false)
	var running []struct {
		Container string `json:"container_id"`
	}
	a.get(t, "/containers", &running)
	if len(running) != 1 {
		t.Fatalf("containers: %+v", running)
	}
	for _, call := range []string{"LAUNCH_NESTED_CONTAINER", "LAUNCH_NESTED_CONTAINER_SESSION"} {
		note := filepath.Join(a.notes, call)
		if err := os.WriteFile(note+".end", nil, 0o666); err != nil {
			t.Fatal(err)
		}
		a.call(t, map[string]any{"type": call, strings.ToLower(call): map[string]any{
			"container_id": map[string]any{"value": strings.ToLower(call), "parent": map[string]any{"value": running[0].Container}},
			"command":      map[string]any{"value": fmt.Sprintf(looks, note)},
		}})
		if got := opened(t, note+".1"); got != mine {
			t.Errorf("%s opens devices %q, its parent %q", call, got, mine)
		}
	}
	parent.end()
}

// call makes a call of the agent's API and waits for its end.
func (a *moduleAgent) call(t *testing.T, call map[string]any) {
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

// A container of an image finds its device node alone usable in a /dev of its
// own, and the driver's files where the image's label asks for them.
func TestMesosModuleImageSeesItsGPU(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-module:latest", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	images := t.TempDir()
	testimage.SaveImage(t, docker, image, images)
	resources, attributes := agentFlags(t, "")
	a := startModuleAgent(t, resources, attributes, "--image_providers=docker", "--docker_registry="+images)
	a.daemon(t, "")
	c := (&mesos{master: a.master}).scheduler(t)
	r := c.do("run", "--container", "mesos", "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside)
	if r.code != 0 && strings.Contains(r.err, "sysrq-trigger") {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
	if open, denied := len(enxio.FindAllString(r.out, -1)), len(eperm.FindAllString(r.out, -1)); r.code != 0 || open != 1 || denied != 3 {
		t.Errorf("status %d, %d nodes open and %d denied, want 0, 1 and 3:\n%s%s", r.code, open, denied, r.out, r.err)
	}
	if !strings.Contains(r.out, "volume ro\n") || !strings.Contains(r.out, "libcuda there") {
		t.Errorf("no driver volume:\n%s", r.out)
	}
}

// agentFlags are the resources and the flag for attributes that "mesos-gpu
// agent flags" prints for four simulated devices.
func agentFlags(t *testing.T, stock string, flags ...string) (resources, attributes string) {
	t.Helper()
	for line := range strings.Lines(command(t, nil, append([]string{"agent", "flags", "--simulate", "4xV100", "--stock", stock}, flags...)...).out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "--resources="); ok {
			resources = value
		} else {
			attributes = strings.TrimSpace(line)
		}
	}
	return resources, attributes
}

// A task of our own framework: the scheduler names the device, the provider
// offers it, and the module lets just that one through.
func TestMesosModuleGivesNamedDevices(t *testing.T) {
	resources, attributes := agentFlags(t, "0,1")
	a := startModuleAgent(t, resources, attributes)
	a.daemon(t, "0,1")
	foreign := a.execute(t, "foreign", ";gpus:2")
	if got := foreign.devices(false); got != "0 1" {
		t.Errorf("a foreign task opens devices %q, set aside are 0 and 1", got)
	}
	m := mesos{master: a.master, agent: a.Addr}
	c := m.scheduler(t)
	out := c.must("run", "--tasks", "2", "--cpus", "0.2", "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside+"; sleep 1")
	if open, denied := len(enxio.FindAllString(out, -1)), len(eperm.FindAllString(out, -1)); open != 2 || denied != 6 {
		t.Errorf("two tasks open %d devices and are denied %d, want 2 and 6:\n%s", open, denied, out)
	}
	for _, n := range []string{"2", "3"} {
		if !strings.Contains(out, "nvidia"+n+" No such device or address") {
			t.Errorf("no task opened device %s:\n%s", n, out)
		}
	}
	foreign.end()
}
