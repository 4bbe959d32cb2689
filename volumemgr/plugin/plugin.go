// Package plugin serves driver volumes to the Docker engine by its volume
// plugin protocol: "docker volume create -d mesos-gpu --name
// nvidia_535.104.05". It decides which volume a name means and who still uses
// one; it makes no volume itself, and lets no container write into one.
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

// PluginConfig is what a plugin needs. All but Log must be set.
type PluginConfig struct {
	Store volumemgr.Store
	// Find describes the driver that runs now.
	Find func() (volumemgr.InstalledDriver, error)
	// Mounts is the folder for read-only views of volumes, on a file system
	// that a restart empties: "/run/mesos-gpu/volumes".
	Mounts string
	// Socket is a path. What an earlier plugin left there is replaced.
	Socket string
	Log    logrus.FieldLogger
	// Ready is called when the engine can connect. May be nil.
	Ready func()
}

// Run serves the engine until ctx ends, and takes the socket away. The views
// that containers use stay.
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

// listenUnix takes a socket only from one that nobody answers on.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("another plugin serves %s", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is there and no socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil { // whoever can write to it may make volumes
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// volumeDriver answers the engine. The protocol passes no context along, so that it
// keeps the plugin's.
type volumeDriver struct {
	ctx context.Context
	PluginConfig
	mu sync.Mutex
	// users are the engine's ids for who has a volume mounted, by volume.
	users map[string]map[string]bool
}

func (*volumeDriver) Capabilities() *volume.CapabilitiesResponse {
	return &volume.CapabilitiesResponse{Capabilities: volume.Capability{Scope: "local"}}
}

// Create makes the volume of the driver that runs, or accepts one of another
// version that is still in the store.
func (d *volumeDriver) Create(r *volume.CreateRequest) error {
	if len(r.Options) > 0 {
		return fmt.Errorf("create volume %s: mesos-gpu volumes take no options, got %d", r.Name, len(r.Options))
	}
	found, findErr := d.Find()
	if findErr == nil && r.Name == "nvidia_"+found.Version {
		v, err := d.Store.Create(d.ctx, found)
		if err == nil {
			d.Log.WithField("volume", v.Name).Info("volume is whole")
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

// Remove gives the space back, unless somebody else than the engine still
// mounts the volume.
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

// Unmount takes the view away with its last user. A container that runs has
// a mount of its own by then, which this does not touch.
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
