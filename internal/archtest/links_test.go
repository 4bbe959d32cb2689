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
	// link finds what a document points at, heading its headlines.
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```")
)

// documents are all that people read, by path.
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

// anchors are the names that a page's headlines get.
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

// What the documents link to is there, with the headline that is named, and to
// each page of docs some other leads.
func TestLinksLeadSomewhere(t *testing.T) {
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
				t.Errorf("%s links to %s, which is not there", path, m[1])
			} else if anchor != "" && !anchors(all[to])[anchor] {
				t.Errorf("%s links to %s: there is no such headline", path, m[1])
			}
		}
	}
	for path := range all {
		if filepath.Base(filepath.Dir(path)) == "docs" && !linked[path] {
			t.Errorf("nothing links to %s", path)
		}
	}
	if found < 100 {
		t.Errorf("found only %d links in %d documents: the pattern is broken", found, len(all))
	}
}
