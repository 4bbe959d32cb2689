package web_test

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/web"
)

// maxPage limits the size of all files of the page, in bytes: the first visit takes less than a second at 3 Mbit/s.
const maxPage = 320 << 10

// next stands for the API handler.
var next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusTeapot)
})

func sendRequest(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	web.NewHandler(next).ServeHTTP(w, r)
	return w.Result()
}

// TestFiles checks that the page's files have safe headers, and that other paths reach the API.
func TestFiles(t *testing.T) {
	for _, test := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/static/app.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/static/style.css", 200, "text/css; charset=utf-8"},
		{"GET", "/static/icon.svg", 200, "image/svg+xml"},
		{"POST", "/", http.StatusTeapot, ""},
		{"GET", "/static/", http.StatusTeapot, ""},
		{"GET", "/static/none.js", http.StatusTeapot, ""},
		{"GET", "/static/../web.go", http.StatusTeapot, ""},
		{"GET", "/index.html", http.StatusTeapot, ""},
		{"GET", "/v1/jobs", http.StatusTeapot, ""},
	} {
		res := sendRequest(t, test.method, test.path)
		if res.StatusCode != test.status || res.Header.Get("Content-Type") != test.kind {
			t.Errorf("%s %s: got %d %q, want %d %q", test.method, test.path, res.StatusCode, res.Header.Get("Content-Type"), test.status, test.kind)
		}
		if test.status != 200 {
			continue
		}
		policy := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s: policy %q", test.path, policy)
		}
		for _, directive := range []string{
			"script-src 'self'", "style-src 'self'", "connect-src 'self'", "form-action 'none'",
			"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
		} {
			if !slices.Contains(strings.Split(policy, "; "), directive) {
				t.Errorf("%s: the policy %q lacks %s", test.path, policy, directive)
			}
		}
		if res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a browser may guess another type", test.path)
		}
	}
}

// TestBrowserCaching checks that an unchanged file is not sent again.
func TestBrowserCaching(t *testing.T) {
	tag := sendRequest(t, "GET", "/static/app.js").Header.Get("ETag")
	res := sendRequest(t, "GET", "/static/app.js", "If-None-Match", tag)
	if body, err := io.ReadAll(res.Body); res.StatusCode != http.StatusNotModified || len(body) > 0 || err != nil {
		t.Errorf("request with the current ETag %s: status %d with %d bytes, %v", tag, res.StatusCode, len(body), err)
	}
	if res := sendRequest(t, "GET", "/static/app.js", "If-None-Match", `"old"`); res.StatusCode != http.StatusOK {
		t.Errorf("request with an old ETag: status %d", res.StatusCode)
	}
}

// pageSources returns the page's files in the repository.
func pageSources(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS("static"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join("static", name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	elsewhere = regexp.MustCompile(`//[A-Za-z0-9.-]+\.[A-Za-z]+`)
	inline    = regexp.MustCompile(`(?i)<script>|\son[a-z]+=|\sstyle=|<style`)
	loads     = regexp.MustCompile(`(?:from '\./|(?:href|src)="static/)([a-z.]+)['"]`)
)

// makesMarkup are the ways to make markup or code of text.
var makesMarkup = []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc"}

// TestSources checks the size of the files, that they load nothing from other hosts, and that
// they do not convert text to markup.
func TestSources(t *testing.T) {
	files := pageSources(t)
	total := 0
	for name, text := range files {
		total += len(text)
		if n := strings.Count(text, "\n"); n > 320 {
			t.Errorf("%s has %d lines, more than 320", name, n)
		}
		own := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")
		if found := elsewhere.FindString(own); found != "" {
			t.Errorf("%s names another host: %s", name, found)
		}
		for _, way := range makesMarkup {
			if strings.Contains(text, way) {
				t.Errorf("%s makes markup or code of text: %s", name, way)
			}
		}
		if strings.HasSuffix(name, ".html") && inline.MatchString(text) {
			t.Errorf("%s has what its policy forbids: %s", name, inline.FindString(text))
		}
		for _, m := range loads.FindAllStringSubmatch(text, -1) {
			if files[m[1]] == "" {
				t.Errorf("%s loads %s, which is not there", name, m[1])
			}
		}
	}
	if len(files) < 10 || total > maxPage {
		t.Errorf("%d files with %d bytes, want at most %d bytes", len(files), total, maxPage)
	}
	t.Logf("%d files, %d bytes", len(files), total)
}
