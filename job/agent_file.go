package job

import (
	"path"
	"strings"
)

// AgentFilePath is the path that an agent makes of a URI of its own files, and
// whether it may be one. It takes for one what any agent's fetcher may, and
// decodes nothing, as none does: what it lets pass is from elsewhere whoever
// reads it. A path that is not absolute names no file: Mesos's fetcher refuses
// it or, with a folder of frameworks, looks for it there.
func AgentFilePath(uri string) (name string, own bool) {
	const scheme, host = "file:", "localhost"
	switch {
	case path.IsAbs(uri): // "://" in it does not make it a URI
		return uri, true
	case len(uri) < len(scheme) || !strings.EqualFold(uri[:len(scheme)], scheme):
		return uri, !strings.Contains(uri, "://")
	}
	name = strings.TrimPrefix(uri[len(scheme):], "//")
	if len(name) >= len(host) && strings.EqualFold(name[:len(host)], host) {
		name = name[len(host):]
	}
	return name, true
}
