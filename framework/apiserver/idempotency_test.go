package apiserver

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
)

// TestIdempotencyKey checks that the backend gets the key of the header and a digest of the
// body's content, independent of its formatting, and ignores a key in the body.
func TestIdempotencyKey(t *testing.T) {
	const body = `{"name":"train","command":["true"],"env":{"A":"1","B":"2"}}`
	submit := func(body string, header ...string) (int, *fakeBackend) {
		f := &fakeBackend{}
		status, _, _ := sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", body, header...)
		return status, f
	}
	_, first := submit(body, api.IdempotencyKey, "k")
	if k := first.submitted.ClientKey; k == nil || k.Key != "k" || len(k.Digest) != 32 {
		t.Fatalf("got %+v", k)
	}
	_, same := submit("{ \"env\":{\"B\":\"2\",\"A\":\"1\"},\"command\":[\"true\"],\n\"name\":\"train\"}\n", api.IdempotencyKey, "k")
	if got, want := *same.submitted.ClientKey, *first.submitted.ClientKey; got != want {
		t.Errorf("written otherwise: got %+v, want %+v", got, want)
	}
	_, other := submit(strings.Replace(body, "1", "3", 1), api.IdempotencyKey, "k")
	if other.submitted.ClientKey.Digest == first.submitted.ClientKey.Digest {
		t.Error("a different body has the same digest")
	}
	forged := strings.Replace(body, "{", `{"client_key":{"key":"x","digest":"y"},`, 1)
	if _, f := submit(forged); f.submitted.ClientKey != nil {
		t.Errorf("the body's key was taken: %+v", f.submitted.ClientKey)
	}
	if _, f := submit(forged, api.IdempotencyKey, "k"); f.submitted.ClientKey.Key != "k" {
		t.Errorf("the body's key was taken: %+v", f.submitted.ClientKey)
	}
	for _, key := range []string{"", "tab\there", "größe", strings.Repeat("x", maxIdempotencyKey+1)} {
		if status, f := submit(body, api.IdempotencyKey, key); status != 400 || f.submitted.Name != "" {
			t.Errorf("key %q: got %d, submitted %q", key, status, f.submitted.Name)
		}
	}
}

// TestBodyDigestOfDuplicateKeys checks bodies with keys that are duplicate or differ only in
// case. The decoder takes the last one or merges them. Bodies that it decodes differently
// must have different digests.
func TestBodyDigestOfDuplicateKeys(t *testing.T) {
	digest := func(body string) string {
		t.Helper()
		f := &fakeBackend{}
		if status, _, answer := sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", body, api.IdempotencyKey, "k"); status != 200 && status != 201 {
			t.Fatalf("%s: %d %s", body, status, answer)
		}
		return f.submitted.ClientKey.Digest
	}
	const rest = `"command":["true"]}`
	for one, other := range map[string]string{
		`{"name":"a","Name":"b",` + rest:                        `{"Name":"b","name":"a",` + rest,
		`{"name":"a","ſervice":null,"Service":{},` + rest:       `{"name":"a","Service":{},"ſervice":null,` + rest,
		`{"name":"a","env":{"A":"1"},"env":{"B":"2"},` + rest:   `{"name":"a","env":{"B":"2"},` + rest,
		`{"name":"a","env":{"A":"1"},` + rest:                   `{"name":"a","env":{"a":"1"},` + rest,
		`{"name":"a","request":{"gpus":1,"GPUs":2},` + rest:     `{"name":"a","request":{"GPUs":2,"gpus":1},` + rest,
		`{"name":"a","env":{"A":"1","B":"","a":"2"},` + rest:    `{"name":"a","env":{"A":"2","B":"","a":"1"},` + rest,
		`{"name":"a","command":["true"],"command":["false"]}`:   `{"name":"a","command":["false"],"command":["true"]}`,
		`{"name":"a","command":["true",` + `"x"],"priority":1}`: `{"name":"a","command":["true"],"priority":1}`,
	} {
		if digest(one) == digest(other) {
			t.Errorf("%s and %s have one digest", one, other)
		}
	}
	// Existing journals contain digests of bodies without duplicates; they must not change.
	sum := sha256.Sum256([]byte(`{"command":["true"],"env":{"A":"1","B":"2"},"name":"train","priority":1}`))
	if got, want := digest(`{"name":"train", "priority":1, "env":{"B":"2","A":"1"},`+rest), fmt.Sprintf("%x", sum[:16]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
