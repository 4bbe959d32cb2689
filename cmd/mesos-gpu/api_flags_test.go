package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/internal/cli"
)

// TestToken checks that the printed entry is valid in an access file, and that the printed
// token matches it.
func TestToken(t *testing.T) {
	var out, lines bytes.Buffer
	if code := runCommandLine(t.Context(), []string{"token", "ci"}, cli.ProcessIO{
		Stdin:  nil,
		Stdout: &out,
		Stderr: &lines,
		Getenv: func(string) string { return "" },
	}); code != 0 {
		t.Fatal(lines.String())
	}
	policy, err := access.ParsePolicy(lines.Bytes())
	if err != nil {
		t.Fatalf("%v in\n%s", err, &lines)
	}
	name, secret, ok := access.SplitToken(strings.TrimSpace(out.String()))
	if !ok || name != "ci" || len(policy.Tokens) != 1 || policy.Tokens[0].Name != "ci" || !policy.Tokens[0].MatchesSecret(secret) {
		t.Errorf("printed %q for\n%s", &out, &lines)
	}
	if strings.Contains(lines.String(), secret) {
		t.Error("the lines for the file contain the secret")
	}
	if code := runCommandLine(t.Context(), []string{"token", "a.b"}, cli.ProcessIO{
		Stdin:  nil,
		Stdout: &out,
		Stderr: &lines,
		Getenv: func(string) string { return "" },
	}); code != 2 {
		t.Errorf("an invalid name: exit %d", code)
	}
}

// TestTokenIsSentToScheduler checks a token from a file and from the environment, and that
// no output contains it.
func TestTokenIsSentToScheduler(t *testing.T) {
	received := ""
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r.Header.Get("Authorization")
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer s.Close()
	dir := t.TempDir()
	ca, file := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for path, text := range map[string]string{
		file: "mgpu.ci.FILE\n",
		ca:   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want, says string
		args             []string
		env              map[string]string
	}{
		{"flags name the files", "mgpu.ci.FILE", "others may use it", []string{"--token-file", file, "--ca", ca}, nil},
		{"environment variables name the files", "mgpu.ci.FILE", "others may use it", nil, map[string]string{"MESOS_GPU_TOKEN_FILE": file, "MESOS_GPU_CA": ca}},
		{"an environment variable has the token", "mgpu.ci.ENV", "", nil, map[string]string{"MESOS_GPU_TOKEN": "mgpu.ci.ENV", "MESOS_GPU_CA": ca}},
		{"a flag overrides the environment", "mgpu.ci.FILE", "", []string{"--token-file", file}, map[string]string{
			"MESOS_GPU_TOKEN": "mgpu.ci.ENV",
			"MESOS_GPU_CA":    ca,
		}},
		{"the token file is missing", "", "read the token", []string{"--token-file", filepath.Join(dir, "none")}, nil},
		{"the certificate is not trusted", "", "certificate", []string{"--token-file", file}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			received = ""
			var out, said bytes.Buffer
			code := runCommandLine(t.Context(), append([]string{"ps", "--api", s.URL}, c.args...), cli.ProcessIO{
				Stdin:  nil,
				Stdout: &out,
				Stderr: &said,
				Getenv: func(name string) string { return c.env[name] },
			})
			if want := strings.TrimSuffix("Bearer "+c.want, "Bearer "); code != 1 || received != want || !strings.Contains(said.String(), c.says) {
				t.Errorf("exit %d, received %q, printed %s", code, received, &said)
			}
			if strings.Contains(out.String()+said.String(), "mgpu.ci") {
				t.Errorf("the output contains the token: %s%s", &out, &said)
			}
		})
	}
}
