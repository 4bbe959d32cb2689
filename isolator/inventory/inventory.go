// Package inventory remembers the GPUs of a machine across restarts of its programs: a GPU that is
// missing is then known to be lost, and the Mesos agent's flags stay the same while GPUs, links or
// settings of the driver come and go. It is one file in the daemon's state folder. The daemon and
// `mesos-gpu agent flags` write it; everyone may read it.
package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/filelock"
)

// FileName is the name of the file in the state folder. Without it, only GPUs that respond are known.
const FileName = "inventory.json"

// fileContent is the content of the file.
type fileContent struct {
	// Devices are all devices of the machine, each as it was last described.
	Devices []gpu.Device `json:"devices"`
	// Flags are the agent's flags of this boot, by the options that they depend on.
	Flags map[string]printedFlags `json:"flags,omitempty"`
}

// AgentFlags are the values of a Mesos agent's --resources and --attributes.
type AgentFlags struct {
	Resources  string `json:"resources"`
	Attributes string `json:"attributes"`
}

// Hardware identifies what the agent's flags describe. Two equal values have equal flags, whatever the
// state of the devices is.
type Hardware struct {
	// Boot identifies the boot of the machine. After a reboot an agent may have other flags: it gets a
	// new id.
	Boot string `json:"boot"`
	// Driver and CUDA are as in gpu.Host.
	Driver string `json:"driver"`
	CUDA   string `json:"cuda"`
	// UUIDs are the devices, also lost ones.
	UUIDs []string `json:"uuids"`
}

// printedFlags are flags that were printed.
type printedFlags struct {
	Hardware
	AgentFlags
}

// ReadDevices returns the devices that the machine is known to have; none without a file.
func ReadDevices(stateDir string) ([]gpu.Device, error) {
	c, err := readFile(stateDir)
	return c.Devices, err
}

// SaveDevices replaces the devices that the machine is known to have.
func SaveDevices(stateDir string, devices []gpu.Device) error {
	return update(stateDir, func(c *fileContent) { c.Devices = devices })
}

// KeepFlags returns the flags that were first printed with these options for the hardware, and saves now
// as those if there are none. A Mesos agent that runs refuses to start again with other flags: it
// compares the texts, with the order of devices and attributes. If the file cannot be changed, KeepFlags
// returns the flags and the error.
func KeepFlags(stateDir, options string, h Hardware, now AgentFlags) (AgentFlags, error) {
	h.UUIDs = slices.Sorted(slices.Values(h.UUIDs))
	kept := now
	err := update(stateDir, func(c *fileContent) {
		before, known := c.Flags[options]
		if known && before.Boot == h.Boot && before.Driver == h.Driver && before.CUDA == h.CUDA && slices.Equal(before.UUIDs, h.UUIDs) {
			kept = before.AgentFlags
			return
		}
		maps.DeleteFunc(c.Flags, func(_ string, f printedFlags) bool { return f.Boot != h.Boot })
		if c.Flags == nil {
			c.Flags = map[string]printedFlags{}
		}
		c.Flags[options] = printedFlags{h, now}
	})
	return kept, err
}

func readFile(stateDir string) (c fileContent, err error) {
	path := filepath.Join(stateDir, FileName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return fileContent{}, fmt.Errorf("read the machine's known GPUs: %s: %w; remove it to know only GPUs that respond", path, err)
	}
	return c, nil
}

// update changes the file if change changes its content. Other processes wait meanwhile.
func update(stateDir string, change func(*fileContent)) error {
	failed := func(err error) error { return fmt.Errorf("save the machine's known GPUs: %w", err) }
	c, err := readFile(stateDir)
	if err != nil {
		return err
	}
	before, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return failed(err)
	}
	change(&c)
	after, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return failed(err)
	}
	if string(before) == string(after) {
		return nil
	}
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return failed(err)
	}
	lock, err := os.OpenFile(filepath.Join(stateDir, FileName+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return failed(err)
	}
	defer lock.Close()
	if err := filelock.Lock(lock); err != nil {
		return failed(err)
	}
	if c, err = readFile(stateDir); err != nil { // another process may have changed it meanwhile
		return err
	}
	change(&c)
	if after, err = json.MarshalIndent(c, "", "  "); err != nil {
		return failed(err)
	}
	if err := atomicfile.Write(filepath.Join(stateDir, FileName), append(after, '\n'), 0o644); err != nil {
		return failed(err)
	}
	return nil
}
