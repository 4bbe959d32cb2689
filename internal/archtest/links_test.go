package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	// link matches the targets of links, heading the headings of a page.
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// documents returns the text of every Markdown file by its path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "shared" || name == "testdata") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the anchor of each heading of a page, as GitHub forms it.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return names
}

// TestLinksResolve checks that each link's file and heading exist, and that each
// page of docs is linked from another page.
func TestLinksResolve(t *testing.T) {
	all, found := documents(t), 0
	linked := map[string]bool{}
	for path, text := range all {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			found++
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
				linked[to] = true
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, m[1])
			} else if anchor != "" && !anchors(all[to])[anchor] {
				t.Errorf("%s links to %s: no such heading", path, m[1])
			}
		}
	}
	for path := range all {
		if strings.HasPrefix(path, filepath.Join("..", "..", "docs")) && !linked[path] {
			t.Errorf("no page links to %s", path)
		}
	}
	if found < 100 {
		t.Errorf("found only %d links in %d documents: the pattern is broken", found, len(all))
	}
}
