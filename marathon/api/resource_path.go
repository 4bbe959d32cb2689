package api

import (
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// resourcePath is a parsed path below /v2/apps, /v2/groups or /v2/queue.
type resourcePath struct {
	// id is absolute, "/" for none.
	id string
	// group is true if the path ended with *: all apps of the group id.
	group bool
	// part is a collection of the resource, such as tasks. arg selects one item.
	part, arg string
}

// splitSegments returns the segments of a path. Superfluous slashes are ignored, as in
// Marathon: /v2/apps//group/app.
func splitSegments(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" })
}

// parseAppPath parses what follows /v2/apps/. The last words decide, as in Marathon:
// a/tasks/b is the task b of the app /a.
func parseAppPath(rest string) resourcePath {
	segments := splitSegments(rest)
	n := len(segments)
	var p resourcePath
	switch {
	case n >= 2 && slices.Contains([]string{"restart", "tasks", "versions"}, segments[n-1]):
		p.part, segments = segments[n-1], segments[:n-1]
	case n >= 3 && slices.Contains([]string{"tasks", "versions"}, segments[n-2]):
		p.part, p.arg, segments = segments[n-2], segments[n-1], segments[:n-2]
	}
	if n = len(segments); n > 0 && segments[n-1] == "*" {
		p.group, segments = true, segments[:n-1]
	}
	p.id = absoluteID(segments)
	return p
}

// parseGroupPath parses what follows /v2/groups/. Unlike apps, the root has parts too.
func parseGroupPath(rest string) resourcePath {
	segments := splitSegments(rest)
	n := len(segments)
	var p resourcePath
	switch {
	case n >= 1 && slices.Contains([]string{"apps", "versions"}, segments[n-1]):
		p.part, segments = segments[n-1], segments[:n-1]
	case n >= 2 && segments[n-2] == "versions":
		p.part, p.arg, segments = segments[n-2], segments[n-1], segments[:n-2]
	}
	p.id = absoluteID(segments)
	return p
}

// parseQueuePath parses what follows /v2/queue/.
func parseQueuePath(rest string) resourcePath {
	segments := splitSegments(rest)
	var p resourcePath
	if n := len(segments); n >= 2 && segments[n-1] == "delay" {
		p.part, segments = segments[n-1], segments[:n-1]
	}
	p.id = absoluteID(segments)
	return p
}

func absoluteID(segments []string) string {
	return marathon.AbsoluteID(strings.Join(segments, "/"), "/")
}
