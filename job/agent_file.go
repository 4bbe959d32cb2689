package job

import (
	"path"
	"strings"
)

// AgentFilePath returns the path that an agent may take a URI for, and whether the
// URI may name a file of the agent itself. It accepts every form that the fetcher
// of some Mesos release accepts, and decodes nothing, as none does: where own is
// false, every fetcher reads the file from elsewhere. A relative path names no
// file: the fetcher rejects it or, with --frameworks_home, looks for it there.
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
