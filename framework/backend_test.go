package framework

import (
	"reflect"
	"testing"

	"mesos-gpu/framework/leader"
)

// TestLeaderBackendIsComplete checks that a leader answers each part of the API: the compiler accepts a part that is missing.
func TestLeaderBackendIsComplete(t *testing.T) {
	b := newLeaderBackend(&leader.Leader{}, nil)
	for _, part := range []reflect.Value{reflect.ValueOf(*b.Reads), reflect.ValueOf(*b.Leader)} {
		for i := range part.NumField() {
			if part.Field(i).IsNil() {
				t.Errorf("newLeaderBackend does not set %s.%s", part.Type().Name(), part.Type().Field(i).Name)
			}
		}
	}
}
