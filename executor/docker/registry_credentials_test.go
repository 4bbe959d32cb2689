package docker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
)

// secret must not appear in any message or log.
const secret = "s3cret-of-the-test"

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
		t.Fatal(err)
	}
}

// withHelpers adds credential helpers to PATH, as shell scripts by name.
func withHelpers(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		writeFile(t, filepath.Join(dir, "docker-credential-"+name), "#!/bin/sh\n"+script, 0o755)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestFindCredentials(t *testing.T) {
	const own = "registry.example:5000/team/app:v1"
	auths := func(host, rest string) string { return fmt.Sprintf(`{"auths":{%q:{%s}}}`, host, rest) }
	ann, bob := `"auth":"`+basic("ann", secret)+`"`, `"username":"bob","password":"`+secret+`"`
	password := func(user, server string) *registry.AuthConfig {
		return &registry.AuthConfig{Username: user, Password: secret, ServerAddress: server}
	}
	withHelpers(t, map[string]string{
		"echo":  `read server; echo '{"ServerURL":"'$server'","Username":"carl","Secret":"` + secret + `"}'`,
		"token": `echo '{"Username":"<token>","Secret":"` + secret + `"}'`,
		"empty": `echo credentials not found in native keychain; exit 1`,
	})
	tests := []struct {
		name, image                           string
		config, legacy, operators, pullSecret string // contents of the four files; empty: no file
		want                                  *registry.AuthConfig
	}{
		{"no file", own, "", "", "", "", nil},
		{"the operator's", own, "", "", auths("registry.example:5000", ann), "", password("ann", "registry.example:5000")},
		{"name and password", own, "", "", auths("registry.example:5000", bob), "", password("bob", "registry.example:5000")},
		{"the sandbox's goes first", own, auths("registry.example:5000", bob), "", auths("registry.example:5000", ann), "", password("bob", "registry.example:5000")},
		{"the sandbox's knows another registry", own, auths("other.example", bob), "", auths("registry.example:5000", ann), "", password("ann",
			"registry.example:5000")},
		{"the old file", own, "", `{"registry.example:5000":{` + ann + `}}`, "", "", password("ann", "registry.example:5000")},
		{"an address", own, "", "", auths("https://registry.example:5000/v2/", ann), "", password("ann", "registry.example:5000")},
		{"another port", own, "", "", auths("registry.example", ann), "", nil},
		{"the hub", "debian:12", "", "", auths("https://index.docker.io/v1/", ann), "", password("ann", "https://index.docker.io/v1/")},
		{"the hub by its name", "docker.io/library/debian", "", "", auths("https://index.docker.io/v1/", ann), "", password("ann", "https://index.docker.io/v1/")},
		{"identity token", own, "", "", auths("registry.example:5000", `"identitytoken":"`+secret+`"`), "", &registry.AuthConfig{
			IdentityToken: secret,
			ServerAddress: "registry.example:5000",
		}},
		{"helper of a registry", own, "", "", `{"credsStore":"absent","credHelpers":{"registry.example:5000":"echo"}}`, "", password("carl",
			"registry.example:5000")},
		{"helper of all", own, "", "", `{"credsStore":"echo","auths":{"registry.example:5000":{}}}`, "", password("carl", "registry.example:5000")},
		{"helper with a token", own, "", "", `{"credsStore":"token"}`, "", &registry.AuthConfig{IdentityToken: secret, ServerAddress: "registry.example:5000"}},
		{"no helper of the sandbox's", own, `{"credsStore":"echo","credHelpers":{"registry.example:5000":"token"}}`, "",
			auths("registry.example:5000", ann), "", password("ann", "registry.example:5000")},
		{"helper that knows nothing", own, "", "", `{"credsStore":"empty"}`, "", nil},
		{"entry of a helper", own, "", "", auths("registry.example:5000", ""), "", nil},
		{"not an image's name", "UPPER::", "", "", "{", "", nil},
		{"the pull secret goes first", own, auths("registry.example:5000", ann), "", auths("registry.example:5000", ann),
			auths("registry.example:5000", bob), password("bob", "registry.example:5000")},
		{"the pull secret knows another registry", own, "", "", auths("registry.example:5000", ann), auths("other.example", bob), password("ann",
			"registry.example:5000")},
		{"no helper of the pull secret's", own, "", "", auths("registry.example:5000", ann),
			`{"credsStore":"echo","credHelpers":{"registry.example:5000":"token"}}`, password("ann", "registry.example:5000")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &EngineRuntime{Sandbox: t.TempDir()}
			for path, text := range map[string]string{d.Sandbox + "/.docker/config.json": tt.config, d.Sandbox + "/.dockercfg": tt.legacy} {
				if text != "" {
					writeFile(t, path, text, 0o600)
				}
			}
			if tt.operators != "" {
				d.DockerConfig = filepath.Join(t.TempDir(), "config.json")
				writeFile(t, d.DockerConfig, tt.operators, 0o600)
			}
			spec := task.TaskSpec{Image: tt.image}
			if tt.pullSecret != "" {
				spec.PullSecret, spec.PullConfig = "registry", filepath.Join(t.TempDir(), "registry")
				writeFile(t, spec.PullConfig, tt.pullSecret, 0o600)
			}
			l, err := d.findCredentials(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			var got *registry.AuthConfig
			if l.encoded != "" {
				if got, err = registry.DecodeAuthConfig(l.encoded); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("credentials (-want +got):\n%s", diff)
			}
		})
	}
}

// An error names the faulty file, but does not contain its content.
func TestFindCredentialsErrors(t *testing.T) {
	withHelpers(t, map[string]string{
		"angry":   "echo " + secret + "; echo " + secret + " >&2; exit 3",
		"chatter": "echo " + secret,
	})
	tests := []struct{ name, config, want string }{
		{"malformed", `{"auths":{"r.example":{"password":"` + secret + `",}}}`, "parse it as a docker config.json: invalid character '}'"},
		{"cut off", `{"auths":{"r.example":{"password":"` + secret, "unexpected end of JSON input"},
		{"empty", "", "parse it as a docker config.json: unexpected end of JSON input"},
		{"not base64", `{"auths":{"r.example":{"auth":"!` + secret + `"}}}`, "parse it as a docker config.json: illegal base64 data at input byte 0"},
		{"no colon", `{"auths":{"r.example":{"auth":"` + base64.StdEncoding.EncodeToString([]byte(secret)) + `"}}}`, "invalid auth configuration file"},
		{"helper fails", `{"credsStore":"angry"}`, "run docker-credential-angry: see its output on the agent: echo r.example | docker-credential-angry get"},
		{"helper says no JSON", `{"credsStore":"chatter"}`, "run docker-credential-chatter: see its output"},
		{"helper is not there", `{"credsStore":"absent"}`, `run docker-credential-absent: see its output`},
		{"helper is a path", `{"credsStore":"x/../../tmp/mine"}`, "is a path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &EngineRuntime{Sandbox: t.TempDir(), DockerConfig: filepath.Join(t.TempDir(), "config.json")}
			writeFile(t, d.DockerConfig, tt.config, 0o600)
			_, err := d.findCredentials(t.Context(), task.TaskSpec{Image: "r.example/app"})
			for _, want := range []string{"find credentials for registry r.example in " + d.DockerConfig + ": ", tt.want} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error lacks %q: %v", want, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("error holds the secret: %v", err)
			}
		})
	}
	t.Run("no such file", func(t *testing.T) {
		_, err := (&EngineRuntime{Sandbox: t.TempDir(), DockerConfig: "/no/such/config.json"}).findCredentials(t.Context(), task.TaskSpec{Image: "r.example/app"})
		if want := "in /no/such/config.json: no such file, set by MESOS_GPU_DOCKER_CONFIG"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		d := &EngineRuntime{Sandbox: t.TempDir(), DockerConfig: t.TempDir()}
		if _, err := d.findCredentials(t.Context(), task.TaskSpec{Image: "r.example/app"}); err == nil || !strings.Contains(err.Error(), d.DockerConfig) {
			t.Errorf("got %v, want the file named", err)
		}
	})
	t.Run("a pull secret", func(t *testing.T) {
		spec := task.TaskSpec{Image: "r.example/app", PullSecret: "team/registry", PullConfig: filepath.Join(t.TempDir(), "registry")}
		writeFile(t, spec.PullConfig, `{"auths":{"r.example":{"auth":"`+secret+`!"}}}`, 0o600)
		_, err := (&EngineRuntime{Sandbox: t.TempDir()}).findCredentials(t.Context(), spec)
		if want := `for registry r.example in pull_secret "team/registry": parse it as a docker config.json`; err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want %q in it, without the secret", err, want)
		}
	})
	t.Run("a pipe", func(t *testing.T) {
		d := &EngineRuntime{Sandbox: t.TempDir()}
		if err := unix.Mkfifo(filepath.Join(d.Sandbox, ".dockercfg"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.findCredentials(t.Context(), task.TaskSpec{Image: "r.example/app"}); err == nil ||
			!strings.Contains(err.Error(), ".dockercfg: not a regular file") {
			t.Errorf("got %v, want that it is no file", err)
		}
	})
	t.Run("a link out of the sandbox", func(t *testing.T) {
		d, outside := &EngineRuntime{Sandbox: t.TempDir()}, filepath.Join(t.TempDir(), "config.json")
		writeFile(t, outside, `{"auths":{"r.example":{"auth":"`+basic("root", secret)+`"}}}`, 0o600)
		if err := os.Symlink(outside, filepath.Join(d.Sandbox, ".dockercfg")); err != nil {
			t.Fatal(err)
		}
		if l, err := d.findCredentials(t.Context(), task.TaskSpec{Image: "r.example/app"}); err == nil || l.encoded != "" {
			t.Errorf("a file outside the sandbox was read (%v)", err)
		}
	})
}

// Pulls from a registry with a password, with a real engine.
func TestPrivateRegistry(t *testing.T) {
	h, reg := newHost(t), newRegistry(t)
	reg.let()
	img, _ := reg.push(t, "private")
	reg.lock("ann", secret)
	var logged strings.Builder
	log := logrus.New()
	log.SetOutput(&logged)
	config := func(password string) string {
		return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, reg.host, basic("ann", password))
	}
	sandbox, operators := filepath.Join(h.Sandbox, ".docker/config.json"), filepath.Join(t.TempDir(), "docker.json")
	withHelpers(t, map[string]string{"ours": `echo '{"Username":"ann","Secret":"` + secret + `"}'`})
	tests := []struct {
		name, sandbox, operators, pullSecret string
		want                                 []string // expected parts of the error; none on success
	}{
		{"no credentials", "", "", "", []string{
			"is not on this agent and cannot be pulled: ", "no credentials for registry " + reg.host + ":",
			"MESOS_GPU_DOCKER_CONFIG", ".docker/config.json",
		}},
		{"a wrong password", "", config("wrong-" + secret), "", []string{"cannot be pulled: ", "registry " + reg.host + " rejects the credentials of " + operators}},
		{"a malformed file", "", "{auths", "", []string{"cannot be pulled: ", "in " + operators + ": parse it as a docker config.json"}},
		{"the operator's", "", config(secret), "", nil},
		{"the sandbox's", config(secret), config("wrong"), "", nil},
		{"a helper's", "", `{"credHelpers":{"` + reg.host + `":"ours"}}`, "", nil},
		{"the pull secret's", config("wrong"), config("wrong"), config(secret), nil},
		{"a wrong password in the pull secret", config(secret), config(secret), config("wrong-" + secret), []string{
			"cannot be pulled: ", "registry " + reg.host + ` rejects the credentials of pull_secret "registry"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			runtime := *h.EngineRuntime
			runtime.Log = log
			_ = os.Remove(sandbox)
			if tt.sandbox != "" {
				writeFile(t, sandbox, tt.sandbox, 0o600)
			}
			if tt.operators != "" {
				writeFile(t, operators, tt.operators, 0o600)
				runtime.DockerConfig = operators
			}
			h := host{engine: h.engine, volume: h.volume, EngineRuntime: &runtime}
			work := shell(img, "exit 0")
			if tt.pullSecret != "" {
				work.PullSecret, work.PullConfig = "registry", filepath.Join(t.TempDir(), "registry")
				writeFile(t, work.PullConfig, tt.pullSecret, 0o600)
			}
			var heard messageLog
			work.OnMessage = heard.tell
			if tt.want == nil {
				if exit, _, _ := h.run(t, work); !exit.Succeeded() {
					t.Errorf("task %s", exit)
				}
				h.removeImage(t, img)
			} else {
				_, err := h.Start(t.Context(), work)
				for _, want := range append(tt.want, "docker load it there") {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error lacks %q: %v", want, err)
					}
				}
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("error holds the secret: %v", err)
				}
				h.nothingLeft(t, work)
			}
			if text := heard.String() + logged.String(); strings.Contains(text, secret) || strings.Contains(text, basic("ann", secret)) {
				t.Errorf("the secret is in what people hear: %s", text)
			}
		})
	}
}

// lock requires these credentials from now on.
func (i *images) lock(user, password string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.user, i.password = user, password
}

// allowed rejects requests without valid credentials with an error response.
func (i *images) allowed(w http.ResponseWriter, r *http.Request) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if user, password, _ := r.BasicAuth(); user == i.user && password == i.password {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
	return false
}
