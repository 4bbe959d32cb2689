package framework

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/sched/budget"
	"mesos-gpu/job/jobfile"
)

// budgetKeys returns the keys of a budget in the roles file.
func budgetKeys() []string {
	return []string{"month", "types", "user", "users", "prices", "at_limit", "warn_at"}
}

// parseBudget parses a role's budget, which is nil for a role without the setting. Amounts are GPU hours, such as 1000h or,
// with prices, plain numbers.
func parseBudget(n *yaml.Node) (*budget.Budget, error) {
	if n.IsZero() {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, errors.New(`want a mapping such as {month: 1000h, user: 100h, at_limit: hold}`)
	}
	if _, err := jobfile.CheckKeys(n, budgetKeys()); err != nil {
		return nil, err
	}
	var body struct {
		Month   string             `yaml:"month"`
		Types   map[string]string  `yaml:"types"`
		User    string             `yaml:"user"`
		Users   map[string]string  `yaml:"users"`
		Prices  map[string]float64 `yaml:"prices"`
		AtLimit budget.AtLimit     `yaml:"at_limit"`
		WarnAt  string             `yaml:"warn_at"`
	}
	if err := n.Decode(&body); err != nil {
		return nil, errors.New("want types and users as mappings such as {A100: 200h}, prices such as {A100: 2.5, '*': 1}, and texts for the other keys")
	}
	b := &budget.Budget{Prices: body.Prices, AtLimit: body.AtLimit}
	var errs []error
	amount := func(key, text string) float64 {
		value, err := parseBudgetAmount(text, len(b.Prices) > 0)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return value
	}
	amounts := func(key string, texts map[string]string) map[string]float64 {
		all := map[string]float64{}
		for name, text := range texts {
			all[name] = amount(key+": "+name, text)
		}
		return all
	}
	b.Month, b.EachUser = amount("month", body.Month), amount("user", body.User)
	b.Types, b.NamedUsers = amounts("types", body.Types), amounts("users", body.Users)
	if text := body.WarnAt; text != "" {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		if b.WarnAt = percent / 100; err != nil || !strings.HasSuffix(text, "%") || !(percent > 0 && percent <= 100) {
			errs = append(errs, fmt.Errorf("warn_at: %q is not a part such as 80%%", text))
		}
	}
	return b, errors.Join(errs...)
}

// parseBudgetAmount parses an amount. "" and none are 0, which limits nothing.
func parseBudgetAmount(text string, isPriced bool) (float64, error) {
	if text == "" || text == "none" {
		return 0, nil
	}
	number, hasUnit := strings.CutSuffix(text, "h")
	value, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsInf(value, 0) || !(value > 0):
		return 0, fmt.Errorf("%q is not an amount above 0 such as 1000h, or none", text)
	case isPriced && hasUnit:
		return 0, fmt.Errorf("%q: a budget with prices has amounts without a unit", text)
	case !isPriced && !hasUnit:
		return 0, fmt.Errorf("%q: write GPU hours such as %sh, or name prices", text, text)
	}
	return value, nil
}
