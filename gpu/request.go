package gpu

import "fmt"

// Request is what one task asks of the GPUs of one agent.
type Request struct {
	// GPUs counts whole devices.
	GPUs int `json:"gpus"`
	// Types says which devices will do.
	Types Types `json:"types,omitzero"`
}

// String reads "2 GPUs of V100 or A100", "1 GPU", "no GPU".
func (r Request) String() string {
	if r.GPUs == 0 {
		return "no GPU"
	}
	s := fmt.Sprintf("%d %s", r.GPUs, Plural(r.GPUs, "GPU"))
	if r.Types.Any() {
		return s
	}
	return s + " of " + r.Types.String()
}

// Plural gives the word its s where n asks for one.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
