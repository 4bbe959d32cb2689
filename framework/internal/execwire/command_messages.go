package execwire

import "strings"

// CommandMessages keeps the first Limit bytes of a command's standard error, and discards the rest.
type CommandMessages struct {
	Limit int
	text  strings.Builder
}

func (m *CommandMessages) Write(p []byte) (int, error) {
	m.text.Write(p[:min(len(p), m.Limit-m.text.Len())])
	return len(p), nil
}

// String returns what was kept, without white space around it.
func (m *CommandMessages) String() string { return strings.TrimSpace(m.text.String()) }
