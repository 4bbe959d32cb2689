package access

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"
)

// TokenEntry is one of the access file's. It holds no secret.
type TokenEntry struct {
	Name   string
	Groups []string
	// Hash is bcrypt's, of the token's secret.
	Hash string
}

// A token is mgpu.NAME.SECRET: the name says which hash to try, so that a
// wrong one costs one try at most.
const tokenPrefix = "mgpu."

// maxSecretSize is as much as bcrypt looks at.
const maxSecretSize = 72

// Bounds of a hash's cost: what is guessed at, and what a request may take.
const minBcryptCost, maxBcryptCost = 10, 14

var (
	tokenName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)
)

// NewToken makes a token of that name and its hash. The secret has 128 random
// bits, at least.
func NewToken(name string) (token, hash string, err error) {
	if err := checkTokenName(name); err != nil {
		return "", "", err
	}
	secret := rand.Text()
	hashed, err := bcrypt.GenerateFromPassword([]byte(secret), minBcryptCost)
	if err != nil {
		return "", "", fmt.Errorf("hash token %s: %w", name, err)
	}
	return tokenPrefix + name + "." + secret, string(hashed), nil
}

func checkTokenName(name string) error {
	if !tokenName.MatchString(name) {
		return fmt.Errorf("token name %q: use 1 to 63 letters, digits, dashes and underscores", name)
	}
	return nil
}

// SplitToken takes a token of the access file's form apart; ok is false for
// others, such as an issuer's.
func SplitToken(token string) (name, secret string, ok bool) {
	rest, ours := strings.CutPrefix(token, tokenPrefix)
	name, secret, cut := strings.Cut(rest, ".")
	return name, secret, ours && cut && tokenName.MatchString(name) && secret != "" && len(secret) <= maxSecretSize
}

// MatchesSecret reports whether the secret is this token's. It takes bcrypt's time.
func (t *TokenEntry) MatchesSecret(secret string) bool {
	return bcrypt.CompareHashAndPassword([]byte(t.Hash), []byte(secret)) == nil
}

func checkHash(hash string) error {
	if !bcryptHash.MatchString(hash) {
		return errors.New("it is no bcrypt hash such as mesos-gpu token prints")
	}
	cost, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return err
	}
	if cost < minBcryptCost || cost > maxBcryptCost {
		return fmt.Errorf("bcrypt's cost of %d is not between %d and %d", cost, minBcryptCost, maxBcryptCost)
	}
	return nil
}
