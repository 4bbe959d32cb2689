// Package web serves the user interface at the scheduler's address: static files that are
// embedded in the binary and use the REST API of the same scheduler, with the permissions of
// the token that the user enters. There is no cookie, so that pages of other sites cannot act
// for the user.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed static
var staticFiles embed.FS

// contentSecurityPolicy permits the page to load only its own files, to connect only to
// its own scheduler. It forbids inline scripts and turning text into markup.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// staticFile is a file of the page with its response headers.
type staticFile struct {
	text              []byte
	contentType, etag string
}

// NewHandler serves the page's files and passes all other requests to next.
func NewHandler(next http.Handler) http.Handler {
	files := loadFiles()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, ours := files[r.URL.Path]
		if !ours || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", f.contentType)
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // the browser revalidates its copy by the ETag
		h.Set("ETag", f.etag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
	})
}

// loadFiles returns the embedded files by URL path.
func loadFiles() map[string]staticFile {
	files := map[string]staticFile{}
	err := fs.WalkDir(staticFiles, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := staticFiles.ReadFile(name)
		if err != nil {
			return err
		}
		files["/"+name] = newStaticFile(name, text)
		return nil
	})
	if err != nil {
		panic(fmt.Sprintf("the page in this binary is damaged: %v", err)) // embedded files are always readable
	}
	files["/"] = files["/static/index.html"]
	delete(files, "/static/index.html")
	return files
}

func newStaticFile(name string, text []byte) staticFile {
	sum := sha256.Sum256(text)
	return staticFile{text: text, contentType: contentTypeOf(name), etag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// contentTypeOf does not use the machine's MIME table, which may be wrong.
func contentTypeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	default:
		return "image/svg+xml"
	}
}
