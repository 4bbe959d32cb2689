package module

import (
	"debug/elf"
	"fmt"
	"strings"
)

// InstalledPath is the usual path of the module on an agent's machine.
const InstalledPath = "/usr/lib/libmesosgpumodule.so"

// Info describes a file of the module.
type Info struct {
	// File is its path.
	File string `json:"file"`
	// Mesos is the version of Mesos for which it was built. Agents of other versions
	// refuse to load it.
	Mesos string `json:"mesos"`
	// AgentAPI is the version of the daemon's API that it uses, "" in modules that do
	// not state it.
	AgentAPI string `json:"agent_api,omitempty"`
}

// infoSymbol is the constant in src/isolator.cpp with the text "mesos=VERSION
// agent-api=VERSION".
const infoSymbol = "io_mesosgpu_info"

// ReadInfo reads the versions from a module's file. It does not load the module. The
// error wraps fs.ErrNotExist if there is no such file.
func ReadInfo(file string) (Info, error) {
	f, err := elf.Open(file)
	if err != nil {
		return Info{}, fmt.Errorf("read module %s: %w", file, err)
	}
	defer f.Close()
	text, err := readConstant(f, infoSymbol)
	if err != nil {
		return Info{}, fmt.Errorf("read module %s: %w: it is not mesos-gpu's module, or that of an older release: build it by make module", file, err)
	}
	info := Info{File: file}
	for _, field := range strings.Fields(text) {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "mesos":
			info.Mesos = value
		case "agent-api":
			info.AgentAPI = value
		}
	}
	return info, nil
}

// readConstant returns the text of an exported constant.
func readConstant(f *elf.File, name string) (string, error) {
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return "", err
	}
	for _, s := range symbols {
		if s.Name != name || int(s.Section) >= len(f.Sections) {
			continue
		}
		section := f.Sections[s.Section]
		data := make([]byte, s.Size)
		if _, err := section.ReadAt(data, int64(s.Value-section.Addr)); err != nil {
			return "", err
		}
		return strings.TrimRight(string(data), "\x00"), nil
	}
	return "", fmt.Errorf("it has no symbol %s", name)
}
