package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerbsAreDocumented checks that the table of verbs in the reference is this one.
func TestVerbsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "command-line.md"))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| command | request | permission |\n|---|---|---|\n")
	for _, v := range List() {
		permission := v.Permission.String()
		if v.Scope == onAllRoles {
			permission += " on " + v.Scope
		}
		if v.Own {
			permission += ", or owner"
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.Command, v.Request, permission)
	}
	if !strings.Contains(string(text), table.String()) {
		t.Errorf("docs/reference/command-line.md does not contain this table:\n%s", table.String())
	}
}

// TestPageUsesNamesOfCommands checks that the label of each button begins with the word of its command.
func TestPageUsesNamesOfCommands(t *testing.T) {
	for _, v := range List() {
		words := strings.Fields(strings.ToLower(v.Page))
		if v.Changes() && v.Page != "" && !strings.Contains(v.Name, words[0]) {
			t.Errorf("the button of %q is %q", v.Name, v.Page)
		}
	}
}
