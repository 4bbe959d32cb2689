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

// localLinks returns the files and headings to which a page links, by their paths.
func localLinks(page, text string) []localLink {
	var all []localLink
	for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(file, "://") {
			continue
		}
		to := page
		if file != "" {
			to = filepath.Join(filepath.Dir(page), file)
		}
		all = append(all, localLink{text: m[1], to: to, anchor: anchor})
	}
	return all
}

type localLink struct{ text, to, anchor string }

// TestLinksResolve checks that the file and the heading of each link exist.
func TestLinksResolve(t *testing.T) {
	all, found := documents(t), 0
	for path, text := range all {
		for _, l := range localLinks(path, text) {
			found++
			if _, err := os.Stat(l.to); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, l.text)
			} else if l.anchor != "" && !anchors(all[l.to])[l.anchor] {
				t.Errorf("%s links to %s: no such heading", path, l.text)
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d links in %d documents: the pattern is broken", found, len(all))
	}
}

// TestPagesAreReachable checks that a reader can follow links from docs/README.md to
// every page of docs.
func TestPagesAreReachable(t *testing.T) {
	all := documents(t)
	index := filepath.Join("..", "..", "docs", "README.md")
	reached := map[string]bool{index: true}
	for queue := []string{index}; len(queue) > 0; queue = queue[1:] {
		for _, l := range localLinks(queue[0], all[queue[0]]) {
			if _, page := all[l.to]; page && !reached[l.to] {
				reached[l.to] = true
				queue = append(queue, l.to)
			}
		}
	}
	for path := range all {
		if strings.HasPrefix(path, filepath.Dir(index)) && !reached[path] {
			t.Errorf("no links lead from docs/README.md to %s", path)
		}
	}
}

// TestPagesBeginWithAnExample checks that each page of docs, before its first section, says
// for whom it is and shows an example. It leaves out generated results.
func TestPagesBeginWithAnExample(t *testing.T) {
	root, found := filepath.Join("..", "..", "docs"), 0
	for path, text := range documents(t) {
		if !strings.HasPrefix(path, root) || strings.Contains(path, "placement") {
			continue
		}
		found++
		intro, _, _ := strings.Cut(text, "\n## ")
		intro = strings.ToLower(intro)
		if !strings.Contains(intro, "for ") || !strings.Contains(intro, "example") {
			t.Errorf("%s: the text above the first section has no reader (\"For …\") or no example", path)
		}
	}
	if found < 20 {
		t.Errorf("found only %d pages", found)
	}
}
