//go:build mesos

package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// setupMachine is a machine that `mesos-gpu cluster config` sets up: a network, mount and host name namespace, in which /etc and
// /usr belong to it and /var/lib, /run and /dev are new.
type setupMachine struct {
	*host
	// pid is that of a process that keeps the namespaces.
	pid int
}

// machineMounts prepares the namespaces of a machine in $ROOT. The package's program, script and user are as after its installation. Each
// machine has two GPU nodes, which no driver serves. Mesos rejects cgroup v2 next to version 1, and
// cgroups of a chroot.
const machineMounts = `mount --make-rprivate /
mount -t tmpfs tmpfs "$ROOT"
for dir in etc usr; do
	mkdir "$ROOT/$dir" "$ROOT/$dir.work"
	mount -t overlay overlay -o "lowerdir=/$dir,upperdir=$ROOT/$dir,workdir=$ROOT/$dir.work" "/$dir"
done
touch /usr/bin/mesos-gpu
mkdir -p /usr/lib/mesos-gpu "$ROOT/dev"
mount --bind "$BINARY" /usr/bin/mesos-gpu
cp "$DEPLOY/package/daemon" /usr/lib/mesos-gpu/
mkdir -p /etc/mesos-gpu
cp "$DEPLOY"/etc/*.conf /etc/mesos-gpu/
cp "$DEPLOY/systemd/mesos-gpu.sysusers" /usr/lib/sysusers.d/mesos-gpu.conf
mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
cp -a /dev/. "$ROOT/dev/"
rm -f "$ROOT"/dev/nvidia*
mkdir -p "$ROOT/dev/pts" "$ROOT/dev/shm"
for n in 0 1; do mknod -m 666 "$ROOT/dev/nvidia$n" c 195 $n; done
mount --bind /dev/pts "$ROOT/dev/pts"
mount --rbind "$ROOT/dev" /dev
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
awk '$3 == "cgroup2" || $3 == "cgroup" && $2 !~ "^/sys/fs/cgroup/" { print $2 }' /proc/self/mounts | while read -r dir; do umount -l "$dir"; done
sh "$DEPLOY/package/postinstall.sh" configure
echo "$NAME" >/proc/sys/kernel/hostname
echo ready
exec sleep infinity`

// startMachine creates the namespaces of a machine.
func startMachine(t *testing.T, h *host, root, binary, deploy string) *setupMachine {
	t.Helper()
	cmd := exec.Command("nsenter", "--net=/run/netns/"+prefix+h.name, "unshare", "--mount", "--uts", "sh", "-ec", machineMounts)
	cmd.Env = append(os.Environ(), "ROOT="+root, "BINARY="+binary, "DEPLOY="+deploy, "NAME="+h.name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ready := make([]byte, len("ready\n"))
	if _, err := out.Read(ready); err != nil || string(ready) != "ready\n" {
		_ = cmd.Wait()
		t.Fatalf("machine %s: %q, %v\n%s", h.name, ready, err, &problems)
	}
	return &setupMachine{h, cmd.Process.Pid}
}

// enter returns the command line of a program on the machine, with variables and without those of this process.
func (m *setupMachine) enter(env []string, command ...string) []string {
	list := append([]string{"nsenter", "-t", fmt.Sprint(m.pid), "--mount", "--uts", "--net", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	return append(list, command...)
}

// run runs a shell script on the machine.
func (m *setupMachine) run(script string) (string, error) {
	command := m.enter(nil, "sh", "-ec", script)
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	return string(out), err
}

func (m *setupMachine) mustRun(t *testing.T, script string) string {
	t.Helper()
	out, err := m.run(script)
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", m.name, script, err, out)
	}
	return out
}

// writeFile writes a file of root and a group.
func (m *setupMachine) writeFile(t *testing.T, path, group, mode string, text []byte) {
	t.Helper()
	command := m.enter(nil, "install", "-D", "-g", group, "-m", mode, "/dev/stdin", path)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: write %s: %v\n%s", m.name, path, err, out)
	}
}

// unitCommand returns the command line of a unit that was written to the machine, with the variables of its EnvironmentFile and with
// its socket, as its user.
func (m *setupMachine) unitCommand(t *testing.T, unit string) []string {
	t.Helper()
	var env, user, socket []string
	var command string
	for line := range strings.Lines(m.mustRun(t, "cat "+unit)) {
		line = strings.TrimSpace(line)
		if file, ok := strings.CutPrefix(line, "EnvironmentFile="); ok {
			for variable := range strings.Lines(m.mustRun(t, "grep -v '^#' "+file+" | grep =")) {
				env = append(env, strings.TrimSpace(variable))
			}
		}
		if name, ok := strings.CutPrefix(line, "User="); ok {
			user = []string{"setpriv", "--reuid=" + name, "--regid=" + name, "--init-groups"}
		}
		if name, ok := strings.CutPrefix(line, "Requires="); ok && strings.HasSuffix(name, ".socket") {
			options := m.mustRun(t, "sed -n 's/^ListenStream=//p; s/^FileDescriptorName=//p' "+filepath.Join(filepath.Dir(unit), name))
			socket = passSocket(strings.Fields(options))
		}
		if text, ok := strings.CutPrefix(line, "ExecStart="); ok {
			command = text
		}
	}
	if command == "" {
		t.Fatalf("%s: %s has no command", m.name, unit)
	}
	return m.enter(env, slices.Concat(user, socket, []string{"sh", "-c", "exec " + command})...)
}

// Files of a cluster with TLS, which its operator creates.
const (
	tlsFolder  = "/etc/mesos/tls"
	tokenFile  = "/etc/mesos-gpu/operator.token"
	accessFile = "/etc/mesos-gpu/access.yaml"
)

// enableTLS gives each machine a certificate and the access file of one operator. It returns the flags of `mesos-gpu cluster config`
// and of commands.
func (c *chaosCluster) enableTLS(machines []*setupMachine) (configFlags, clientFlags string) {
	c.t.Helper()
	c.authority = newAuthority(c.t)
	config := c.authority.clientConfig()
	c.tls = map[string]*tls.Config{"master": config, "scheduler": config}
	var access bytes.Buffer
	create := exec.Command(c.binary, "token", "operator")
	create.Stderr = &access
	token, err := create.Output()
	if err != nil {
		c.t.Fatal(err)
	}
	access.WriteString("permissions:\n  - {may: admin, roles: [/], users: [operator]}\njobs:\n  - {roles: [/], without_image: true, networks: [host]}\n")
	for _, m := range machines {
		certificate, key := c.authority.createCertificate(c.t, m.ip)
		m.writeFile(c.t, tlsFolder+"/ca.pem", "root", "0644", encodeCertificate(c.authority.certificate.Raw))
		m.writeFile(c.t, tlsFolder+"/cert.pem", "root", "0644", certificate)
		m.writeFile(c.t, tlsFolder+"/key.pem", "mesos-gpu", "0640", key)
		m.writeFile(c.t, accessFile, "mesos-gpu", "0640", access.Bytes())
		m.writeFile(c.t, tokenFile, "root", "0600", token)
	}
	return "--tls " + tlsFolder, "--ca " + tlsFolder + "/ca.pem --token-file " + tokenFile
}

// TestMesosGuidedSetup sets up three machines from empty folders by `mesos-gpu cluster config`, starts what the units start, runs a
// gang on the three of them, and kills the leading master and the leading scheduler. The gang continues, and a new job runs.
// The machines share a kernel, so each agent has its own folder of cgroups.
func TestMesosGuidedSetup(t *testing.T) {
	t.Run("secrets", func(t *testing.T) { checkGuidedSetup(t, false) })
	t.Run("secrets and TLS", func(t *testing.T) { checkGuidedSetup(t, true) })
}

func checkGuidedSetup(t *testing.T, withTLS bool) {
	testneeds.RequireRoot(t)
	testneeds.RequireDevicesCgroup(t)
	master := apachemesos.LookupProgram(t, "mesos-master")
	zktest.RequireZooKeeper(t)
	if withTLS && !answersTLS(t, master) {
		t.Skipf("%s is not built with libevent and TLS: a cluster with TLS is not tested", master)
	}
	path := func(name string) string {
		t.Helper()
		abs, err := filepath.Abs(filepath.Join("../../..", name))
		if err == nil {
			_, err = os.Stat(abs)
		}
		if err != nil {
			t.Skipf("%v: run make build module", err)
		}
		return abs
	}
	binary, deploy := path("bin/mesos-gpu"), path("deploy")
	if out, err := exec.Command("make", "-s", "-C", "../../../isolator/module", "module").CombinedOutput(); err != nil {
		t.Fatalf("build the module: %v\n%s", err, out)
	}
	module := path("bin/libmesosgpumodule.so")
	lockRun(t)
	dir := "/var/tmp/" + prefix + "setup"
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := &chaosCluster{t: t, binary: binary, dir: dir, logs: dir, history: createHistory(t, filepath.Join(dir, "history.jsonl"))}
	c.network = startNetwork(t)
	t.Cleanup(func() {
		for _, p := range c.programs {
			if text, err := os.ReadFile(p.log); t.Failed() && err == nil {
				t.Logf("%s ends:\n%s", p.name, text[max(0, len(text)-3000):])
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	var machines []*setupMachine
	var addresses []string
	for i := range 3 {
		h := c.addHost("node", i, 61)
		addresses = append(addresses, h.ip)
		machines = append(machines, startMachine(t, h, c.makeDir(h.name), binary, deploy))
	}
	secrets := filepath.Join(dir, "secrets.json")
	configFlags, clientFlags := "--insecure-api", ""
	if withTLS {
		configFlags, clientFlags = c.enableTLS(machines)
	}
	for i, m := range machines {
		cgroup := prefix + "setup-" + m.name
		apachemesos.RemoveCgroups(t, cgroup)
		t.Cleanup(func() { apachemesos.RemoveCgroups(t, cgroup) })
		m.mustRun(t, "rm "+clustersetup.ZooConf) // that of ZooKeeper's package
		for _, role := range clustersetup.Roles() {
			m.mustRun(t, fmt.Sprintf("mesos-gpu cluster config --role %s --ip %s --masters %s --schedulers 3 %s --credentials %s "+
				"--mesos %s --module %s --simulate 2xV100 --out /",
				role, m.ip, strings.Join(addresses, ","), configFlags, secrets, filepath.Dir(filepath.Dir(master)), module))
		}
		m.mustRun(t, fmt.Sprintf("echo MESOS_CGROUPS_ROOT=%[1]s >>%[2]s; sed -i 's/^#cgroups-root=.*/cgroups-root=%[1]s/' %[3]s; grep -q ^cgroups-root= %[3]s",
			cgroup, clustersetup.AgentEnv, clustersetup.AgentConf))
		c.addProgram("zk-"+m.name, "zookeeper", m.host, m.enter(nil, zktest.ServerCommand("96m", clustersetup.ZooConf)...))
		for _, unit := range []struct{ group, file string }{
			{"master", "/etc/systemd/system/mesos-master.service"}, {"daemon", filepath.Join(deploy, "systemd/mesos-gpu-agent.service")},
			{"agent", "/etc/systemd/system/mesos-agent.service"}, {"scheduler", filepath.Join(deploy, "systemd/mesos-gpu-scheduler.service")},
		} {
			c.addProgram(fmt.Sprintf("%s%d", unit.group, i), unit.group, m.host, m.unitCommand(t, unit.file))
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, p := range c.programs {
		running.Go(func() { p.supervise(ctx) })
	}
	t.Cleanup(func() { stop(); running.Wait() })

	apachemesos.PollUntil(t, "a scheduler to lead", func() bool { return c.findLeader("scheduler") != nil && c.findLeader("master") != nil })
	first := machines[0]
	remote := func(h *host) string {
		return fmt.Sprintf("mesos-gpu --api %s://%s:8080 %s ", c.scheme("scheduler"), h.ip, clientFlags)
	}
	leader := c.findLeader("scheduler")
	awaitOffered(t, first, remote(leader), 6)
	for _, m := range machines {
		if out, err := m.run("mesos-gpu cluster check -o json --mesos " + filepath.Dir(filepath.Dir(master))); err != nil {
			var findings []clustersetup.Finding
			_ = json.Unmarshal([]byte(out), &findings)
			if slices.ContainsFunc(findings, func(f clustersetup.Finding) bool { return f.Severity == clustersetup.Error }) {
				t.Errorf("%s: cluster check reports: %s", m.name, out)
			}
		}
	}
	first.mustRun(t, `printf 'name: gang\ntasks: 3\ngang: true\ngpus: 2\ncpus: 0.1\nmem: 32MiB\nhealth_check: {command: "true"}\ncommand: echo begun; exec sleep 1000\n' >/run/gang.yaml; `+
		remote(leader)+"submit /run/gang.yaml; "+remote(leader)+"wait --for running gang")
	gang := readTasks(t, first, remote(leader), "gang")
	for command, want := range map[string]string{
		"exec gang.1 -- echo from inside": "from inside", // the executor calls its agent
		"logs gang":                       "begun",       // the scheduler reads sandboxes
		"describe gang":                   "3 of 3",      // the executor checks
	} {
		apachemesos.PollUntil(t, command+" to print "+want, func() bool {
			out, err := first.run(remote(leader) + command)
			return err == nil && strings.Contains(out, want)
		})
	}

	for _, group := range []string{"master", "scheduler"} {
		h := c.findLeader(group)
		if h == nil {
			t.Fatalf("no %s leads", group)
		}
		for _, p := range c.programs {
			if p.group == group && p.host == h {
				p.setHeld(true) // it stays away
				p.signal(syscall.SIGKILL)
			}
		}
		if group == "scheduler" {
			leader = nil
		}
	}
	apachemesos.PollUntil(t, "another master and scheduler to lead", func() bool {
		leader = c.findLeader("scheduler")
		return leader != nil && c.findLeader("master") != nil
	})
	apachemesos.PollUntil(t, "the scheduler to know the gang", func() bool {
		_, err := first.run(remote(leader) + "ps")
		return err == nil
	})
	first.mustRun(t, remote(leader)+"run --name after --gpus 0 --cpus 0.1 --mem 32MiB -- echo done")
	if now := readTasks(t, first, remote(leader), "gang"); !slices.Equal(now, gang) {
		t.Errorf("after the failovers the tasks are %q, want %q as before", now, gang)
	}
	first.mustRun(t,
		remote(leader)+"kill gang; "+remote(leader)+"wait gang || true; "+remote(leader)+"run --name all --tasks 3 --gpus 2 --cpus 0.1 --mem 32MiB -- true")
}

// awaitOffered waits until a number of GPUs is offered.
func awaitOffered(t *testing.T, m *setupMachine, remote string, gpus int) {
	t.Helper()
	var last string
	deadline := time.Now().Add(2 * time.Minute)
	for strings.Count(last, "Tesla V100") != gpus {
		if time.Now().After(deadline) {
			t.Fatalf("%d GPUs are not offered:\n%s", gpus, last)
		}
		time.Sleep(500 * time.Millisecond)
		last, _ = m.run(remote + "gpus --no-headers")
	}
}

// readTasks returns the ids and states of a job's tasks, which must run on different machines.
func readTasks(t *testing.T, m *setupMachine, remote, name string) (list []string) {
	t.Helper()
	var view api.JobView
	deadline := time.Now().Add(time.Minute)
	for {
		out, err := m.run(remote + "describe -o json " + name)
		if err == nil {
			err = json.Unmarshal([]byte(out), &view)
		}
		if err == nil && !slices.ContainsFunc(view.Tasks, func(task job.Task) bool { return task.State != job.Running }) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the tasks of %s do not run: %v", name, errors.Join(err, errors.New(out)))
		}
		time.Sleep(200 * time.Millisecond)
	}
	hosts := map[string]bool{}
	for _, task := range view.Tasks {
		list = append(list, task.ID+" "+string(task.State))
		hosts[task.Hostname] = true
	}
	if len(hosts) != 3 {
		t.Errorf("%s runs on %v, want three machines", name, hosts)
	}
	return list
}
