// Package plugin serves driver volumes to the Docker engine with its volume plugin
// protocol: "docker volume create -d mesos-gpu --name nvidia_535.104.05". It
// decides which volume a name refers to and which containers use it. Package
// volumemgr creates the volumes. No container can write to one.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/docker/go-plugins-helpers/volume"
	"github.com/sirupsen/logrus"

	"mesos-gpu/volumemgr"
)

// DefaultSocket is where the engine looks for a plugin named mesos-gpu.
const DefaultSocket = "/run/docker/plugins/mesos-gpu.sock"

// PluginConfig configures a plugin. All fields but Log and Ready are required.
type PluginConfig struct {
	Store volumemgr.Store
	// Find describes the driver that is loaded now.
	Find func() (volumemgr.InstalledDriver, error)
	// Mounts is the folder for read-only views of volumes. It must be on a file
	// system that is empty after a restart: "/run/mesos-gpu/volumes".
	Mounts string
	// Socket is the path of the socket. A socket of an earlier plugin is replaced.
	Socket string
	Log    logrus.FieldLogger
	// Ready is called once the engine can connect. It may be nil.
	Ready func()
}

// Run serves the engine until ctx ends and removes the socket. Views that
// containers use remain.
func Run(ctx context.Context, cfg PluginConfig) error {
	l, err := listenUnix(cfg.Socket)
	if err != nil {
		return fmt.Errorf("serve volume plugin: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = logrus.New()
	}
	if cfg.Ready != nil {
		cfg.Ready()
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	d := &volumeDriver{ctx: ctx, PluginConfig: cfg, users: map[string]map[string]bool{}}
	if err := volume.NewHandler(d).Serve(l); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve volume plugin: %w", err)
	}
	return nil
}

// listenUnix replaces a socket on which no plugin answers.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("another plugin serves %s", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s exists and is not a socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil { // every user that can write to it can create volumes
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// volumeDriver handles the engine's requests. It stores the plugin's context
// because the protocol passes none.
type volumeDriver struct {
	// ctx ends when the plugin stops, and ends a copy in progress.
	ctx context.Context
	PluginConfig
	// mu is held during each mount and unmount.
	mu sync.Mutex
	// users are the engine's mount IDs, by volume. The view of a volume is
	// unmounted when its last ID is removed. A restart of the plugin loses them.
	users map[string]map[string]bool
}

func (*volumeDriver) Capabilities() *volume.CapabilitiesResponse {
	return &volume.CapabilitiesResponse{Capabilities: volume.Capability{Scope: "local"}}
}

// Create creates the volume of the loaded driver, or accepts a volume of another
// version that is in the store.
func (d *volumeDriver) Create(r *volume.CreateRequest) error {
	if len(r.Options) > 0 {
		return fmt.Errorf("create volume %s: mesos-gpu volumes take no options, got %d", r.Name, len(r.Options))
	}
	found, findErr := d.Find()
	if findErr == nil && r.Name == "nvidia_"+found.Version {
		v, err := d.Store.Create(d.ctx, found)
		if err == nil {
			d.Log.WithField("volume", v.Name).Info("volume is complete")
		}
		return err
	}
	if _, err := d.findVolume(r.Name); !errors.Is(err, volumemgr.ErrNoVolume) {
		return err
	}
	if findErr != nil {
		return fmt.Errorf("create volume %s: %w", r.Name, findErr)
	}
	return fmt.Errorf("create volume %s: this machine's driver is %s, so only nvidia_%s can be made", r.Name, found.Version, found.Version)
}

func (d *volumeDriver) findVolume(name string) (volumemgr.DriverVolume, error) {
	list, err := d.Store.List()
	if err != nil {
		return volumemgr.DriverVolume{}, err
	}
	for _, v := range list {
		if v.Name == name {
			return v, nil
		}
	}
	return volumemgr.DriverVolume{}, fmt.Errorf("find volume %s: %w", name, volumemgr.ErrNoVolume)
}

func (d *volumeDriver) List() (*volume.ListResponse, error) {
	list, err := d.Store.List()
	if err != nil {
		return nil, err
	}
	out := &volume.ListResponse{}
	for _, v := range list {
		out.Volumes = append(out.Volumes, d.describeVolume(v))
	}
	return out, nil
}

func (d *volumeDriver) Get(r *volume.GetRequest) (*volume.GetResponse, error) {
	v, err := d.findVolume(r.Name)
	if err != nil {
		return nil, err
	}
	return &volume.GetResponse{Volume: d.describeVolume(v)}, nil
}

func (d *volumeDriver) describeVolume(v volumemgr.DriverVolume) *volume.Volume {
	return &volume.Volume{
		Name: v.Name, Mountpoint: d.viewPath(v.Name),
		Status: map[string]any{"files": v.Files, "bytes": v.Bytes, "path": v.Path},
	}
}

// Remove deletes a volume. It returns an error while a container, or a process
// outside the engine, mounts it.
func (d *volumeDriver) Remove(r *volume.RemoveRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.users[r.Name]); n > 0 {
		return fmt.Errorf("remove volume %s: %d containers use it", r.Name, n)
	}
	if err := d.unmountView(r.Name); err != nil {
		return fmt.Errorf("remove volume %s: %w", r.Name, err)
	}
	if err := d.Store.Remove(d.ctx, r.Name, volumemgr.CollectOptions{}); err != nil {
		return err
	}
	d.Log.WithField("volume", r.Name).Info("volume removed")
	return nil
}

func (d *volumeDriver) Path(r *volume.PathRequest) (*volume.PathResponse, error) {
	if _, err := d.findVolume(r.Name); err != nil {
		return nil, err
	}
	return &volume.PathResponse{Mountpoint: d.viewPath(r.Name)}, nil
}

func (d *volumeDriver) Mount(r *volume.MountRequest) (*volume.MountResponse, error) {
	v, err := d.findVolume(r.Name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.mountView(v); err != nil {
		return nil, fmt.Errorf("mount volume %s: %w", r.Name, err)
	}
	if d.users[r.Name] == nil {
		d.users[r.Name] = map[string]bool{}
	}
	d.users[r.Name][r.ID] = true
	return &volume.MountResponse{Mountpoint: d.viewPath(r.Name)}, nil
}

// Unmount removes the view with its last user. Running containers have mounts of
// their own, which it does not affect.
func (d *volumeDriver) Unmount(r *volume.UnmountRequest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.users[r.Name], r.ID)
	if len(d.users[r.Name]) > 0 {
		return nil
	}
	if err := d.unmountView(r.Name); err != nil {
		return fmt.Errorf("unmount volume %s: %w", r.Name, err)
	}
	return nil
}
