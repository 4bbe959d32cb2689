//go:build !linux || !cgo

package nvml

import (
	"errors"
	"strings"
	"testing"
)

func TestDiscoverWithoutCgo(t *testing.T) {
	_, discovering := DiscoverHost(LibraryConfig{})
	_, opening := Open(LibraryConfig{})
	for _, err := range []error{discovering, opening} {
		if !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "without cgo") {
			t.Errorf("got %v, want ErrNoDriver and the reason", err)
		}
	}
}
