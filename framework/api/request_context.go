package api

import (
	"context"

	"mesos-gpu/framework/access"
)

// contextKey is the key of a value that this package stores in a request's context.
type contextKey int

const (
	grantKey contextKey = iota
	auditNoteKey
	ifMatchKey
	continuationKey
)

// WithGrant has a request be bound by what its requester may do.
func WithGrant(ctx context.Context, g *access.Grant) context.Context {
	return context.WithValue(ctx, grantKey, g)
}

// GrantOf is what the requester may do: everything, where no access file
// is configured.
func GrantOf(ctx context.Context) *access.Grant {
	g, _ := ctx.Value(grantKey).(*access.Grant)
	return g
}

// AuditNote is what is found out about a request while it is answered, for who
// keeps account of it. Task and Argv are where a command runs, and how it
// begins.
type AuditNote struct{ Job, Role, Task, Argv string }

// WithAuditNote has what is found out noted.
func WithAuditNote(ctx context.Context, n *AuditNote) context.Context {
	return context.WithValue(ctx, auditNoteKey, n)
}

// AuditNoteOf returns the note of the request, or an unused one where no audit log
// is configured.
func AuditNoteOf(ctx context.Context) *AuditNote {
	if n, ok := ctx.Value(auditNoteKey).(*AuditNote); ok {
		return n
	}
	return &AuditNote{}
}
