package marathon

import (
	"encoding/json"
	"fmt"
)

// EnvVar is an environment variable: a value, or a reference to a secret.
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

const unlimitedText = "unlimited"

// ResourceLimits bound what a task may use beyond its request.
type ResourceLimits struct {
	CPUs *ResourceLimit `json:"cpus,omitempty"`
	Mem  *ResourceLimit `json:"mem,omitempty"`
}

// ResourceLimit is an amount, or no limit.
type ResourceLimit struct {
	Amount    float64
	Unlimited bool
}

func (l ResourceLimit) MarshalJSON() ([]byte, error) {
	if l.Unlimited {
		return json.Marshal(unlimitedText)
	}
	return json.Marshal(l.Amount)
}

func (l *ResourceLimit) UnmarshalJSON(data []byte) error {
	*l = ResourceLimit{Unlimited: string(data) == `"`+unlimitedText+`"`}
	if l.Unlimited {
		return nil
	}
	return json.Unmarshal(data, &l.Amount)
}

const disabledText = "disabled"

// UnreachableStrategy determines when an instance on an unreachable agent is replaced (InactiveAfterSeconds) and
// given up (ExpungeAfterSeconds). Disabled means never.
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
		return json.Marshal(disabledText)
	}
	return json.Marshal(unreachableEnabled{u.InactiveAfterSeconds, u.ExpungeAfterSeconds})
}

func (u *UnreachableStrategy) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*u = UnreachableStrategy{Disabled: true}
		if string(data) != `"`+disabledText+`"` {
			return fmt.Errorf("read unreachableStrategy: %s is not %q", data, disabledText)
		}
		return nil
	}
	var e unreachableEnabled
	err := json.Unmarshal(data, &e)
	*u = UnreachableStrategy{InactiveAfterSeconds: e.InactiveAfterSeconds, ExpungeAfterSeconds: e.ExpungeAfterSeconds}
	return err
}
