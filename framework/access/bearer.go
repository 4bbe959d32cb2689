package access

import (
	"errors"
	"fmt"
	"strings"
)

// maxTokenSize limits a token, in bytes: an issuer's token may contain many groups.
const maxTokenSize = 16 << 10

// ParseBearer parses the values of an Authorization header. It returns the token, or ""
// without a header. Its errors do not contain any of the values.
func ParseBearer(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", fmt.Errorf("there are %d Authorization headers: send one", len(values))
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", errors.New("the Authorization header is of another kind: send Bearer and a token")
	case token == "":
		return "", errors.New("the Authorization header has no token after Bearer")
	case len(token) > maxTokenSize:
		return "", fmt.Errorf("the token has %d bytes, more than %d", len(token), maxTokenSize)
	case strings.ContainsFunc(token, isNotTokenRune):
		return "", errors.New("the token has characters that no token has, such as white space")
	}
	return token, nil
}

// isNotTokenRune reports whether c is not allowed in a b64token of RFC 6750.
func isNotTokenRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/=", r))
}
