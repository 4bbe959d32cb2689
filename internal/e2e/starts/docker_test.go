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

	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
)

// way is one way to start a task: it returns once that runs, with how long it
// took and what ends it.
type way struct {
	times
	start func(b *testing.B, id string) (took time.Duration, end func())
}

// BenchmarkDockerStart starts containers of one image through our executor,
// from the launch by the agent to TASK_RUNNING at the master, and by docker
// run: first one by one, then 32 at once. It fails beyond 100 ms over docker
// run at the median, or 250 ms at p99.
func BenchmarkDockerStart(b *testing.B) {
	docker := testneeds.RequireDockerEngine(b)
	cli := testneeds.RequireProgram(b, "docker", "docker.io")
	image := testimage.LoadImage(b, docker, testimage.BusyboxArchive(b, "mesos-gpu-starts", nil, nil))
	agent := startAgent(b, build(b), "")
	fresh := func() (executor, run, api *way, up *times) {
		up = &times{name: "  of it until TASK_STARTING"}
		return executorWay(agent, up, dockerOf(image)), runWay(cli, docker, image), apiWay(docker, image), up
	}
	b.Run("serial", func(b *testing.B) {
		executor, run, api, up := fresh()
		for range b.N {
			serially(b, 100, executor, run, api)
		}
		compare(b, "one by one", &executor.times, &run.times, &api.times, up)
		within(b, &executor.times, &run.times, 100*time.Millisecond, 250*time.Millisecond)
	})
	b.Run("32-at-once", func(b *testing.B) {
		executor, run, api, up := fresh()
		for range b.N {
			for range 4 {
				atOnce(b, 32, executor, run, api)
			}
		}
		compare(b, "32 at once", &executor.times, &run.times, &api.times, up)
		within(b, &executor.times, &run.times, 100*time.Millisecond, 250*time.Millisecond)
	})
}

// serially starts n tasks each way, in turns.
func serially(b *testing.B, n int, ways ...*way) {
	b.Helper()
	for i := range n {
		for _, w := range ways {
			took, end := w.start(b, fmt.Sprintf("serial-%d-%d", i, time.Now().UnixNano()))
			w.add(took)
			end()
		}
	}
}

// atOnce starts n tasks at the same time, one way after the other.
func atOnce(b *testing.B, n int, ways ...*way) {
	b.Helper()
	for _, w := range ways {
		var started, ended sync.WaitGroup
		ends := make([]func(), n)
		for i := range n {
			started.Go(func() {
				var took time.Duration
				took, ends[i] = w.start(b, fmt.Sprintf("parallel-%d-%d", i, time.Now().UnixNano()))
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

func dockerOf(image string) *mesos.ContainerInfo {
	return &mesos.ContainerInfo{
		Type:   mesos.ContainerInfo_DOCKER.Enum(),
		Docker: &mesos.ContainerInfo_DockerInfo{Image: image, Network: mesos.ContainerInfo_DockerInfo_HOST.Enum()},
	}
}

// executorWay also notes when the executor was up.
func executorWay(agent *embedded, up *times, container *mesos.ContainerInfo) *way {
	return &way{times{name: "mesos-gpu executor"}, func(b *testing.B, id string) (time.Duration, func()) {
		s, began := agent.start(b, id, container)
		s.await(b)
		up.add(s.up.Sub(began))
		return s.running.Sub(began), func() { agent.end(id, s) }
	}}
}

// runWay is docker run with what the executor asks for: the host's network
// and the same limits.
func runWay(cli string, docker *client.Client, image string) *way {
	return &way{times{name: "docker run -d"}, func(b *testing.B, id string) (time.Duration, func()) {
		args := append([]string{"run", "--rm", "-d", "--network", "host", "--cpu-shares", strconv.Itoa(shares), "--memory", fmt.Sprintf("%dm", taskMem), "--name", id, image}, sleep...)
		began := time.Now()
		out, err := exec.Command(cli, args...).CombinedOutput()
		took := time.Since(began)
		if err != nil {
			b.Errorf("docker run: %v\n%s", err, out)
		}
		return took, func() { remove(b, docker, id) }
	}}
}

// apiWay makes and starts a container in two calls, and does no more.
func apiWay(docker *client.Client, image string) *way {
	return &way{times{name: "create and start by the API"}, func(b *testing.B, id string) (time.Duration, func()) {
		ctx := context.Background()
		config := &container.Config{Image: image, Cmd: sleep}
		host := &container.HostConfig{NetworkMode: "host", Resources: container.Resources{Memory: taskMem << 20, CPUShares: shares}}
		began := time.Now()
		_, err := docker.ContainerCreate(ctx, config, host, nil, nil, id)
		if err == nil {
			err = docker.ContainerStart(ctx, id, container.StartOptions{})
		}
		took := time.Since(began)
		if err != nil {
			b.Error(err)
		}
		return took, func() { remove(b, docker, id) }
	}}
}

func remove(b *testing.B, docker *client.Client, id string) {
	err := docker.ContainerRemove(context.Background(), id, container.RemoveOptions{Force: true})
	if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) { // --rm was faster
		b.Error(err)
	}
}
