package apiserver

import (
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

// SignInProvider signs users in at an OIDC issuer.
type SignInProvider interface {
	// DescribeSignIn returns what a browser needs, nil if no issuer is configured for it.
	DescribeSignIn(ctx context.Context) *api.OIDCSignIn
	// ExchangeCode returns a valid identity token of the issuer, or a Problem.
	ExchangeCode(ctx context.Context, code api.CodeExchange) (string, error)
}

// WithSignIn permits users to sign in through a browser.
func WithSignIn(p SignInProvider) HandlerOption { return func(s *apiServer) { s.signIn = p } }

// handleWhoAmI answers requests without a token too, so that a client learns how to sign in.
func (s *apiServer) handleWhoAmI(w http.ResponseWriter, r *http.Request) error {
	g := apihttp.GrantOf(r.Context())
	who := api.RequesterIdentity{User: g.UserName(), Authenticated: g.IsKnown(), AccessControl: g != nil, Exec: s.execEnabled, Permissions: []api.RolePermission{}}
	g.EachPermission(func(p access.Permission, roles []string) {
		who.Permissions = append(who.Permissions, api.RolePermission{Permission: p.String(), Roles: roles})
	})
	if s.signIn != nil {
		who.SignIn = s.signIn.DescribeSignIn(r.Context())
	}
	w.Header().Set("Cache-Control", "no-store")
	apihttp.WriteJSON(w, http.StatusOK, who)
	return nil
}

// handleSignIn exchanges an authorization code for a token. It sets no cookie: the client
// keeps the token and sends it with each request.
func (s *apiServer) handleSignIn(w http.ResponseWriter, r *http.Request) error {
	if s.signIn == nil {
		return api.NewProblemf(http.StatusNotFound, "the access file has no OIDC issuer with sign_in: true")
	}
	var code api.CodeExchange
	if err := readJSON(w, r, &code); err != nil {
		return err
	}
	token, err := s.signIn.ExchangeCode(r.Context(), code)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	apihttp.WriteJSON(w, http.StatusOK, api.IssuedToken{Token: token})
	return nil
}

// handleValidateJob checks a job or a schedule as its submission would, and changes nothing.
func (s *apiServer) handleValidateJob(w http.ResponseWriter, r *http.Request) error {
	apihttp.AuditNoteOf(r.Context()).ReadOnly = true
	spec, _, err := readSpec(w, r)
	if err != nil {
		return err
	}
	spec.Owner = apihttp.GrantOf(r.Context()).UserName()
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	when, err := parseBoolParameter(r.URL.Query(), "when")
	if err != nil {
		return err
	}
	checked, err := leader.Jobs.ValidateJob(r.Context(), apihttp.GrantOf(r.Context()), spec)
	if err == nil && when && checked.Spec.Schedule == nil {
		checked.Start, err = leader.Forecast.EstimateStart(r.Context(), &checked.Spec)
	}
	if err != nil {
		return err
	}
	return writeValidated(w, &checked)
}

// writeValidated completes the answer to a validation and writes it.
func writeValidated(w http.ResponseWriter, checked *api.ValidatedJob) (err error) {
	if checked.File, err = writeJobFile(checked.Spec.Submittable(checked.Spec.Tasks)); err != nil {
		return err
	}
	checked.Warnings = emptyIfNil(checked.Warnings)
	apihttp.WriteJSON(w, http.StatusOK, checked)
	return nil
}
