package limiter

import (
	"debug/elf"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each source file of the library calls only files of lower layers.
func TestCFilesHaveNoImportCycle(t *testing.T) {
	dir, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	calls := callsByFile(t, filepath.Join(dir, "obj"))
	if !slices.Contains(calls["charge"], "pool") || !slices.Contains(calls["graph"], "charge") {
		t.Fatalf("the objects do not tell who calls whom: %v", calls)
	}
	for _, file := range slices.Sorted(maps.Keys(calls)) {
		if circle := findPath(calls, file, file, map[string]bool{}); circle != nil {
			t.Errorf("%s.c calls itself by %s", file, strings.Join(circle, ", "))
		}
	}
}

// callsByFile returns, for each object, the objects that define its undefined symbols.
func callsByFile(t *testing.T, dir string) map[string][]string {
	t.Helper()
	objects, err := filepath.Glob(filepath.Join(dir, "*.o"))
	if err != nil {
		t.Fatal(err)
	}
	has, lacks := map[string]string{}, map[string][]string{}
	for _, path := range objects {
		file := strings.TrimSuffix(filepath.Base(path), ".o")
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := f.Symbols()
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range symbols {
			switch {
			case elf.ST_BIND(s.Info) == elf.STB_LOCAL:
			case s.Section == elf.SHN_UNDEF:
				lacks[file] = append(lacks[file], s.Name)
			default:
				has[s.Name] = file
			}
		}
	}
	calls := map[string][]string{}
	for file, names := range lacks {
		for _, name := range names {
			if other, ours := has[name]; ours && !slices.Contains(calls[file], other) {
				calls[file] = append(calls[file], other)
			}
		}
	}
	return calls
}

// findPath returns a call path between two files, or nil.
func findPath(calls map[string][]string, from, to string, seen map[string]bool) []string {
	for _, next := range calls[from] {
		if next == to {
			return []string{next}
		}
		if seen[next] {
			continue
		}
		seen[next] = true
		if way := findPath(calls, next, to, seen); way != nil {
			return append([]string{next}, way...)
		}
	}
	return nil
}
