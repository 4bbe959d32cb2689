package access

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/sched"
)

// MaxFile bounds an access file in bytes: thousands of tokens fit.
const MaxFile = 1 << 20

// Parse reads an access file. Its error names every mistake with its line.
func Parse(data []byte) (*Policy, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the access file has %d bytes, more than %d", len(data), MaxFile)
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the access file is empty: nobody could do anything")
	case err != nil:
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the first YAML document")
	}
	var r reader
	p := &Policy{}
	r.mapping(doc.Content[0], map[string]func(*yaml.Node){
		"tokens":      r.list(func(n *yaml.Node) { p.Tokens = append(p.Tokens, r.token(n)) }),
		"oidc":        func(n *yaml.Node) { p.OIDC = r.oidc(n) },
		"permissions": r.list(func(n *yaml.Node) { p.Rules = append(p.Rules, r.rule(n)) }),
		"jobs":        r.list(func(n *yaml.Node) { p.Jobs = append(p.Jobs, r.jobs(n)...) }),
		"metrics":     func(n *yaml.Node) { p.OpenMetrics = r.oneOf(n, "open", "closed") == "open" },
	})
	r.whole(p)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	p.Jobs = withRoot(p.Jobs)
	return p, nil
}

// withRoot has what no entry is about be refused: the file speaks for all.
func withRoot(jobs []sched.AllowedIn) []sched.AllowedIn {
	if slices.ContainsFunc(jobs, func(j sched.AllowedIn) bool { return j.Role == sched.AllRoles }) {
		return jobs
	}
	return append(jobs, sched.AllowedIn{Role: sched.AllRoles, Allowed: sched.Allowed{Bounds: &sched.Bounds{}}})
}

// named is where a rule or entry stood, for what can be checked only at the
// end.
type named struct {
	line         int
	users, group []string
}

// reader collects what is wrong with a file.
type reader struct {
	errs  []error
	named []named
}

func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...))
}

// mapping reads each key by its function, and refuses those without.
func (r *reader) mapping(n *yaml.Node, keys map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "a mapping is wanted here, with %s", list(keys))
		return
	}
	seen := map[string]bool{}
	for pairs := n.Content; len(pairs) > 1; pairs = pairs[2:] {
		key := pairs[0].Value
		read := keys[key]
		switch {
		case read == nil || pairs[0].Kind != yaml.ScalarNode:
			r.bad(pairs[0], "unknown key %q: there are %s", key, list(keys))
		case seen[key]:
			r.bad(pairs[0], "%s stands twice", key)
		default:
			read(pairs[1])
		}
		seen[key] = true
	}
}

func list(keys map[string]func(*yaml.Node)) string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (r *reader) list(each func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.bad(n, "a list is wanted here")
			return
		}
		for _, item := range n.Content {
			each(item)
		}
	}
}

// text reads one word into a variable.
func (r *reader) text(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			r.bad(n, "a text is wanted here")
			return
		}
		*into = n.Value
	}
}

// texts reads a list of them, and each by check.
func (r *reader) texts(into *[]string, check func(string) error) func(*yaml.Node) {
	*into = []string{}
	return r.list(func(n *yaml.Node) {
		var one string
		r.text(&one)(n)
		if one == "" {
			return
		}
		if err := check(one); err != nil {
			r.bad(n, "%v", err)
		}
		*into = append(*into, one)
	})
}

func (r *reader) flag(into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) { *into = r.oneOf(n, "true", "false") == "true" }
}

func (r *reader) oneOf(n *yaml.Node, words ...string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
		r.bad(n, "%q is none of %s", n.Value, strings.Join(words, ", "))
	}
	return n.Value
}

func (r *reader) token(n *yaml.Node) (t Token) {
	check := func(into *string, ok func(string) error) func(*yaml.Node) {
		return func(n *yaml.Node) {
			r.text(into)(n)
			if *into != "" && ok(*into) != nil {
				r.bad(n, "%v", ok(*into))
			}
		}
	}
	r.mapping(n, map[string]func(*yaml.Node){
		"name": check(&t.Name, checkTokenName), "hash": check(&t.Hash, checkHash), "groups": r.texts(&t.Groups, checkGroup),
	})
	if t.Name == "" || t.Hash == "" {
		r.bad(n, "a token needs name and hash: mesos-gpu token NAME makes both")
	}
	return t
}

// checkGroup keeps the file's own groups apart from an issuer's.
func checkGroup(name string) error {
	if name == Everybody || strings.HasPrefix(name, FromOIDC) {
		return fmt.Errorf("group %q: %s is everybody, and %s begins an issuer's groups: use another name", name, Everybody, FromOIDC)
	}
	return nil
}

func (r *reader) oidc(n *yaml.Node) *OIDC {
	o := &OIDC{Name: DefaultNameClaim, Groups: DefaultGroupsClaim}
	r.mapping(n, map[string]func(*yaml.Node){
		"issuer": r.text(&o.Issuer), "audience": r.text(&o.Audience), "name": r.text(&o.Name), "groups": r.text(&o.Groups), "ca": r.text(&o.CAFile),
	})
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		r.bad(n, "issuer %q is no https URL", o.Issuer)
	}
	if o.Audience == "" {
		r.bad(n, "oidc needs an audience: without one the tokens of all the issuer's clients would do")
	}
	return o
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (r *reader) rule(n *yaml.Node) (rule Rule) {
	r.mapping(n, map[string]func(*yaml.Node){
		"may": func(n *yaml.Node) {
			var err error
			if rule.May, err = ParsePermission(n.Value); err != nil {
				r.bad(n, "may: %v", err)
			}
		},
		"roles": r.texts(&rule.Roles, checkRole), "users": r.texts(&rule.Users, anything), "groups": r.texts(&rule.Groups, anything),
	})
	if rule.May == None || len(rule.Roles) == 0 || len(rule.Users)+len(rule.Groups) == 0 {
		r.bad(n, "a permission needs may, roles, and users or groups")
	}
	r.named = append(r.named, named{n.Line, rule.Users, rule.Groups})
	return rule
}

func anything(string) error { return nil }

func checkRole(role string) error {
	if role != sched.AllRoles && (strings.HasPrefix(role, sched.AllRoles) || strings.HasSuffix(role, sched.AllRoles)) {
		return fmt.Errorf("role %q begins or ends with a slash: write %s for all roles, research/vision for one below another", role, sched.AllRoles)
	}
	if strings.Contains(role, sched.AllRoles+"*") {
		return fmt.Errorf("role %q: a role covers all below it anyhow: leave the * out", role)
	}
	return nil
}

func (r *reader) jobs(n *yaml.Node) (entries []sched.AllowedIn) {
	var roles []string
	b := &sched.Bounds{}
	a := sched.Allowed{Bounds: b}
	r.mapping(n, map[string]func(*yaml.Node){
		"roles": r.texts(&roles, checkRole), "volumes": r.texts(&a.Volumes, checkVolume), "host_ipc": r.flag(&a.HostIPC),
		"networks": r.texts(&b.Networks, anything), "images": r.texts(&b.Images, sched.CheckImagePattern),
		"parameters": r.texts(&b.Parameters, anything), "users": r.texts(&b.Users, anything), "without_image": r.flag(&b.WithoutImage),
	})
	if len(roles) == 0 {
		r.bad(n, "what jobs may have needs roles: %s for all", sched.AllRoles)
	}
	for _, role := range roles {
		entries = append(entries, sched.AllowedIn{Role: role, Allowed: a})
	}
	return entries
}

func checkVolume(name string) error {
	if !path.IsAbs(name) {
		return fmt.Errorf("volume %q is no absolute path such as /data", name)
	}
	return nil
}

// whole checks what only the whole file tells: names that stand twice, and
// names that are nobody's.
func (r *reader) whole(p *Policy) {
	users, groups, roles := map[string]bool{}, map[string]bool{Everybody: true}, map[string]bool{}
	for _, t := range p.Tokens {
		if users[t.Name] {
			r.errs = append(r.errs, fmt.Errorf("tokens: %s stands twice", t.Name))
		}
		users[t.Name] = true
		for _, g := range t.Groups {
			groups[g] = true
		}
	}
	for _, j := range p.Jobs {
		if roles[j.Role] {
			r.errs = append(r.errs, fmt.Errorf("jobs: role %s stands twice", j.Role))
		}
		roles[j.Role] = true
	}
	for _, at := range r.named {
		r.known(at.line, "user", "no token has that name", at.users, users, p.OIDC != nil)
		r.known(at.line, "group", "no token is of it", at.group, groups, p.OIDC != nil)
	}
}

// known refuses a name that nobody has: it is misspelt, or lacks the prefix.
func (r *reader) known(line int, kind, why string, names []string, there map[string]bool, oidc bool) {
	for _, name := range names {
		switch issued := strings.HasPrefix(name, FromOIDC); {
		case issued && !oidc:
			r.errs = append(r.errs, fmt.Errorf("line %d: %s %q: there is no oidc here to tell it", line, kind, name))
		case !issued && !there[name]:
			r.errs = append(r.errs, fmt.Errorf("line %d: %s %q: %s; those of an issuer begin with %s", line, kind, name, why, FromOIDC))
		}
	}
}
