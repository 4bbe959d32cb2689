package health

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the table of XIDs")

const tableHead = "| XID | meaning | effect |\n|---|---|---|\n"

func formatTable() string {
	var b strings.Builder
	for _, x := range XIDCatalog() {
		effect := string(x.Effect)
		if slices.Contains(DefaultIgnoredXIDs(), x.Number) {
			effect = "ignored; else " + effect
		}
		fmt.Fprintf(&b, "| %d | %s | %s |\n", x.Number, x.Meaning, effect)
	}
	return b.String()
}

// The table at the end of the document matches the code's catalog.
func TestCatalogIsDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "concepts", "health.md")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose, rows, ok := strings.Cut(string(document), tableHead)
	if !ok {
		t.Fatal("docs/concepts/health.md has no table of XIDs")
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(prose+tableHead+formatTable()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if rows != formatTable() {
		t.Error("the table of XIDs in docs/concepts/health.md is not the catalog's; -rewrite writes it")
	}
}

func TestXIDCatalogIsSorted(t *testing.T) {
	before := uint64(0)
	for _, x := range XIDCatalog() {
		if x.Number <= before {
			t.Errorf("%d follows %d", x.Number, before)
		}
		before = x.Number
		if x.Meaning == "" || x.Effect != Passes && x.Effect != NeedsReset && x.Effect != DriverDecides || LookUpXID(x.Number) != x {
			t.Errorf("%+v", x)
		}
	}
	for _, number := range []uint64{48, 62, 64, 74, 79, 95, 119, 120, 140, 4711} {
		if LookUpXID(number).Effect != NeedsReset {
			t.Errorf("XID %d passes", number)
		}
	}
}
