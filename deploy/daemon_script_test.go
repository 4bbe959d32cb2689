package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLaterSettingsApply checks that the units' program passes flags in the order of the file,
// then those of the command line: of a flag that is set twice, the last value applies, as for
// `mesos-gpu cluster check`, which reads the same file.
func TestLaterSettingsApply(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("package/daemon")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mesos-gpu")
	for path, content := range map[string]string{
		filepath.Join(dir, "daemon"): strings.NewReplacer("/etc/mesos-gpu", dir, "/usr/bin/mesos-gpu", binary).Replace(string(text)),
		binary:                       "#!/bin/sh\nprintf '%s\\n' \"$@\"\n",
		// The last line has no line feed.
		filepath.Join(dir, "local.conf"): "# comment\nlog-level=info\n\ngpus=V100:2 A100:1\n#port=1\nlog-level=debug",
	} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ flags, want []string }{
		{nil, []string{"local", "--log-level=info", "--gpus=V100:2 A100:1", "--log-level=debug"}},
		{[]string{"--log-level=warn", "a b", ""}, []string{"local", "--log-level=info", "--gpus=V100:2 A100:1", "--log-level=debug", "--log-level=warn", "a b", ""}},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(dir, "daemon"), "local"}, c.flags...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if diff := cmp.Diff(c.want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")); diff != "" {
			t.Errorf("flags %q (-want +got):\n%s", c.flags, diff)
		}
	}
}
