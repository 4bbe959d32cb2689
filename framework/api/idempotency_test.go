package api

import (
	"strings"
	"testing"
)

// TestClientKey: what reaches the backend is the header's key with a digest of
// what the body says, however it is written, and nothing that the body claims.
func TestClientKey(t *testing.T) {
	const body = `{"name":"train","command":["true"],"env":{"A":"1","B":"2"}}`
	submit := func(body string, header ...string) (int, *fake) {
		f := &fake{}
		status, _, _ := ask(t, "POST", serve(t, f).URL+"/v1/jobs", body, header...)
		return status, f
	}
	_, first := submit(body, IdempotencyKey, "k")
	if k := first.submitted.ClientKey; k == nil || k.Key != "k" || len(k.Digest) != 32 {
		t.Fatalf("got %+v", k)
	}
	_, same := submit("{ \"env\":{\"B\":\"2\",\"A\":\"1\"},\"command\":[\"true\"],\n\"name\":\"train\"}\n", IdempotencyKey, "k")
	if got, want := *same.submitted.ClientKey, *first.submitted.ClientKey; got != want {
		t.Errorf("written otherwise: got %+v, want %+v", got, want)
	}
	_, other := submit(strings.Replace(body, "1", "3", 1), IdempotencyKey, "k")
	if other.submitted.ClientKey.Digest == first.submitted.ClientKey.Digest {
		t.Error("another body has the same digest")
	}
	forged := strings.Replace(body, "{", `{"client_key":{"key":"x","digest":"y"},`, 1)
	if _, f := submit(forged); f.submitted.ClientKey != nil {
		t.Errorf("the body's key was taken: %+v", f.submitted.ClientKey)
	}
	if _, f := submit(forged, IdempotencyKey, "k"); f.submitted.ClientKey.Key != "k" {
		t.Errorf("the body's key was taken: %+v", f.submitted.ClientKey)
	}
	for _, key := range []string{"", "tab\there", "größe", strings.Repeat("x", maxKey+1)} {
		if status, f := submit(body, IdempotencyKey, key); status != 400 || f.submitted.Name != "" {
			t.Errorf("key %q: got %d, submitted %q", key, status, f.submitted.Name)
		}
	}
}
