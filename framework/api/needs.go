package api

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/sched"
)

// need is what a request needs: a permission, on the roles that its scope
// finds.
type need struct {
	permission access.Permission
	scope      scope
}

// scope says whether the requester has the permission where it counts. Its
// error is a *Problem.
type scope func(s *server, r *http.Request, p access.Permission) error

// needs are those of all requests, by method and pattern. One that does not
// stand here needs everything, so that none is open by being forgotten.
func needs() map[string]need {
	return map[string]need{
		"GET /healthz":            {access.None, ofNobody},
		"GET /v1/openapi.yaml":    {access.None, ofNobody},
		"GET /v1/job.schema.json": {access.None, ofNobody},
		"GET /readyz":             {access.None, ofNobody},
		"GET /metrics":            {access.View, toMeasure},
		"GET /metrics/prometheus": {access.View, toMeasure},

		// These leave out what the requester may not see.
		"GET /v1/jobs":      {access.View, somewhere},
		"GET /v1/events":    {access.View, somewhere},
		"GET /v1/gpus":      {access.View, somewhere},
		"GET /v1/usage":     {access.View, somewhere},
		"GET /v1/agents":    {access.View, somewhere},
		"GET /v1/queue":     {access.View, somewhere},
		"GET /v1/roles":     {access.View, somewhere},
		"GET /v1/schedules": {access.View, somewhere},

		"POST /v1/jobs":                         {access.Submit, somewhere}, // and in the job's role
		"GET /v1/jobs/{name}":                   {access.View, ofJob},
		"DELETE /v1/jobs/{name}":                {access.Operate, ofJob},
		"POST /v1/jobs/{name}/scale":            {access.Operate, ofJob},
		"GET /v1/jobs/{name}/tasks/{task}/exec": {access.Operate, ofJob}, // as to kill it
		"POST /v1/tasks/{id}/stop":              {access.Operate, ofTask},
		"GET /v1/tasks/{id}/log":                {access.View, ofTask},

		"GET /v1/roles/{role}":          {access.View, ofRole},
		"PUT /v1/roles/{role}/quota":    {access.Admin, ofRole},
		"GET /v1/demand":                {access.View, everywhere},
		"GET /v1/agents/{id}":           {access.View, somewhere},
		"POST /v1/agents/{id}/cordon":   {access.Operate, everywhere}, // agents are everybody's
		"POST /v1/agents/{id}/uncordon": {access.Operate, everywhere},
		"POST /v1/agents/{id}/drain":    {access.Operate, everywhere},
		"POST /v1/schedules":            {access.Submit, somewhere}, // and in the role of its jobs
		"GET /v1/schedules/{name}":      {access.View, ofSchedule},
		"DELETE /v1/schedules/{name}":   {access.Operate, ofSchedule},
	}
}

// Open are the paths that nobody needs a token for.
func Open() (paths []string) {
	for request, n := range needs() {
		if _, path, _ := strings.Cut(request, " "); n.permission == access.None {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// admit says what is in the way of a request.
func (s *server) admit(r *http.Request, pattern string) error {
	if GrantOf(r.Context()) == nil {
		return nil
	}
	n, ok := s.needs[r.Method+" "+pattern]
	if !ok {
		n = need{access.Admin, everywhere}
	}
	return n.scope(s, r, n.permission)
}

func ofNobody(*server, *http.Request, access.Permission) error { return nil }

func somewhere(_ *server, r *http.Request, p access.Permission) error {
	g := GrantOf(r.Context())
	return permit(g, g.MaySomewhere(p), p, "any role")
}

func everywhere(_ *server, r *http.Request, p access.Permission) error {
	g := GrantOf(r.Context())
	return permit(g, g.MayEverywhere(p), p, everyRole)
}

func toMeasure(_ *server, r *http.Request, p access.Permission) error {
	g := GrantOf(r.Context())
	return permit(g, g.MayMeasure(), p, "any role")
}

func ofJob(s *server, r *http.Request, p access.Permission) error {
	return s.onJob(r, r.PathValue("name"), p)
}

func ofTask(s *server, r *http.Request, p access.Permission) error {
	if err := somewhere(s, r, min(p, access.Submit)); err != nil {
		return err // who may do nothing learns not even what there is
	}
	id := r.PathValue("id")
	t, err := s.backend().Task(r.Context(), id)
	if err != nil {
		return err
	}
	return s.onTaskOf(r, t.Job, id, p, UnknownTask(id))
}

func ofRole(_ *server, r *http.Request, p access.Permission) error {
	role := r.PathValue("role")
	NoteOf(r.Context()).Role = role
	return MayIn(GrantOf(r.Context()), p, role)
}

// onJob permits an operation on a job, also to whom it belongs.
func (s *server) onJob(r *http.Request, name string, p access.Permission) error {
	if err := somewhere(s, r, min(p, access.Submit)); err != nil {
		return err
	}
	return s.onTaskOf(r, name, "", p, UnknownJob(name))
}

// onTaskOf permits one on a job or, if one is given, one of its tasks.
func (s *server) onTaskOf(r *http.Request, name, task string, p access.Permission, unknown *Problem) error {
	role, owner, err := s.backend().Whose(r.Context(), name, task)
	if err != nil {
		return err
	}
	return onOwned(r, name, role, owner, p, unknown)
}

// ofSchedule is as of a job: one may end one's own.
func ofSchedule(s *server, r *http.Request, p access.Permission) error {
	if err := somewhere(s, r, min(p, access.Submit)); err != nil {
		return err
	}
	view, err := s.backend().Schedule(r.Context(), r.PathValue("name"))
	if errors.Is(err, ErrDamaged) {
		return everywhere(s, r, p) // nobody knows whose it is
	}
	if err != nil {
		return err
	}
	return onOwned(r, view.Spec.Name, view.Spec.Role, view.Spec.Owner, p, UnknownSchedule(view.Spec.Name))
}

// onOwned answers who may not see it that it is unknown, word for word: a
// refusal would tell that it is there, and in which role.
func onOwned(r *http.Request, name, role, owner string, p access.Permission, unknown *Problem) error {
	g, note := GrantOf(r.Context()), NoteOf(r.Context())
	note.Job, note.Role = name, role
	if !g.May(access.View, role) {
		return unknown
	}
	if p == access.Operate {
		return permit(g, g.MayChange(role, owner), p, "role "+role)
	}
	return MayIn(g, p, role)
}

// MayIn says what is in the way of who asks, in a role.
func MayIn(g *access.Grant, p access.Permission, role string) error {
	on := "role " + role
	if role == sched.AllRoles {
		on = everyRole
	}
	return permit(g, g.May(p, role), p, on)
}

// everyRole names the root of their tree for people.
const everyRole = "all roles"

// MayEnter says what is in the way of who asks for something that sees to its
// own permissions: nothing, where they have one.
func MayEnter(g *access.Grant) error {
	return permit(g, g.MaySomewhere(access.View), access.View, "any role")
}

// permit makes a Problem of what may not be.
func permit(g *access.Grant, may bool, p access.Permission, on string) error {
	switch {
	case may:
		return nil
	case !g.Known():
		return Problemf(http.StatusUnauthorized, "this needs a token: give one by --token-file, MESOS_GPU_TOKEN_FILE or MESOS_GPU_TOKEN")
	}
	return Problemf(http.StatusForbidden, "%s may not do this: it needs the permission %s on %s", g.Who(), p, on)
}

// visible leaves out what is of roles that the requester may not see.
func visible[T any](g *access.Grant, list []T, role func(*T) string) []T {
	if g.MayEverywhere(access.View) {
		return list
	}
	seen := make([]T, 0, len(list))
	for i := range list {
		if g.May(access.View, role(&list[i])) {
			seen = append(seen, list[i])
		}
	}
	return seen
}
