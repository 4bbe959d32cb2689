package testimage

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// LinkedProgram adds a program or library of this machine to the image, with
// the libraries that it is linked to, including the C library and the loader.
// Libraries keep their host paths.
func LinkedProgram(inside, host string) ImageOption {
	return func(c *imageContent) error {
		if err := c.copyFile(inside, host); err != nil {
			return err
		}
		libraries, err := linkedTo(host)
		for _, l := range libraries {
			if err == nil {
				err = c.copyFile(l, l)
			}
		}
		return err
	}
}

func (c *imageContent) copyFile(inside, host string) error {
	name := strings.TrimPrefix(inside, "/")
	if slices.ContainsFunc(c.entries, func(e archiveEntry) bool { return e.name == name }) {
		return nil // the engine rejects duplicate names
	}
	data, err := os.ReadFile(host)
	if err != nil {
		return fmt.Errorf("put %s into image: %w", inside, err)
	}
	c.entries = append(c.entries, archiveEntry{name: name, mode: 0o755, data: data})
	return nil
}

// linkedTo parses lines such as "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6
// (0x7f…)" and, for the loader, "/lib64/ld-linux-x86-64.so.2 (0x7f…)". It
// ignores libraries that are not found.
func linkedTo(program string) ([]string, error) {
	text, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("list what %s is linked to: %w", program, err)
	}
	var paths []string
	for line := range strings.Lines(string(text)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				paths = append(paths, word)
			}
		}
	}
	return paths, nil
}
