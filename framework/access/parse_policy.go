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

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// MaxPolicySize limits an access file, in bytes. Thousands of tokens fit.
const MaxPolicySize = 1 << 20

// ParsePolicy parses an access file. Its error lists all mistakes with their lines.
func ParsePolicy(data []byte) (*AccessPolicy, error) {
	if len(data) > MaxPolicySize {
		return nil, fmt.Errorf("the access file has %d bytes, more than %d", len(data), MaxPolicySize)
	}
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the access file is empty: no user would have a permission")
	case err != nil:
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	if err := d.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows the first YAML document")
	}
	var r policyReader
	p := &AccessPolicy{}
	r.readMapping(doc.Content[0], map[string]func(*yaml.Node){
		"tokens":      r.readList(func(n *yaml.Node) { p.Tokens = append(p.Tokens, r.readToken(n)) }),
		"oidc":        func(n *yaml.Node) { p.OIDC = r.readOIDC(n) },
		"permissions": r.readList(func(n *yaml.Node) { p.Rules = append(p.Rules, r.readRule(n)) }),
		"jobs":        r.readList(func(n *yaml.Node) { p.JobLimits = append(p.JobLimits, r.readJobLimits(n)...) }),
		"run_as":      func(n *yaml.Node) { p.RunAsOwner = r.readOneOf(n, "owner", "process_user") == "owner" },
		"metrics":     func(n *yaml.Node) { p.OpenMetrics = r.readOneOf(n, "open", "closed") == "open" },
		"output":      func(n *yaml.Node) { p.PrivateOutput = r.readOneOf(n, "private", "shared") == "private" },
	})
	r.checkReferences(p)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	p.JobLimits = withDefaultDeny(p.JobLimits)
	return p, nil
}

// withDefaultDeny appends an entry that denies host resources to all other roles, unless
// the file has an entry for all roles.
func withDefaultDeny(jobs []admission.RolePermissions) []admission.RolePermissions {
	if slices.ContainsFunc(jobs, func(j admission.RolePermissions) bool { return j.Role == admission.AllRoles }) {
		return jobs
	}
	return append(jobs, admission.RolePermissions{Role: admission.AllRoles, Permissions: admission.HostPermissions{AllowList: &admission.SpecAllowList{}}})
}

// subjectNames are the users and groups of a rule, with its line. They are checked after
// the whole file is parsed.
type subjectNames struct {
	// line is where the rule begins in the file.
	line         int
	users, group []string
}

// policyReader parses a file and collects its errors.
type policyReader struct {
	// errs are all mistakes found so far, each with its line.
	errs []error
	// subjects are the users and groups of all rules, for the check against the tokens at the end.
	subjects []subjectNames
}

func (r *policyReader) addError(n *yaml.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("line %d: "+format, append([]any{n.Line}, args...)...))
}

// readMapping parses each key by its function and rejects unknown and duplicate keys.
func (r *policyReader) readMapping(n *yaml.Node, keys map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.addError(n, "a mapping is wanted here, with %s", listKeys(keys))
		return
	}
	seen := map[string]bool{}
	for pairs := n.Content; len(pairs) > 1; pairs = pairs[2:] {
		key := pairs[0].Value
		read := keys[key]
		switch {
		case read == nil || pairs[0].Kind != yaml.ScalarNode:
			r.addError(pairs[0], "unknown key %q: there are %s", key, listKeys(keys))
		case seen[key]:
			r.addError(pairs[0], "%s appears twice", key)
		default:
			read(pairs[1])
		}
		seen[key] = true
	}
}

func listKeys(keys map[string]func(*yaml.Node)) string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (r *policyReader) readList(each func(*yaml.Node)) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			r.addError(n, "a list is wanted here")
			return
		}
		for _, item := range n.Content {
			each(item)
		}
	}
}

// readText returns a function that stores a string in into.
func (r *policyReader) readText(into *string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			r.addError(n, "a text is wanted here")
			return
		}
		*into = n.Value
	}
}

// readTexts returns a function that stores a list of strings and validates each by check.
func (r *policyReader) readTexts(into *[]string, check func(string) error) func(*yaml.Node) {
	*into = []string{}
	return r.readList(func(n *yaml.Node) {
		var one string
		r.readText(&one)(n)
		if one == "" {
			return
		}
		if err := check(one); err != nil {
			r.addError(n, "%v", err)
		}
		*into = append(*into, one)
	})
}

func (r *policyReader) readBool(into *bool) func(*yaml.Node) {
	return func(n *yaml.Node) { *into = r.readOneOf(n, "true", "false") == "true" }
}

func (r *policyReader) readOneOf(n *yaml.Node, words ...string) string {
	if n.Kind != yaml.ScalarNode || !slices.Contains(words, n.Value) {
		r.addError(n, "%q is not one of %s", n.Value, strings.Join(words, ", "))
	}
	return n.Value
}

func (r *policyReader) readToken(n *yaml.Node) (t TokenEntry) {
	check := func(into *string, ok func(string) error) func(*yaml.Node) {
		return func(n *yaml.Node) {
			r.readText(into)(n)
			if *into != "" && ok(*into) != nil {
				r.addError(n, "%v", ok(*into))
			}
		}
	}
	r.readMapping(n, map[string]func(*yaml.Node){
		"name": check(&t.Name, checkTokenName), "hash": check(&t.Hash, checkHash), "groups": r.readTexts(&t.Groups, checkGroup),
		"unix_user": check(&t.UnixUser, CheckUnixUser),
	})
	if t.Name == "" || t.Hash == "" {
		r.addError(n, "a token needs name and hash: mesos-gpu token NAME makes both")
	}
	return t
}

// checkGroup rejects a group name with OIDCPrefix, which is reserved for the issuer.
func checkGroup(name string) error {
	if name == AnyUser || strings.HasPrefix(name, OIDCPrefix) {
		return fmt.Errorf("group %q: %s means all users, and %s begins an issuer's groups: use another name", name, AnyUser, OIDCPrefix)
	}
	return nil
}

func (r *policyReader) readOIDC(n *yaml.Node) *OIDCConfig {
	o := &OIDCConfig{NameClaim: DefaultNameClaim, GroupsClaim: DefaultGroupsClaim}
	r.readMapping(n, map[string]func(*yaml.Node){
		"issuer":    r.readText(&o.Issuer),
		"audience":  r.readText(&o.Audience),
		"name":      r.readText(&o.NameClaim),
		"groups":    r.readText(&o.GroupsClaim),
		"unix_user": r.readText(&o.UnixUserClaim),
		"ca":        r.readText(&o.CAFile),
		"sign_in":   r.readBool(&o.SignIn),
		"secret":    r.readText(&o.ClientSecretFile),
		"scopes":    r.readTexts(&o.Scopes, acceptAny),
	})
	if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())) {
		r.addError(n, "issuer %q is not an https URL", o.Issuer)
	}
	if o.Audience == "" {
		r.addError(n, "oidc needs an audience: without one the tokens of all the issuer's clients would be accepted")
	}
	if !o.SignIn && (o.ClientSecretFile != "" || len(o.Scopes) > 0) {
		r.addError(n, "secret and scopes are for users who sign in on the web page: set sign_in: true")
	}
	if o.SignIn && len(o.Scopes) == 0 {
		o.Scopes = strings.Fields(DefaultScopes)
	}
	if o.SignIn && !slices.Contains(o.Scopes, "openid") {
		r.addError(n, "scopes need openid: without it the issuer gives no identity token")
	}
	return o
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (r *policyReader) readRule(n *yaml.Node) (rule PermissionRule) {
	r.readMapping(n, map[string]func(*yaml.Node){
		"may": func(n *yaml.Node) {
			var err error
			if rule.Permission, err = ParsePermission(n.Value); err != nil {
				r.addError(n, "may: %v", err)
			}
		},
		"roles": r.readTexts(&rule.Roles, checkRole), "users": r.readTexts(&rule.Users, acceptAny), "groups": r.readTexts(&rule.Groups, acceptAny),
	})
	if rule.Permission == None || len(rule.Roles) == 0 || len(rule.Users)+len(rule.Groups) == 0 {
		r.addError(n, "a permission needs may, roles, and users or groups")
	}
	r.subjects = append(r.subjects, subjectNames{n.Line, rule.Users, rule.Groups})
	return rule
}

func acceptAny(string) error { return nil }

func checkRole(role string) error {
	if role != admission.AllRoles && (strings.HasPrefix(role, admission.AllRoles) || strings.HasSuffix(role, admission.AllRoles)) {
		return fmt.Errorf("role %q begins or ends with a slash: write %s for all roles, research/vision for one below another", role, admission.AllRoles)
	}
	if strings.Contains(role, admission.AllRoles+"*") {
		return fmt.Errorf("role %q: a role includes all roles below it: remove the *", role)
	}
	return nil
}

func (r *policyReader) readJobLimits(n *yaml.Node) (entries []admission.RolePermissions) {
	var roles []string
	b := &admission.SpecAllowList{}
	a := admission.HostPermissions{AllowList: b}
	r.readMapping(n, map[string]func(*yaml.Node){
		"roles":         r.readTexts(&roles, checkRole),
		"volumes":       r.readTexts(&a.Volumes, checkVolume),
		"devices":       r.readTexts(&a.Devices, job.ValidateDevicePath),
		"host_ipc":      r.readBool(&a.HostIPC),
		"networks":      r.readTexts(&b.Networks, acceptAny),
		"fetch":         r.readTexts((*[]string)(&b.FetchHosts), job.ValidateFetchHost),
		"named_volumes": r.readTexts(&b.NamedVolumes, checkVolumeName),
		"role_volumes":  r.readBool(&b.RoleVolumes),
		"images":        r.readTexts(&b.Images, admission.ValidateImagePattern),
		"parameters":    r.readTexts(&b.Parameters, acceptAny),
		"users":         r.readTexts(&b.Users, acceptAny),
		"without_image": r.readBool(&b.NoImage),
	})
	if len(roles) == 0 {
		r.addError(n, "what jobs may have needs roles: %s for all", admission.AllRoles)
	}
	for _, role := range roles {
		entries = append(entries, admission.RolePermissions{Role: role, Permissions: a})
	}
	return entries
}

// checkVolumeName rejects paths and patterns, which would match no name.
func checkVolumeName(name string) error {
	if strings.Contains(name, "/") || name != "*" && strings.Contains(name, "*") {
		return fmt.Errorf("named volume %q: write the name of a volume of the Docker engines, or * for all; paths are allowed under volumes", name)
	}
	return nil
}

func checkVolume(name string) error {
	if !path.IsAbs(name) {
		return fmt.Errorf("volume %q is not an absolute path such as /data", name)
	}
	return nil
}

// checkReferences rejects duplicate token names, and rules that refer to unknown names.
func (r *policyReader) checkReferences(p *AccessPolicy) {
	users, groups, roles := map[string]bool{}, map[string]bool{AnyUser: true}, map[string]bool{}
	seen := map[string]bool{}
	for _, t := range p.Tokens {
		if seen[t.Name] {
			r.errs = append(r.errs, fmt.Errorf("tokens: %s appears twice", t.Name))
		}
		if t.UnixUser != "" && !p.RunAsOwner {
			r.errs = append(r.errs, fmt.Errorf("tokens: unix_user of %s needs run_as: owner", t.Name))
		}
		seen[t.Name], users[t.Identity().Name] = true, true
		for _, g := range t.Groups {
			groups[g] = true
		}
	}
	if p.OIDC != nil && p.OIDC.UnixUserClaim != "" && !p.RunAsOwner {
		r.errs = append(r.errs, errors.New("oidc: unix_user needs run_as: owner"))
	}
	for _, j := range p.JobLimits {
		if roles[j.Role] {
			r.errs = append(r.errs, fmt.Errorf("jobs: role %s appears twice", j.Role))
		}
		roles[j.Role] = true
	}
	for _, at := range r.subjects {
		r.checkNames(at.line, "user", "no token identifies that user", at.users, users, p.OIDC != nil)
		r.checkNames(at.line, "group", "no token is of it", at.group, groups, p.OIDC != nil)
	}
}

// checkNames rejects a name that no token has: it is misspelled, or lacks OIDCPrefix.
func (r *policyReader) checkNames(line int, kind, why string, names []string, there map[string]bool, oidc bool) {
	for _, name := range names {
		switch issued := strings.HasPrefix(name, OIDCPrefix); {
		case issued && !oidc:
			r.errs = append(r.errs, fmt.Errorf("line %d: %s %q: the file has no oidc section that could prove it", line, kind, name))
		case !issued && !there[name] && job.UnixUser(name) == "":
			r.errs = append(r.errs, fmt.Errorf("line %d: %s %q: %s; those of an issuer begin with %s, those of the machine with %s",
				line, kind, name, why, OIDCPrefix, job.UnixUserPrefix))
		}
	}
}
