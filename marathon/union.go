package marathon

import (
	"encoding/json"
	"fmt"
)

// EnvVar is an environment variable: a value, or the name of a secret.
type EnvVar struct {
	Value  string
	Secret string
}

type secretRef struct {
	Secret string `json:"secret"`
}

func (e EnvVar) MarshalJSON() ([]byte, error) {
	if e.Secret != "" {
		return json.Marshal(secretRef{e.Secret})
	}
	return json.Marshal(e.Value)
}

func (e *EnvVar) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var ref secretRef
		err := json.Unmarshal(data, &ref)
		*e = EnvVar{Secret: ref.Secret}
		return err
	}
	*e = EnvVar{}
	return json.Unmarshal(data, &e.Value)
}

const unlimited = "unlimited"

// ResourceLimits are how far a task may go beyond what it asks for.
type ResourceLimits struct {
	CPUs *Limit `json:"cpus,omitempty"`
	Mem  *Limit `json:"mem,omitempty"`
}

// Limit is an amount, or no limit.
type Limit struct {
	Amount    float64
	Unlimited bool
}

func (l Limit) MarshalJSON() ([]byte, error) {
	if l.Unlimited {
		return json.Marshal(unlimited)
	}
	return json.Marshal(l.Amount)
}

func (l *Limit) UnmarshalJSON(data []byte) error {
	*l = Limit{Unlimited: string(data) == `"`+unlimited+`"`}
	if l.Unlimited {
		return nil
	}
	return json.Unmarshal(data, &l.Amount)
}

const disabled = "disabled"

// UnreachableStrategy says what becomes of an instance whose agent is gone:
// replaced after InactiveAfterSeconds, given up after ExpungeAfterSeconds, or
// neither.
type UnreachableStrategy struct {
	Disabled             bool
	InactiveAfterSeconds int64
	ExpungeAfterSeconds  int64
}

type unreachableEnabled struct {
	InactiveAfterSeconds int64 `json:"inactiveAfterSeconds"`
	ExpungeAfterSeconds  int64 `json:"expungeAfterSeconds"`
}

func (u UnreachableStrategy) MarshalJSON() ([]byte, error) {
	if u.Disabled {
		return json.Marshal(disabled)
	}
	return json.Marshal(unreachableEnabled{u.InactiveAfterSeconds, u.ExpungeAfterSeconds})
}

func (u *UnreachableStrategy) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*u = UnreachableStrategy{Disabled: true}
		if string(data) != `"`+disabled+`"` {
			return fmt.Errorf("read unreachableStrategy: %s is not %q", data, disabled)
		}
		return nil
	}
	var e unreachableEnabled
	err := json.Unmarshal(data, &e)
	*u = UnreachableStrategy{InactiveAfterSeconds: e.InactiveAfterSeconds, ExpungeAfterSeconds: e.ExpungeAfterSeconds}
	return err
}
