package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"mesos-gpu/job"
)

// TokenEntry is a token of the access file. It does not contain the secret.
type TokenEntry struct {
	// Name is the user whom the token identifies. It is the part of the token before the secret.
	Name string
	// Groups are the groups of that user.
	Groups []string
	// UnixUser is the user of the agents whom the token identifies, "" for Name.
	UnixUser string
	// Hash is the SHA-256 or the bcrypt hash of the token's secret.
	Hash string
}

// Identity returns the user whom the token identifies.
func (t *TokenEntry) Identity() Identity {
	if t.UnixUser != "" {
		return Identity{Name: job.UnixUserPrefix + t.UnixUser, Groups: t.Groups}
	}
	return Identity{Name: t.Name, Groups: t.Groups}
}

// A token is mgpu.NAME.SECRET. The name selects the hash, so that verifying a token
// costs at most one comparison.
const tokenPrefix = "mgpu."

// sha256Prefix marks a SHA-256 hash in hexadecimal. It is as secure as bcrypt for a secret of
// 130 random bits, which cannot be guessed at any speed, and its check takes a microsecond, so
// that requests with wrong secrets do not delay others.
const sha256Prefix = "sha256:"

// maxSecretSize is the number of bytes that bcrypt uses.
const maxSecretSize = 72

// Limits of the bcrypt cost: a lower one is easy to guess, a higher one delays requests.
const minBcryptCost, maxBcryptCost = 10, 14

var (
	tokenName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,63}$`)
	madeSecret = regexp.MustCompile(`^[A-Z2-7]{26}$`) // as rand.Text returns
	sha256Hash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	bcryptHash = regexp.MustCompile(`^\$2[aby]\$[0-9]{2}\$[./A-Za-z0-9]{53}$`)
)

// NewToken returns a new token with this name, and its hash. The secret has at least 128
// random bits. It returns an error for an invalid name.
func NewToken(name string) (token, hash string, err error) {
	if err := checkTokenName(name); err != nil {
		return "", "", err
	}
	secret := rand.Text()
	sum := sha256.Sum256([]byte(secret))
	return tokenPrefix + name + "." + secret, sha256Prefix + hex.EncodeToString(sum[:]), nil
}

func checkTokenName(name string) error {
	if !tokenName.MatchString(name) {
		return fmt.Errorf("token name %q: use 1 to 63 letters, digits, dashes and underscores", name)
	}
	return nil
}

// SplitToken splits a token of an access file. ok is false for other tokens, such as
// those of an issuer.
func SplitToken(token string) (name, secret string, ok bool) {
	rest, ours := strings.CutPrefix(token, tokenPrefix)
	name, secret, cut := strings.Cut(rest, ".")
	return name, secret, ours && cut && tokenName.MatchString(name) && secret != "" && len(secret) <= maxSecretSize
}

// HasSlowHash reports whether MatchesSecret takes at least 50 ms of a core, as with bcrypt.
func (t *TokenEntry) HasSlowHash() bool { return !strings.HasPrefix(t.Hash, sha256Prefix) }

// MatchesSecret reports whether the secret matches the hash. A SHA-256 hash matches only a secret
// that NewToken has made, because one that a person has chosen could be guessed.
func (t *TokenEntry) MatchesSecret(secret string) bool {
	if !t.HasSlowHash() {
		sum := sha256.Sum256([]byte(secret))
		same := subtle.ConstantTimeCompare([]byte(t.Hash), []byte(sha256Prefix+hex.EncodeToString(sum[:]))) == 1
		return same && madeSecret.MatchString(secret)
	}
	return bcrypt.CompareHashAndPassword([]byte(t.Hash), []byte(secret)) == nil
}

func checkHash(hash string) error {
	if sha256Hash.MatchString(hash) {
		return nil
	}
	if !bcryptHash.MatchString(hash) {
		return errors.New("it is neither a SHA-256 hash such as mesos-gpu token prints nor a bcrypt hash")
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
