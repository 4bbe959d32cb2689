package container

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// opened are the files of a container's first process, and the agent's ends
// of its pipes.
type opened struct {
	stdin *os.File
	null  *os.File // stdin where nobody gave one
	// ends are the process's ends of the pipes; extra begins with them.
	ends, extra      []*os.File
	shared           []*os.File // another container's namespaces, in extra too
	control, reports *os.File
}

// open opens what Launch needs; on error nothing stays open. Without a stdin
// there is nothing to read.
func open(stdin *os.File) (*opened, error) {
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
		return nil, errors.Join(fmt.Errorf("open control pipe: %w", err), closed(null))
	}
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open report pipe: %w", err), closed(null), controlEnd.Close(), control.Close())
	}
	ends := []*os.File{controlEnd, reportEnd}
	return &opened{stdin: stdin, null: null, ends: ends, extra: ends, control: control, reports: reports}, nil
}

// close closes what only the container's process needs.
func (o *opened) close() {
	for _, f := range slices.Concat(o.ends, o.shared, []*os.File{o.null}) {
		_ = closed(f) // this process has not used it
	}
}

// share gives the process the first n of a container's namespaces.
func (o *opened) share(spaces *namespaces, n int) error {
	files, err := spaces.copies(n)
	o.shared, o.extra = files, slices.Concat(o.ends, files)
	return err
}

func closed(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
