package starts

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// launcher is one way to start a task. launch returns when the task runs, with the duration of
// the start and a function that removes the task.
type launcher struct {
	startTimes
	launch func(b *testing.B, id string) (took time.Duration, end func())
}

// BenchmarkDockerStart starts containers of one image through the executor, through docker run
// and through the API of Docker, first one by one and then 32 at once. The executor's time is
// measured from the launch by the agent to TASK_RUNNING at the master. The benchmark fails if
// the executor takes over 100 ms longer than docker run at the median, or 250 ms longer at
// p99.
func BenchmarkDockerStart(b *testing.B) {
	docker := testneeds.RequireDockerEngine(b)
	cli := testneeds.RequireProgram(b, "docker", "docker.io")
	image := testimage.LoadImage(b, docker, testimage.BusyboxArchive(b, "mesos-gpu-starts", nil, nil))
	agent := startAgent(b, buildProgram(b), "")
	newLaunchers := func() (executor, run, api *launcher, startup *startTimes) {
		startup = &startTimes{name: "  of it until TASK_STARTING"}
		return newExecutorLauncher(agent, startup, dockerContainer(image)), newDockerRunLauncher(cli, docker, image), newDockerAPILauncher(docker, image), startup
	}
	b.Run("serial", func(b *testing.B) {
		executor, run, api, startup := newLaunchers()
		for range b.N {
			launchSerially(b, 100, executor, run, api)
		}
		reportComparison(b, "one by one", &executor.startTimes, &run.startTimes, &api.startTimes, startup)
		requireWithin(b, &executor.startTimes, &run.startTimes, 100*time.Millisecond, 250*time.Millisecond)
	})
	b.Run("32-at-once", func(b *testing.B) {
		executor, run, api, startup := newLaunchers()
		for range b.N {
			for range 4 {
				launchConcurrently(b, 32, executor, run, api)
			}
		}
		reportComparison(b, "32 at once", &executor.startTimes, &run.startTimes, &api.startTimes, startup)
		requireWithin(b, &executor.startTimes, &run.startTimes, 100*time.Millisecond, 250*time.Millisecond)
	})
}

// launchSerially starts n tasks with each launcher, one task at a time and the launchers in
// turn.
func launchSerially(b *testing.B, n int, launchers ...*launcher) {
	b.Helper()
	for i := range n {
		for _, w := range launchers {
			took, end := w.launch(b, fmt.Sprintf("serial-%d-%d", i, time.Now().UnixNano()))
			w.add(took)
			end()
		}
	}
}

// launchConcurrently starts n tasks at the same time, with one launcher after the other.
func launchConcurrently(b *testing.B, n int, launchers ...*launcher) {
	b.Helper()
	for _, w := range launchers {
		var started, ended sync.WaitGroup
		ends := make([]func(), n)
		for i := range n {
			started.Go(func() {
				var took time.Duration
				took, ends[i] = w.launch(b, fmt.Sprintf("parallel-%d-%d", i, time.Now().UnixNano()))
				w.add(took)
			})
		}
		started.Wait()
		for _, end := range ends {
			ended.Go(end)
		}
		ended.Wait()
	}
}

func dockerContainer(image string) *mesos.ContainerInfo {
	return &mesos.ContainerInfo{
		Type:   mesos.ContainerInfo_DOCKER.Enum(),
		Docker: &mesos.ContainerInfo_DockerInfo{Image: image, Network: mesos.ContainerInfo_DockerInfo_HOST.Enum()},
	}
}

// newExecutorLauncher starts tasks through the executor. It also adds the time until
// TASK_STARTING to startup.
func newExecutorLauncher(agent *benchmarkAgent, startup *startTimes, container *mesos.ContainerInfo) *launcher {
	return &launcher{startTimes{name: "mesos-gpu executor"}, func(b *testing.B, id string) (time.Duration, func()) {
		s, began := agent.launchTask(b, id, container)
		s.awaitRunning(b)
		startup.add(s.startingAt.Sub(began))
		return s.runningAt.Sub(began), func() { agent.killTask(id, s) }
	}}
}

// newDockerRunLauncher starts containers by docker run with the options that the executor
// uses: the host's network and the same limits.
func newDockerRunLauncher(cli string, docker *client.Client, image string) *launcher {
	return &launcher{startTimes{name: "docker run -d"}, func(b *testing.B, id string) (time.Duration, func()) {
		args := append([]string{
			"run", "--rm", "-d", "--network", "host", "--cpu-shares", strconv.Itoa(taskCPUShares), "--memory",
			fmt.Sprintf("%dm", taskMem), "--name", id, image,
		}, sleepCommand...)
		began := time.Now()
		out, err := exec.Command(cli, args...).CombinedOutput()
		took := time.Since(began)
		if err != nil {
			b.Errorf("docker run: %v\n%s", err, out)
		}
		return took, func() { removeContainer(b, docker, id) }
	}}
}

// newDockerAPILauncher creates and starts a container in two API calls. It is the lower bound
// of what any client of Docker can reach.
func newDockerAPILauncher(docker *client.Client, image string) *launcher {
	return &launcher{startTimes{name: "create and start by the API"}, func(b *testing.B, id string) (time.Duration, func()) {
		ctx := context.Background()
		config := &container.Config{Image: image, Cmd: sleepCommand}
		host := &container.HostConfig{NetworkMode: "host", Resources: container.Resources{Memory: taskMem << 20, CPUShares: taskCPUShares}}
		began := time.Now()
		_, err := docker.ContainerCreate(ctx, config, host, nil, nil, id)
		if err == nil {
			err = docker.ContainerStart(ctx, id, container.StartOptions{})
		}
		took := time.Since(began)
		if err != nil {
			b.Error(err)
		}
		return took, func() { removeContainer(b, docker, id) }
	}}
}

func removeContainer(b *testing.B, docker *client.Client, id string) {
	err := docker.ContainerRemove(context.Background(), id, container.RemoveOptions{Force: true})
	if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) { // --rm may have removed it
		b.Error(err)
	}
}
