package resource

import (
	"errors"
	"fmt"
	"math"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// limit is the maximum of every scalar and range bound, so that sums stay
// exact.
const limit = 1 << 50

// errGPUs has Mesos's wording, because schedulers match on it.
var errGPUs = errors.New("invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer")

// Validate returns the first error in resources received from a client.
func Validate(rs []mesos.Resource) error {
	for i := range rs {
		if err := validateResource(rs[i]); err != nil {
			return fmt.Errorf("invalid resource %q: %w", rs[i].Name, err)
		}
	}
	if gpus := SumScalar(rs, "gpus"); gpus != math.Trunc(gpus) {
		return errGPUs
	}
	return nil
}

func validateResource(r mesos.Resource) error {
	if r.Type == nil {
		return errors.New("type is not set")
	}
	if v := r.GetScalar().GetValue(); math.IsNaN(v) || math.Abs(v) > limit {
		return fmt.Errorf("scalar %v is no number below %d", v, limit)
	}
	for _, span := range r.GetRanges().GetRange() {
		if span.End > limit {
			return fmt.Errorf("range ends at %d, beyond %d", span.End, limit)
		}
	}
	if r.GetShared() != nil {
		return errors.New("shared resources are not supported")
	}
	return r.Validate()
}
