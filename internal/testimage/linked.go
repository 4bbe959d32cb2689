package testimage

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// LinkedProgram puts a program of this machine, or a library, into the image, and with
// it the libraries that it is linked to, the C library and its loader among
// them, each where it is here.
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
		return nil // the engine takes no name twice
	}
	data, err := os.ReadFile(host)
	if err != nil {
		return fmt.Errorf("put %s into image: %w", inside, err)
	}
	c.entries = append(c.entries, archiveEntry{name: name, mode: 0o755, data: data})
	return nil
}

// linkedTo reads lines such as "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6
// (0x7f…)" and, of the loader, "/lib64/ld-linux-x86-64.so.2 (0x7f…)". What is
// not found is for the image to have.
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
