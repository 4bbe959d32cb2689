package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// AtLeast accepts one or more arguments; name is used in the error.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) > 0 && !slices.Contains(got, "") {
			return nil
		}
		return RequireArgs(name)(c, []string{})
	}
}

// AtMost accepts no argument or one; name is used in the error.
func AtMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) == 0 {
			return nil
		}
		return RequireArgs(name)(c, got)
	}
}

// RequireArgs accepts exactly these arguments. The error names the first missing or
// superfluous argument. An empty argument counts as missing.
func RequireArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) < len(names) || slices.Contains(got, "") {
			missing := slices.Index(append(slices.Clone(got), ""), "")
			return &UsageError{fmt.Errorf("%s needs %s: see %s --help", CommandName(c), names[min(missing, len(names)-1)], c.CommandPath())}
		}
		if len(got) > len(names) {
			return &UsageError{fmt.Errorf("%s takes no %q: see %s --help", CommandName(c), got[len(names)], c.CommandPath())}
		}
		return nil
	}
}

// CommandName returns the words of a command without the program's name, which errors have
// already.
func CommandName(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}
