package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestShellFallback checks that shell starts bash if it exists, and sh otherwise.
func TestShellFallback(t *testing.T) {
	for _, there := range [][]string{{"bash", "sh"}, {"sh"}} {
		dir := t.TempDir()
		for _, name := range there {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("/bin/sh", "-c", shellCommandLine)
		c.Env = []string{"PATH=" + dir}
		if out, err := c.CombinedOutput(); err != nil || string(out) != there[0]+"\n" {
			t.Errorf("of %v it becomes %q, %v; want %s", there, out, err, there[0])
		}
	}
}
