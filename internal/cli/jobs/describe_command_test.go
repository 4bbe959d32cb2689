package jobs

import "testing"

// Commands are shown as a shell reads them.
func TestFormatCommand(t *testing.T) {
	for _, test := range []struct {
		command []string
		want    string
	}{
		{[]string{"/bin/sh", "-c", "cd /data\npython train.py \"$X\"\n"}, "cd /data\npython train.py \"$X\"\n"},
		{[]string{"python", "train.py", "--lr=0.1"}, "python train.py --lr=0.1"},
		{[]string{"echo", "two words", "it's", "", "$HOME"}, `echo 'two words' 'it'\''s' '' '$HOME'`},
		{nil, ""},
	} {
		if got := formatCommand(test.command); got != test.want {
			t.Errorf("%q: got %s, want %s", test.command, got, test.want)
		}
	}
}
