package framework

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// maxRoles limits the size of the roles file, in bytes.
const maxRoles = 1 << 20

// LoadRoles reads the roles from a YAML file. The first one is the default role:
//
//	research: V100=8, A100=4, *=16
//	prod: {weight: 2, quota: "A100=32"}
//	guests: {order: shortest, patience: 6h, policy: spread}
//	batch: {backfill: false, one_queue: true, keep_runs: 3, keep_ended: 72h}
//	vision: {deserved: "A100=16, cpus=128, mem=1TiB", limit: "A100=32"}
//	school: {waiting_jobs: 500, user: {gpus: "*=4", running_jobs: 2}, users: {alice: {gpus: "*=8", running_jobs: none}}}
//	lab: {budget: {month: 1000h, user: 100h, types: {A100: 200h}, at_limit: hold, warn_at: 80%}}
//	night: {notify: [{to: "mailto:ops@example.org", on: [failure]}]}
//
// A scalar value is a quota, which is the limit of what the role holds. The framework subscribes to all of the roles.
func LoadRoles(path string) ([]queue.Role, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRoles+1))
	if err != nil {
		return nil, fmt.Errorf("read roles: %w", err)
	}
	if len(data) > maxRoles {
		return nil, fmt.Errorf("read roles %s: more than %d bytes", path, maxRoles)
	}
	roles, err := parseRoles(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return roles, nil
}

func parseRoles(data []byte) ([]queue.Role, error) {
	var doc yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("parse roles: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode || len(doc.Content[0].Content) == 0 {
		return nil, errors.New("roles: write ROLE: QUOTA lines, for example research: V100=8, *=16")
	}
	var roles []queue.Role
	for pairs := doc.Content[0].Content; len(pairs) > 0; pairs = pairs[2:] {
		r, err := parseRoleNode(pairs[0].Value, pairs[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: role %s: %w", pairs[0].Line, pairs[0].Value, err)
		}
		roles = append(roles, r)
	}
	if err := queue.ValidateRoles(roles); err != nil {
		return nil, err
	}
	return roles, nil
}

// parseRoleNode parses a role's value: a quota, or a mapping of settings.
func parseRoleNode(name string, n *yaml.Node) (role queue.Role, err error) {
	var body struct {
		Weight   float64          `yaml:"weight"`
		Quota    *string          `yaml:"quota"`
		Limit    *string          `yaml:"limit"`
		Deserved string           `yaml:"deserved"`
		Order    queue.Order      `yaml:"order"`
		Patience jobfile.Duration `yaml:"patience"`
		Backfill bool             `yaml:"backfill"`
		OneQueue bool             `yaml:"one_queue"`
		Policy   string           `yaml:"policy"`

		WaitingJobs int                  `yaml:"waiting_jobs"`
		User        yaml.Node            `yaml:"user"`
		Users       map[string]yaml.Node `yaml:"users"`
		HalfLife    jobfile.Duration     `yaml:"half_life"`
		DefaultFor  yaml.Node            `yaml:"default_for"`
		Budget      yaml.Node            `yaml:"budget"`

		KeepRuns  int              `yaml:"keep_runs"`
		KeepEnded jobfile.Duration `yaml:"keep_ended"`

		Notify []struct {
			To string                  `yaml:"to"`
			On []job.NotificationEvent `yaml:"on"`
		} `yaml:"notify"`
	}
	body.Backfill = true
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		body.Quota = &n.Value
	} else if err := decodeStrictly(n, &body); err != nil {
		return role, err
	}
	role = queue.Role{
		Name:      name,
		Weight:    body.Weight,
		Order:     body.Order,
		Patience:  time.Duration(body.Patience),
		Strict:    !body.Backfill,
		OneQueue:  body.OneQueue,
		FitPolicy: body.Policy,
		KeepRuns:  body.KeepRuns,
		KeepEnded: time.Duration(body.KeepEnded),
	}
	for _, rule := range body.Notify {
		role.Notify = append(role.Notify, job.NotificationRule{To: rule.To, On: rule.On})
	}
	if body.Limit != nil && body.Quota != nil {
		return role, errors.New("quota and limit are two names of one setting: write one of them")
	}
	if role.Quota, err = quota.Parse(valueOrEmpty(cmp.Or(body.Limit, body.Quota))); err != nil {
		return role, err
	}
	if role.Deserved, role.DeservedHost, err = parseDeserved(body.Deserved); err != nil {
		return role, err
	}
	role.WaitingJobs, role.HalfLife = body.WaitingJobs, time.Duration(body.HalfLife)
	if role.EachUser, err = parseUserLimits(&body.User, quota.UserLimits{}); err != nil {
		return role, fmt.Errorf("user: %w", err)
	}
	if !body.DefaultFor.IsZero() {
		if _, err := jobfile.CheckKeys(&body.DefaultFor, []string{"users", "groups"}); err != nil {
			return role, fmt.Errorf("default_for: %w", err)
		}
		if body.DefaultFor.Decode(&role.DefaultFor) != nil {
			return role, errors.New("default_for: want {users: [alice], groups: [vision]}")
		}
	}
	if role.Budget, err = parseBudget(&body.Budget); err != nil {
		return role, fmt.Errorf("budget: %w", err)
	}
	for _, user := range slices.Sorted(maps.Keys(body.Users)) {
		limits := body.Users[user]
		if role.NamedUsers == nil {
			role.NamedUsers = map[string]quota.UserLimits{}
		}
		if role.NamedUsers[user], err = parseUserLimits(&limits, role.EachUser); err != nil {
			return role, fmt.Errorf("users: %s: %w", user, err)
		}
	}
	return role, nil
}

// userLimitKeys returns the keys of the limits of users.
func userLimitKeys() []string {
	return []string{"gpus", "running_jobs", "waiting_jobs", "submissions_per_minute"}
}

// parseUserLimits parses the limits of users. Keys that are absent keep the values of base; none removes a limit.
func parseUserLimits(n *yaml.Node, base quota.UserLimits) (quota.UserLimits, error) {
	if n.IsZero() {
		return base, nil
	}
	if n.Kind != yaml.MappingNode {
		return base, fmt.Errorf("want keys of %s", strings.Join(userLimitKeys(), ", "))
	}
	if _, err := jobfile.CheckKeys(n, userLimitKeys()); err != nil {
		return base, err
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1].Value
		if err := setUserLimit(&base, key, value); err != nil {
			return base, fmt.Errorf("%s: %w", key, err)
		}
	}
	return base, nil
}

// setUserLimit sets one limit from the text of its key.
func setUserLimit(l *quota.UserLimits, key, value string) (err error) {
	none := value == "none"
	if key == "gpus" {
		if l.GPUs = nil; none {
			return nil
		}
		l.GPUs, err = quota.Parse(value)
		return err
	}
	count := map[string]*int{"running_jobs": &l.RunningJobs, "waiting_jobs": &l.WaitingJobs, "submissions_per_minute": &l.SubmissionsPerMinute}[key]
	if *count = 0; none {
		return nil
	}
	if *count, err = strconv.Atoi(value); err != nil || *count < 1 {
		return fmt.Errorf("%q is not a number of at least 1, or none", value)
	}
	return nil
}

// parseDeserved parses what a role deserves: GPUs by type, CPUs and memory. A part without entries is nil.
func parseDeserved(text string) (gpus quota.Quota, hosts quota.HostQuota, err error) {
	var types []string
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !slices.Contains(quota.HostResources(), name) {
			types = append(types, part)
			continue
		}
		if _, twice := hosts[name]; twice {
			return nil, nil, fmt.Errorf("deserved: %q: %s appears twice", text, name)
		}
		if hosts == nil {
			hosts = quota.HostQuota{}
		}
		if hosts[name], err = parseHostAmount(name, value); err != nil {
			return nil, nil, fmt.Errorf("deserved: %s: %w", name, err)
		}
	}
	if gpus, err = quota.Parse(strings.Join(types, ",")); err != nil {
		return nil, nil, fmt.Errorf("deserved: %w", err)
	}
	if len(gpus) == 0 {
		gpus = nil
	}
	return gpus, hosts, nil
}

// parseHostAmount parses a number of CPUs, or a size in MiB. 0 means none.
func parseHostAmount(name, value string) (float64, error) {
	if value == "0" {
		return 0, nil
	}
	if name == quota.Memory {
		return jobfile.ParseSize(value)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n > 0 && n <= 1e9) {
		return 0, fmt.Errorf("%q is not a number of CPUs such as 32", value)
	}
	return n, nil
}

func valueOrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// decodeStrictly decodes a role's mapping into body and rejects unknown keys.
func decodeStrictly(n *yaml.Node, body any) error {
	if n.Kind == yaml.SequenceNode {
		return errors.New("it is a list: write a quota such as V100=8, or a mapping such as {quota: V100=8, weight: 2}")
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if _, err := jobfile.CheckKeys(n, roleKeys()); err != nil {
		return err
	}
	if err := yaml.Unmarshal(text, body); err != nil {
		return describeRoleError(n, body, err)
	}
	return nil
}

// describeRoleError returns an error that names the first key whose value has the wrong form, or err if all values can be
// decoded.
func describeRoleError(n *yaml.Node, body any, err error) error {
	forms := map[string]string{
		"weight": "a number", "quota": "TYPE=GPUS", "limit": "TYPE=GPUS", "deserved": "TYPE=GPUS, cpus=NUMBER, mem=SIZE", "order": "the name of an order",
		"backfill": "true or false", "one_queue": "true or false", "policy": "the name of a policy", "keep_runs": "a whole number", "waiting_jobs": "a whole number",
		"users": "a mapping of users to their limits, such as {ann: {running_jobs: 2}}", "notify": "a list such as [{to: TARGET, on: [failure]}]",
	}
	for pairs := n.Content; len(pairs) > 1; pairs = pairs[2:] {
		setting := yaml.Node{Kind: yaml.MappingNode, Content: pairs[:2]}
		if setting.Decode(body) == nil {
			continue
		}
		if form, known := forms[pairs[0].Value]; known {
			return fmt.Errorf("%s: want %s", pairs[0].Value, form)
		}
		if _, err := jobfile.ParseDuration(pairs[1].Value); err != nil { // the other keys whose values may have a wrong form
			return fmt.Errorf("%s: %w", pairs[0].Value, err)
		}
	}
	return err
}

// roleKeys returns the keys of a role's mapping.
func roleKeys() []string {
	return []string{
		"weight", "quota", "limit", "deserved", "order", "patience", "backfill", "one_queue", "policy", "keep_runs", "keep_ended",
		"waiting_jobs", "user", "users", "half_life", "budget", "notify", "default_for",
	}
}
