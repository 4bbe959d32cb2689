package image

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// dottedVersion is a version such as 535.104.05. Leading zeros and trailing
// ".0" are ignored.
type dottedVersion []uint32

// maxVersionParts bounds a version. The driver's versions have three parts;
// other versions have up to four.
const maxVersionParts = 4

// parseVersion accepts a leading "v".
func parseVersion(text string) (dottedVersion, error) {
	parts := strings.Split(strings.TrimPrefix(text, "v"), ".")
	if len(parts) > maxVersionParts {
		return nil, fmt.Errorf("%q is no version: it has %d parts, more than %d", text, len(parts), maxVersionParts)
	}
	v := make(dottedVersion, len(parts))
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no version such as 12.2", text)
		}
		v[i] = uint32(n)
	}
	return v, nil
}

// majorMinor returns a CUDA version, which has at most three parts, as X.Y.
func majorMinor(text string) (string, error) {
	v, err := parseVersion(text)
	if err != nil {
		return "", err
	}
	if len(v) > 3 {
		return "", fmt.Errorf("%q is no version of CUDA: it has %d parts, more than 3", text, len(v))
	}
	v = append(v, 0)
	return v[:2].String(), nil
}

// compareTo is negative if v is older than w.
func (v dottedVersion) compareTo(w dottedVersion) int {
	return slices.Compare(v.trimZeros(), w.trimZeros())
}

func (v dottedVersion) trimZeros() dottedVersion {
	for len(v) > 1 && v[len(v)-1] == 0 {
		v = v[:len(v)-1]
	}
	return v
}

func (v dottedVersion) String() string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = strconv.FormatUint(uint64(n), 10)
	}
	return strings.Join(parts, ".")
}
