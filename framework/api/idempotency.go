package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"mesos-gpu/job"
)

// IdempotencyKey is the header by which a client names a submission, so that
// it may make it again without the job's being there twice. A key counts among
// the jobs of its owner, as long as the job is remembered.
const IdempotencyKey = "Idempotency-Key"

// maxKey bounds a key, in bytes.
const maxKey = 255

// readSubmission reads a Spec, and what its client calls the submission.
func readSubmission(w http.ResponseWriter, r *http.Request) (spec job.Spec, err error) {
	keys := r.Header.Values(IdempotencyKey)
	if len(keys) == 0 {
		err = readJSON(w, r, &spec)
		spec.ClientKey = nil // the header's, not the body's
		return spec, err
	}
	if key := keys[0]; len(keys) > 1 || !printable(key) || len(key) == 0 || len(key) > maxKey {
		return spec, Problemf(http.StatusBadRequest, "%s: use one key of 1 to %d printable ASCII characters", IdempotencyKey, maxKey)
	}
	var body bytes.Buffer
	r.Body = io.NopCloser(io.TeeReader(r.Body, &body))
	if err := readJSON(w, r, &spec); err != nil {
		return spec, err
	}
	digest, err := digestOf(body.Bytes())
	if err != nil {
		return spec, Problemf(http.StatusBadRequest, "parse body: %v", err)
	}
	spec.ClientKey = &job.ClientKey{Key: keys[0], Digest: digest}
	return spec, nil
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// digestOf is equal for bodies that say the same: order and space count for
// nothing. It is of the body, not of the Spec made of it, so that it stays when
// a newer scheduler has other defaults.
func digestOf(body []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var said any
	if err := d.Decode(&said); err != nil {
		return "", fmt.Errorf("read it again: %w", err)
	}
	text, err := json.Marshal(said)
	if err != nil {
		return "", fmt.Errorf("write it in order: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}
