package plugin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/volumemgr"
)

// runContainer runs a script in a container with that host configuration, and returns its
// output.
func runContainer(t *testing.T, engine *client.Client, image, script string, host *container.HostConfig) string {
	t.Helper()
	ctx := context.Background()
	host.NetworkMode = "none"
	made, err := engine.ContainerCreate(ctx, &container.Config{Image: image, Cmd: []string{"/bin/sh", "-c", script}}, host, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}()
	ended, failed := engine.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := engine.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := engine.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// writeScript tries to modify the driver in the container as root.
const writeScript = `cd /usr/local/nvidia && ls lib64/libcuda.so.1 && (echo spoilt >lib64/libcuda.so.1; touch new; rm lib64/libcuda.so) 2>&1 | grep -c "Read-only file system"`

func fileDigest(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(text)
}

// The real engine finds the plugin by its socket, creates and lists a volume, and mounts
// it into containers, by name and by --volume-driver, always read-only. It refuses to
// remove a volume in use, and removes it later.
func TestEngine(t *testing.T) {
	testneeds.RequireRoot(t)
	engine := testneeds.RequireDockerEngine(t)
	ctx := context.Background()
	image := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-plugin-test", nil, nil))
	cfg := testConfig(t)
	// All runs use one name: the engine never forgets a plugin, and waits for each
	// missing one whenever it looks up an unknown volume.
	const driver = "mesos-gpu-test"
	cfg.Socket = filepath.Join(filepath.Dir(DefaultSocket), driver+".sock")
	startPlugin(t, cfg)

	name := "nvidia_" + v535
	removed := false
	t.Cleanup(func() {
		if removed { // otherwise the engine queries every plugin that it knows
			return
		}
		if err := engine.VolumeRemove(ctx, name, true); err != nil {
			t.Error(err)
		}
	})
	made, err := engine.VolumeCreate(ctx, volume.CreateOptions{Driver: driver, Name: name})
	if err != nil || made.Driver != driver || made.Name != name {
		t.Fatalf("create: %+v, %v", made, err)
	}
	if _, err := engine.VolumeCreate(ctx, volume.CreateOptions{Driver: driver, Name: "nvidia_1.2"}); err == nil ||
		!strings.Contains(err.Error(), "only nvidia_535.104.05 can be made") {
		t.Errorf("create of another version: %v", err)
	}
	shown, err := engine.VolumeInspect(ctx, name)
	if err != nil || fmt.Sprint(shown.Status["path"]) != filepath.Join(cfg.Store.Dir, name) || shown.Mountpoint != filepath.Join(cfg.Mounts, name) {
		t.Errorf("inspect: %+v, %v", shown, err)
	}
	library := filepath.Join(cfg.Store.Dir, name, "lib64/libcuda.so."+v535)
	before := fileDigest(t, library)
	for way, host := range map[string]*container.HostConfig{
		"volume":        {Binds: []string{name + ":/usr/local/nvidia"}},
		"volume driver": {Binds: []string{name + ":/usr/local/nvidia:rw"}, VolumeDriver: driver},
	} {
		if got := runContainer(t, engine, image, writeScript, host); got != "lib64/libcuda.so.1\n3\n" {
			t.Errorf("%s: the container says %q, want the library and three refusals", way, got)
		}
	}
	if fileDigest(t, library) != before {
		t.Error("a container changed the driver")
	}
	holder, err := engine.ContainerCreate(ctx, &container.Config{Image: image}, &container.HostConfig{Binds: []string{name + ":/usr/local/nvidia"}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.VolumeRemove(ctx, name, false); err == nil {
		t.Error("the engine removed a volume of a container that may start")
	}
	if err := engine.ContainerRemove(ctx, holder.ID, container.RemoveOptions{}); err != nil {
		t.Error(err)
	}
	if err := engine.VolumeRemove(ctx, name, false); err != nil {
		t.Error(err)
	}
	removed = true
	if _, err := os.Stat(filepath.Join(cfg.Store.Dir, name)); err == nil {
		t.Error("the volume is still in the store")
	}
}

// Without the plugin a volume can be used as a bind mount and as a volume of the engine's
// local driver.
func TestEngineWithoutPlugin(t *testing.T) {
	engine := testneeds.RequireDockerEngine(t)
	ctx := context.Background()
	image := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-volume-test", nil, nil))
	cfg := testConfig(t)
	path := filepath.Join(cfg.Store.Dir, "nvidia_"+v470)
	name := fmt.Sprintf("mesos-gpu-local-%d", os.Getpid())
	options := map[string]string{"type": "none", "o": "bind,ro", "device": path}
	if _, err := engine.VolumeCreate(ctx, volume.CreateOptions{Driver: "local", Name: name, DriverOpts: options}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.VolumeRemove(ctx, name, true); err != nil {
			t.Error(err)
		}
	})
	for _, source := range []string{path, name} {
		host := &container.HostConfig{Binds: []string{source + ":/usr/local/nvidia:ro"}}
		if got := runContainer(t, engine, image, writeScript, host); got != "lib64/libcuda.so.1\n3\n" {
			t.Errorf("%s: the container says %q", source, got)
		}
	}
}

// The collector detects a driver in use through the engine's containers.
func TestEngineContainerKeepsItsVolume(t *testing.T) {
	testneeds.RequireRoot(t)
	engine := testneeds.RequireDockerEngine(t)
	ctx := context.Background()
	image := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-gc-test", nil, nil))
	cfg := testConfig(t)
	bind := filepath.Join(cfg.Store.Dir, "nvidia_"+v470) + ":/usr/local/nvidia:ro"
	id, say := startContainer(t, engine, image, "echo up; sleep 1000", []string{bind})
	if line := say(); line != "up" {
		t.Fatalf("the container says %q", line)
	}
	removed, kept, err := cfg.Store.Collect(ctx, volumemgr.CollectOptions{})
	if err != nil || len(removed) != 0 || len(kept) != 1 || !strings.Contains(kept[0].Why, "is mounted at") {
		t.Errorf("while it runs: removed %v, kept %v, %v", removed, kept, err)
	}
	if err := engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	removed, _, err = cfg.Store.Collect(ctx, volumemgr.CollectOptions{})
	if err != nil || len(removed) != 1 {
		t.Errorf("after its end: removed %v, %v", removed, err)
	}
}

// residentScript opens a library, as a program that maps it does, and reports that. On
// SIGUSR1 it prints the checksums of the open file and of the file with the name.
const residentScript = `exec 3</usr/local/nvidia/lib64/libcuda.so.1
trap 'md5sum <&3; md5sum </usr/local/nvidia/lib64/libcuda.so.1; exit' USR1
echo up
while :; do sleep 1; done`

// The driver is upgraded while a container runs. That container reads its own version's
// files until it ends, even if volumes are created, repaired and collected meanwhile. The
// next container gets the new version.
func TestEngineUpgrade(t *testing.T) {
	testneeds.RequireRoot(t)
	engine := testneeds.RequireDockerEngine(t)
	ctx := context.Background()
	image := testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, "mesos-gpu-upgrade-test", nil, nil))
	root, store := t.TempDir(), volumemgr.Store{Dir: filepath.Join(t.TempDir(), "volumes")}
	install := func(version string) volumemgr.DriverVolume {
		t.Helper()
		if err := errors.Join(os.RemoveAll(filepath.Join(root, "usr")), volumemgr.WriteSimulatedDriver(root, version)); err != nil {
			t.Fatal(err)
		}
		v, err := volumemgr.EnsureVolume(ctx, volumemgr.DriverSearch{Root: root}, store)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	bind := func(v volumemgr.DriverVolume) []string { return []string{v.Path + ":/usr/local/nvidia:ro"} }
	old := install(v470)
	library := filepath.Join(old.Path, "lib64/libcuda.so."+v470)
	text, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	id, say := startContainer(t, engine, image, residentScript, bind(old))
	if line := say(); line != "up" {
		t.Fatalf("the container says %q", line)
	}

	upgraded := install(v535)
	driver, err := volumemgr.FindDriver(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Repair(ctx, driver); err != nil {
		t.Fatal(err)
	}
	removed, kept, err := store.Collect(ctx, volumemgr.CollectOptions{Keep: []string{v535}})
	if err != nil || len(removed) != 0 || len(kept) != 2 {
		t.Errorf("while the old version is mounted: removed %v, kept %v, %v", removed, kept, err)
	}
	if got := runContainer(t, engine, image, "ls /usr/local/nvidia/lib64/libcuda.so.5*",
		&container.HostConfig{Binds: bind(upgraded)}); got != "/usr/local/nvidia/lib64/libcuda.so."+v535+"\n" {
		t.Errorf("the next container has %q", got)
	}
	if err := engine.ContainerKill(ctx, id, "USR1"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%x  -", md5.Sum(text))
	for _, how := range []string{"through what it had open", "under the name"} {
		if got := say(); got != want {
			t.Errorf("%s the container reads %q, want %q", how, got, want)
		}
	}
	if err := engine.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	removed, _, err = store.Collect(ctx, volumemgr.CollectOptions{Keep: []string{v535}})
	if err != nil || len(removed) != 1 || removed[0].Name != old.Name {
		t.Errorf("after its end: removed %v, %v", removed, err)
	}
}

// startContainer starts a script in its own container, and returns a function that reads
// its output line by line.
func startContainer(t *testing.T, engine *client.Client, image, script string, binds []string) (id string, say func() string) {
	t.Helper()
	ctx := context.Background()
	host := &container.HostConfig{NetworkMode: "none", Binds: binds}
	made, err := engine.ContainerCreate(ctx, &container.Config{Image: image, Tty: true, Cmd: []string{"/bin/sh", "-c", script}}, host, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}) }) // it may be removed already
	if err := engine.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	logs, err := engine.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close() })
	lines := bufio.NewReader(logs) // the output of a terminal has no stream headers
	return made.ID, func() string {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the container says %q: %v", line, err)
		}
		return strings.TrimSpace(line)
	}
}
