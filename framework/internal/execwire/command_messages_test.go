package execwire

import (
	"io"
	"strings"
	"testing"
)

func TestCommandMessagesAreBounded(t *testing.T) {
	m := &CommandMessages{Limit: 5}
	for _, text := range []string{"\nab", "cdef", "ghi"} {
		if n, err := m.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("write %q: %d, %v", text, n, err)
		}
	}
	if n, err := io.Copy(m, strings.NewReader("jkl")); n != 3 || err != nil || m.String() != "abcd" {
		t.Errorf("copied %d bytes, %v; kept %q", n, err, m)
	}
}
