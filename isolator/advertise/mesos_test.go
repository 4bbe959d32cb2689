//go:build mesos

package advertise_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/advertisetest"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/simulated"
)

// providerAgent is a Mesos agent that can be killed and restarted with the same folders and
// address. It does not isolate containers.
type providerAgent struct {
	t *testing.T
	// gpus is the number of GPUs that the agent has without a provider.
	gpus               int
	master, addr, work string
	process            *apachemesos.MesosProcess
}

func startAgent(t *testing.T, master string, gpus int) *providerAgent {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := &providerAgent{t: t, gpus: gpus, master: master, addr: l.Addr().String(), work: t.TempDir()}
	t.Cleanup(func() {
		killAll(t, a.work)
		if text, err := os.ReadFile(filepath.Join(a.work, "log")); err == nil && t.Failed() {
			t.Logf("log of the agent:\n%s", text[max(0, len(text)-8000):])
		}
	})
	l.Close()
	a.start()
	return a
}

func (a *providerAgent) start(flags ...string) {
	a.t.Helper()
	_, port, err := net.SplitHostPort(a.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	program := filepath.Join(os.Getenv("MESOS_PREFIX"), "sbin", "mesos-agent")
	if _, err := os.Stat(program); err != nil {
		if program, err = exec.LookPath("mesos-agent"); err != nil {
			a.t.Skipf("no mesos-agent: %v", err)
		}
	}
	args := []string{
		"-m", "sh", "-c", `mount --make-rprivate / && { umount /sys/fs/cgroup/unified 2>/dev/null || true; } && exec "$@" >>"$LOG" 2>&1`, "sh", program,
		"--ip=127.0.0.1", "--hostname=127.0.0.1", "--port=" + port, "--master=" + a.master,
		"--work_dir=" + filepath.Join(a.work, "agent"), "--runtime_dir=" + filepath.Join(a.work, "run"),
		"--launcher=posix", "--isolation=posix/cpu,posix/mem", "--no-systemd_enable_support",
		fmt.Sprintf("--resources=cpus:4;mem:4096;disk:100;gpus:%d", a.gpus), "--executor_reregistration_timeout=2secs",
	}
	// Executors inherit the agent's output: with a pipe, the reader would wait for them.
	a.process = apachemesos.Spawn(a.t, []string{"LOG=" + filepath.Join(a.work, "log")}, "unshare", append(args, flags...)...)
	a.process.Addr = a.addr
	a.process.AwaitReady(a.t)
}

// restart kills the agent with SIGKILL, applies the change and starts it again.
func (a *providerAgent) restart(change func(), flags ...string) {
	a.t.Helper()
	_ = a.process.Process.Kill()
	apachemesos.PollUntil(a.t, a.addr+" to be free", func() bool {
		l, err := net.Listen("tcp", a.addr)
		if err == nil {
			l.Close()
		}
		return err == nil
	})
	if change != nil {
		change()
	}
	a.start(flags...)
}

// killAll kills the processes that an agent left: those whose environment or arguments
// contain its folder.
func killAll(t *testing.T, dir string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		text, err := os.ReadFile(path)
		pid, perr := strconv.Atoi(strings.Split(path, "/")[2])
		if err == nil && perr == nil && pid != os.Getpid() && strings.Contains(string(text), dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func mesos(t *testing.T, gpus int) (master string, a *providerAgent) {
	t.Helper()
	m := apachemesos.StartMaster(t, "--allocation_interval=200ms", "--roles=live,stock,*")
	return "http://" + m.Addr, startAgent(t, m.Addr, gpus)
}

func TestMesosDevicesWithdrawnWhileInUse(t *testing.T) {
	master, a := mesos(t, 0)
	advertisetest.RunWithdrawal(t, master, "http://"+a.addr)
}

func TestMesosSharedDevices(t *testing.T) {
	master, a := mesos(t, 0)
	advertisetest.RunSharing(t, master, "http://"+a.addr)
}

// A killed and restarted agent keeps its ID, its tasks and its provider.
func TestMesosAgentRestart(t *testing.T) {
	master, a := mesos(t, 0)
	gpus, start := advertisetest.SimulateDevices(t)
	f := advertisetest.Subscribe(t, master, "live")
	d := start("http://" + a.addr)
	f.LaunchTask(f.AwaitOffer("at first", 3, gpus.A, gpus.B, gpus.C), "on-a", gpus.A)
	a.restart(nil)
	f.ExpectOffer("the agent came back", 2, gpus.B, gpus.C)
	f.ExpectRunning("after the agent's restart", "on-a")
	a.restart(func() { d.OfferOnly(gpus.B, gpus.C) })
	f.LaunchTask(f.AwaitOffer("A was withdrawn while the agent was down", 2, gpus.B, gpus.C), "on-b", gpus.B)
	f.ExpectRunning("after the agent's second restart", "on-a")
	d.Stop()
	a.restart(nil)
	d.Restart()
	f.ExpectOffer("agent and daemon came back", 1, gpus.C)
	f.ExpectRunning("to the end", "on-a")
	f.ExpectRunning("to the end", "on-b")
	f.KillTask("on-a")
	f.KillTask("on-b")
	d.OfferOnly(gpus.A, gpus.B, gpus.C)
	f.ExpectOffer("all free", 3, gpus.A, gpus.B, gpus.C)
}

// After a reboot the agent keeps its ID if its resources and attributes are equal;
// otherwise it gets a new ID and does not know the provider. In both cases there are no
// earlier tasks.
func TestMesosHostReboot(t *testing.T) {
	master, a := mesos(t, 0)
	gpus, start := advertisetest.SimulateDevices(t)
	f := advertisetest.Subscribe(t, master, "live")
	start("http://" + a.addr)
	o := f.AwaitOffer("at first", 3, gpus.A, gpus.B, gpus.C)
	before := o.AgentID.Value
	f.LaunchTask(o, "on-a", gpus.A)
	reboot := func() {
		killAll(t, filepath.Join(a.work, "agent"))
		if err := os.WriteFile(filepath.Join(a.work, "agent", "meta", "boot_id"), []byte("another"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a.restart(reboot)
	o = f.AwaitOffer("after a reboot", 3, gpus.A, gpus.B, gpus.C)
	if o.AgentID.Value != before {
		t.Errorf("agent %s became %s", before, o.AgentID.Value)
	}
	f.LaunchTask(o, "again-on-a", gpus.A)
	a.restart(reboot, "--attributes=gpu_type:V100")
	o = f.AwaitOffer("after a reboot with other attributes", 3, gpus.A, gpus.B, gpus.C)
	if o.AgentID.Value == before {
		t.Errorf("agent %s kept its id: the test shows nothing", before)
	}
	f.LaunchTask(o, "once-more-on-a", gpus.A)
	f.ExpectOffer("A taken", 2, gpus.B, gpus.C)
}

// Reserved devices and their scalar are offered only to their role: a stock framework
// receives only the agent's own GPUs.
func TestMesosReservedForARole(t *testing.T) {
	master, a := mesos(t, 2)
	h, err := simulated.NewHost("2xV100", "live")
	if err != nil {
		t.Fatal(err)
	}
	live := advertisetest.Subscribe(t, master, "live")
	advertisetest.StartDaemon(t, "http://"+a.addr, h, func(c *advertise.ProviderConfig) { c.Role = "live" })
	o := live.AwaitOffer("reserved and the agent's own", 4, h.Devices[0].UUID, h.Devices[1].UUID)
	live.SuppressOffers()
	live.LaunchTask(o, "named", h.Devices[0].UUID)
	stock := advertisetest.Subscribe(t, master, "stock")
	o = stock.AwaitOffer("what is not reserved", 2)
	stock.LaunchByCount(o, "counted", 2)
	stock.ExpectOffer("nothing left for the stock role", 0)
	live.ExpectRunning("to the end", "named")
}
