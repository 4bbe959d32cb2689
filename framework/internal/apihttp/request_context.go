// Package apihttp has what the HTTP server and the middlewares in front of it share: values in the context of a request, and
// how a Problem is written. No other package reads a request's context: the server passes the values on as arguments.
package apihttp

import (
	"context"

	"mesos-gpu/framework/access"
)

// contextKey is the key of a value that this package stores in a request's context.
type contextKey int

const (
	grantKey contextKey = iota
	auditNoteKey
	peerKey
)

// WithGrant attaches the permissions of the requester to the context.
func WithGrant(ctx context.Context, g *access.Grant) context.Context {
	return context.WithValue(ctx, grantKey, g)
}

// GrantOf returns the permissions of the requester. Without an access file it returns
// nil, which permits everything.
func GrantOf(ctx context.Context) *access.Grant {
	g, _ := ctx.Value(grantKey).(*access.Grant)
	return g
}

// AuditNote collects details of a request for the audit log while the request is
// handled. Task and Argv are the task and the start of an exec command. ReadOnly omits a
// request that changes nothing although its method is POST.
type AuditNote struct {
	Job, Role, Task, Argv string
	ReadOnly              bool
}

// WithAuditNote attaches a note for the handlers to fill in.
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

// WithPeer attaches the user of the machine who made a request through a unix socket.
func WithPeer(ctx context.Context, who access.Identity) context.Context {
	return context.WithValue(ctx, peerKey, who)
}

// PeerOf returns the user of the machine who made a request through a unix socket. It is
// the zero Identity for other requests.
func PeerOf(ctx context.Context) access.Identity {
	who, _ := ctx.Value(peerKey).(access.Identity)
	return who
}
