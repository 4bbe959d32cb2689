package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/volumemgr"
)

const (
	v535 = "535.104.05"
	v470 = "470.57.02"
)

// testConfig has a driver of version 535 and an existing volume of version 470.
func testConfig(t *testing.T) PluginConfig {
	t.Helper()
	store := volumemgr.Store{Dir: filepath.Join(t.TempDir(), "volumes")}
	roots := map[string]string{}
	for _, v := range []string{v470, v535} {
		roots[v] = t.TempDir()
		if err := volumemgr.WriteSimulatedDriver(roots[v], v); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := volumemgr.EnsureVolume(context.Background(), volumemgr.DriverSearch{Root: roots[v470]}, store); err != nil {
		t.Fatal(err)
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	return PluginConfig{
		Store: store, Log: quiet, Find: volumemgr.DriverSearch{Root: roots[v535]}.Find,
		Mounts: filepath.Join(t.TempDir(), "mounts"), Socket: filepath.Join(t.TempDir(), "plugins", "mesos-gpu.sock"),
	}
}

// startPlugin runs a plugin until the test ends or stop is called.
func startPlugin(t *testing.T, cfg PluginConfig) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	cfg.Ready = func() { close(ready) }
	go func() { ended <- Run(ctx, cfg) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the plugin ended: %v", err)
	}
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-ended; err != nil {
			t.Errorf("the plugin ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// pluginResponse has the fields of all the plugin's responses.
type pluginResponse struct {
	Err          string
	Mountpoint   string
	Volume       struct{ Name, Mountpoint string }
	Volumes      []struct{ Name, Mountpoint string }
	Implements   []string
	Capabilities struct{ Scope string }
}

// callPlugin sends a request as the engine does.
func callPlugin(t *testing.T, socket, call string, body any) pluginResponse {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post("http://plugin/"+call, "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a pluginResponse
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

type volumeRequest struct{ Name, ID string }

func TestProtocol(t *testing.T) {
	cfg := testConfig(t)
	stop := startPlugin(t, cfg)
	call := func(name string, body any) pluginResponse { t.Helper(); return callPlugin(t, cfg.Socket, name, body) }
	if a := call("Plugin.Activate", nil); len(a.Implements) != 1 || a.Implements[0] != "VolumeDriver" {
		t.Errorf("activate: %+v", a)
	}
	if a := call("VolumeDriver.Capabilities", nil); a.Capabilities.Scope != "local" {
		t.Errorf("capabilities: %+v", a)
	}
	for _, name := range []string{"nvidia_" + v535, "nvidia_" + v535, "nvidia_" + v470} {
		if a := call("VolumeDriver.Create", volumeRequest{Name: name}); a.Err != "" {
			t.Errorf("create %s: %s", name, a.Err)
		}
	}
	for _, name := range []string{"nvidia_550.54.15", "nvidia_driver", "../nvidia_" + v535, ""} {
		if a := call("VolumeDriver.Create", volumeRequest{Name: name}); !strings.Contains(a.Err,
			"this machine's driver is 535.104.05, so only nvidia_535.104.05 can be made") {
			t.Errorf("create %q: %q", name, a.Err)
		}
	}
	options := map[string]any{"Name": "nvidia_" + v535, "Opts": map[string]string{"size": "1"}}
	if a := call("VolumeDriver.Create", options); !strings.Contains(a.Err, "take no options") {
		t.Errorf("options: %q", a.Err)
	}
	if a := call("VolumeDriver.List", nil); len(a.Volumes) != 2 || a.Volumes[1].Name != "nvidia_"+v535 {
		t.Errorf("list: %+v", a.Volumes)
	}
	if a := call("VolumeDriver.Get", volumeRequest{Name: "nvidia_" + v535}); a.Volume.Name != "nvidia_"+v535 ||
		a.Volume.Mountpoint != filepath.Join(cfg.Mounts, "nvidia_"+v535) {
		t.Errorf("get: %+v", a)
	}
	for _, verb := range []string{"Get", "Path", "Mount", "Remove"} {
		if a := call("VolumeDriver."+verb, volumeRequest{Name: "nvidia_1.2"}); !strings.Contains(a.Err, "no such volume") {
			t.Errorf("%s of no volume: %+v", verb, a)
		}
	}
	for _, verb := range []string{"Remove", "Unmount"} {
		if a := call("VolumeDriver."+verb, volumeRequest{Name: "../../etc"}); a.Err == "" {
			t.Errorf("%s took a path for a name", verb)
		}
	}
	stop()
	if _, err := os.Stat(cfg.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestCreateWithoutDriver(t *testing.T) {
	cfg := testConfig(t)
	cfg.Find = func() (volumemgr.InstalledDriver, error) { return volumemgr.InstalledDriver{}, volumemgr.ErrNoDriver }
	startPlugin(t, cfg)
	if a := callPlugin(t, cfg.Socket, "VolumeDriver.Create", volumeRequest{Name: "nvidia_" + v470}); a.Err != "" {
		t.Errorf("a volume that is there: %s", a.Err)
	}
	if a := callPlugin(t, cfg.Socket, "VolumeDriver.Create", volumeRequest{Name: "nvidia_" + v535}); !strings.Contains(a.Err, "no NVIDIA driver") {
		t.Errorf("one that is not: %q", a.Err)
	}
}

func TestListenSocket(t *testing.T) {
	cfg := testConfig(t)
	stop := startPlugin(t, cfg)
	if info, err := os.Stat(cfg.Socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info.Mode(), err)
	}
	if err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "another plugin serves "+cfg.Socket) {
		t.Errorf("a second plugin: %v", err)
	}
	stop()
	// A killed plugin leaves a socket without a listener.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: cfg.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	startPlugin(t, cfg)()
	if err := os.WriteFile(cfg.Socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "exists and is not a socket") {
		t.Errorf("a file in its place: %v", err)
	}
}

// The engine's mount is read-only even for root. It is shared by all users, survives a
// restart of the plugin, and is removed with the last user.
func TestRootMount(t *testing.T) {
	testneeds.RequireRoot(t)
	cfg := testConfig(t)
	stop := startPlugin(t, cfg)
	name := "nvidia_" + v470
	view := filepath.Join(cfg.Mounts, name)
	t.Cleanup(func() { _ = unix.Unmount(view, unix.MNT_DETACH) })
	mount := func(id string) {
		t.Helper()
		if a := callPlugin(t, cfg.Socket, "VolumeDriver.Mount", volumeRequest{name, id}); a.Err != "" || a.Mountpoint != view {
			t.Fatalf("mount: %+v", a)
		}
	}
	unmount := func(id string) {
		t.Helper()
		if a := callPlugin(t, cfg.Socket, "VolumeDriver.Unmount", volumeRequest{name, id}); a.Err != "" {
			t.Errorf("unmount: %s", a.Err)
		}
	}
	wantView := func(want bool) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(view, "lib64/libcuda.so.1")); (err == nil) != want {
			t.Errorf("the volume is mounted: %t, want %t", err == nil, want)
		}
	}
	mount("a")
	mount("b")
	wantView(true)
	for _, path := range []string{"new", "lib64/libcuda.so." + v470} {
		f, err := os.OpenFile(filepath.Join(view, path), os.O_WRONLY|os.O_CREATE, 0o644)
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("open %s for writing: %v, want a read-only file system", path, err)
		}
		if err == nil {
			f.Close()
		}
	}
	if a := callPlugin(t, cfg.Socket, "VolumeDriver.Remove", volumeRequest{Name: name}); !strings.Contains(a.Err, "2 containers use it") {
		t.Errorf("remove in use: %q", a.Err)
	}
	unmount("a")
	wantView(true)
	stop()
	stop = startPlugin(t, cfg)
	wantView(true)
	// The new plugin knows no users, but another process's mount keeps the volume.
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(view, other, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if a := callPlugin(t, cfg.Socket, "VolumeDriver.Remove", volumeRequest{Name: name}); !strings.Contains(a.Err, "is mounted at "+other) {
		t.Errorf("remove of a mounted volume: %q", a.Err)
	}
	if err := unix.Unmount(other, 0); err != nil {
		t.Fatal(err)
	}
	mount("c")
	unmount("c")
	wantView(false)
	if a := callPlugin(t, cfg.Socket, "VolumeDriver.Remove", volumeRequest{Name: name}); a.Err != "" {
		t.Errorf("remove: %s", a.Err)
	}
	if list, err := cfg.Store.List(); err != nil || len(list) != 0 {
		t.Errorf("still there: %v, %v", list, err)
	}
	stop()
}
