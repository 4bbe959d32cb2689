package request

import (
	"net/http"
	"slices"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
)

// Change is the requester of a change and its condition.
type Change struct {
	// By has the permissions of the requester; nil, without an access file, permits everything.
	By *access.Grant
	// IfMatch has the ETags of the request's If-Match header, nil without one.
	IfMatch []string
}

// CheckIfMatch returns an *api.Problem with status 412 if the change has an If-Match header that does not contain the
// present tag.
func (c Change) CheckIfMatch(tag string) error {
	if c.IfMatch == nil || slices.Contains(c.IfMatch, "*") || slices.Contains(c.IfMatch, tag) {
		return nil
	}
	return api.NewProblemf(http.StatusPreconditionFailed, "it has changed: its ETag is %s, which If-Match does not contain: read it again", tag)
}
