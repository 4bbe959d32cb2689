package container

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// launchFiles are the files of a container's first process and the agent's ends
// of its pipes.
type launchFiles struct {
	stdin *os.File
	null  *os.File // stdin if the caller gave none
	// ends are the process's ends of the pipes; they are the first elements of
	// extra.
	ends, extra      []*os.File
	shared           []*os.File // another container's namespaces, also in extra
	control, reports *os.File
}

// openLaunchFiles opens the files that Launch needs. A nil stdin is replaced by
// /dev/null. On error it closes everything.
func openLaunchFiles(stdin *os.File) (*launchFiles, error) {
	var null *os.File
	if stdin == nil {
		var err error
		if null, err = os.Open(os.DevNull); err != nil {
			return nil, fmt.Errorf("open stdin: %w", err)
		}
		stdin = null
	}
	controlEnd, control, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open control pipe: %w", err), closeFile(null))
	}
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open report pipe: %w", err), closeFile(null), controlEnd.Close(), control.Close())
	}
	ends := []*os.File{controlEnd, reportEnd}
	return &launchFiles{stdin: stdin, null: null, ends: ends, extra: ends, control: control, reports: reports}, nil
}

// close closes the files that only the container's process needs.
func (o *launchFiles) close() {
	for _, f := range slices.Concat(o.ends, o.shared, []*os.File{o.null}) {
		_ = closeFile(f) // this process has not used it
	}
}

// shareNamespaces passes the first n namespaces of a container to the process.
func (o *launchFiles) shareNamespaces(spaces *namespaceFiles, n int) error {
	files, err := spaces.copyFiles(n)
	o.shared, o.extra = files, slices.Concat(o.ends, files)
	return err
}

func closeFile(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
