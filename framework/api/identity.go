package api

import "mesos-gpu/job"

// RequesterIdentity is the response to GET /v1/whoami: what the requester may do.
type RequesterIdentity struct {
	// User is the requester's name, "" without a token or without an access file.
	User string `json:"user"`
	// Authenticated means that the request has a valid token or that none is required.
	Authenticated bool `json:"authenticated"`
	// AccessControl means that the scheduler has an access file.
	AccessControl bool `json:"access_control"`
	// Permissions lists the requester's permissions. Each includes the lower ones, and each
	// role the roles below it.
	Permissions []RolePermission `json:"permissions"`
	// Exec means that commands in containers are enabled.
	Exec bool `json:"exec"`
	// SignIn is how users can sign in at an OIDC issuer; nil if they cannot.
	SignIn *OIDCSignIn `json:"oidc,omitempty"`
}

// RolePermission is a permission (view, submit, operate, admin) on roles; "/" means all roles.
type RolePermission struct {
	Permission string   `json:"permission"`
	Roles      []string `json:"roles"`
}

// OIDCSignIn contains the parameters with which a browser requests an authorization code with PKCE (RFC 7636).
type OIDCSignIn struct {
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	// AuthorizationEndpoint is the issuer's URL to which the browser navigates; "" if the
	// issuer cannot be reached. Scopes are separated by blanks.
	AuthorizationEndpoint string `json:"authorization_endpoint"`
	Scopes                string `json:"scopes"`
}

// CodeExchange is an authorization code of the OIDC issuer, which POST /v1/sign-in exchanges
// for a token.
type CodeExchange struct {
	Code         string `json:"code"`
	CodeVerifier string `json:"code_verifier"`
	RedirectURI  string `json:"redirect_uri"`
}

// IssuedToken is the response to POST /v1/sign-in: an identity token of the issuer.
type IssuedToken struct {
	Token string `json:"token"`
}

// ValidatedJob is the response to POST /v1/validate: the job as it would be stored.
type ValidatedJob struct {
	Spec job.Spec `json:"spec"`
	// File is the Spec as a job file, as GET /v1/jobs/{reference}/file would return it.
	File string `json:"file"`
	// Warnings are reasons why the job cannot start on the present agents, whatever else runs.
	Warnings []string `json:"warnings"`
	// Start is an estimate of when the job would start if it were submitted now, if the request asked for it.
	Start *StartEstimate `json:"start,omitempty"`
}
