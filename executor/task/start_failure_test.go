package task

import "testing"

func TestParseStartFailure(t *testing.T) {
	for _, tt := range []struct {
		program, text string
		code          int
		message       string
	}{
		{"nosuch", "launch nested container: malformed request: launch container a.b: start nosuch: no such program in /usr/bin:/bin", 127, "nosuch: not found"},
		{"/bin/nosuch",
			`start container: OCI runtime create failed: runc create failed: unable to start container process: exec: "/bin/nosuch": stat /bin/nosuch: no such file or directory: unknown`,
			127, "/bin/nosuch: not found"},
		{"nosuch", `exec: "nosuch": executable file not found in $PATH: unknown`, 127, "nosuch: not found"},
		{"/data", `exec: "/data": permission denied`, 126, "/data: permission denied"},
		{"/etc", "start /etc: fork/exec /etc: permission denied", 126, "/etc: permission denied"},
		{"/etc", "launch container a.b: start /etc in /tmp/x: permission denied", 126, "/etc: permission denied"},
		{"nosuch", "Failed to execute 'nosuch': No such file or directory\n", 127, "nosuch: not found"},
		{"/etc/passwd", "Failed to execute '/etc/passwd': Permission denied\n", 126, "/etc/passwd: permission denied"},
		{"train", "Failed to execute 'setup': No such file or directory\n", 0, ""},
		{"train", "train: no such file: data.csv", 0, ""},
	} {
		if code, message := ParseStartFailure(tt.program, tt.text); code != tt.code || message != tt.message {
			t.Errorf("%s: %q: got %d, %q; want %d, %q", tt.program, tt.text, code, message, tt.code, tt.message)
		}
	}
}
