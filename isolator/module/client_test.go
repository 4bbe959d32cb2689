package module

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/testneeds"
)

// startClient starts the client with the socket's path.
func startClient(t *testing.T, socket string) *driverProcess {
	t.Helper()
	needHeaders(t)
	build(t, built, "client-test")
	return startDriver(t, filepath.Join(built, "client-test"), nil, socket)
}

// listenSocket listens on a new socket for the client.
func listenSocket(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

// serveScript sends the chunks on each connection after its request has arrived, then
// keeps the connection open until the test ends.
func serveScript(t *testing.T, l net.Listener, pause time.Duration, chunks ...string) {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				// A request arrives in one read on a local socket.
				if _, err := c.Read(make([]byte, 64<<10)); err != nil {
					return
				}
				for _, chunk := range chunks {
					if chunk == hangUp {
						return
					}
					if _, err := io.WriteString(c, chunk); err != nil {
						return
					}
					select {
					case <-time.After(pause):
					case <-end:
						return
					}
				}
				<-end
			}()
		}
	}()
}

const hangUp = "\x00hang up"

func response(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

func prepareCall(timeout int) map[string]any {
	return map[string]any{"op": "prepare", "timeout_ms": timeout, "body": map[string]any{"container": "c1"}}
}

// Every request and response matches docs/reference/agent-api.md.
func TestClientCalls(t *testing.T) {
	const whole = `{"container":"c1.n","directory":"/sandbox","rootfs":true,"framework":"f","executor":"e","task":"t","job":"j",
		"resources":[{"name":"gpu_ids","set":["GPU-a","GPU-b"]},{"name":"gpu_ports","ranges":[{"begin":1,"end":9}]},{"name":"gpus","scalar":2.0}],
		"image":{"labels":{"com.nvidia.volumes.needed":"nvidia_driver"},"environment":{"NVIDIA_VISIBLE_DEVICES":"all","ODD":"\u00e9\"\\\n"}}}`
	const granted = `{"devices":["GPU-a","GPU-b"],"nodes":[{"path":"/dev/nvidia0","major":195,"minor":0},{"path":"/dev/nvidia-caps/nvidia-cap1","major":511,"minor":1}],
		"mounts":[{"source":"/var/lib/v","target":"/usr/local/nvidia","read_only":true}],"environment":{"NVIDIA_VISIBLE_DEVICES":"GPU-a,GPU-b","EMPTY":""}}`
	tests := []struct{ op, path, body, answer, value string }{
		{"recover", "/v1/recover", `{"containers":["c1","c2.n"]}`, `{}`, `{}`},
		{"recover", "/v1/recover", `{"containers":[]}`, `{"later":1}`, `{}`},
		{"prepare", "/v1/prepare", whole, granted, granted},
		{"isolate", "/v1/isolate", `{"container":"c1","pid":4711}`, `{}`, `{}`},
		{"update", "/v1/update", `{"container":"c1","resources":[{"name":"gpus","scalar":1.0}]}`, `{"devices":["GPU-a"]}`, `{"devices":["GPU-a"]}`},
		{"update", "/v1/update", `{"container":"c1","resources":[]}`, `{"devices":null}`, `{"devices":[]}`},
		{"cleanup", "/v1/cleanup", `{"container":"c1"}`, `{}`, `{}`},
	}
	l, path := listenSocket(t)
	type seen struct{ method, path, kind, body string }
	requests, answers := make(chan seen, 1), make(chan string, 1)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			requests <- seen{r.Method, r.URL.Path, r.Header.Get("Content-Type"), string(body)}
			io.WriteString(w, <-answers)
		}))
	}()
	c := startClient(t, path)
	for _, tt := range tests {
		t.Run(tt.op, func(t *testing.T) {
			answers <- tt.answer
			got := c.call(map[string]any{"op": tt.op, "body": json.RawMessage(tt.body)})
			r := <-requests
			if want := (seen{"POST", tt.path, "application/json", r.body}); r != want {
				t.Errorf("got request %+v, want %+v", r, want)
			}
			if diff := cmp.Diff(decodeJSON(t, tt.body), decodeJSON(t, r.body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if got.Kind != "ok" {
				t.Fatalf("got %+v", got)
			}
			if diff := cmp.Diff(decodeJSON(t, tt.value), decodeJSON(t, string(got.Value))); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// With any faulty server, a call ends in time with an error that names the object, the
// cause and the remedy.
func TestClientWithBrokenDaemon(t *testing.T) {
	const timeout = 4000
	ok := response("200 OK", `{}`)
	head, _, _ := strings.Cut(ok, "{}")
	tests := []struct {
		name   string
		chunks []string
		kind   string
		says   string
	}{
		{"silent", nil, "away", " ms; look at the daemon's log"},
		{"hangs up", []string{hangUp}, "away", "closed the connection before its answer was whole"},
		{"half a header", []string{"HTTP/1.1 200 OK\r\nConte", hangUp}, "broken", "the answer is no JSON"},
		{"half a body", []string{head + "{", hangUp}, "away", "closed the connection"},
		{"half a chunk", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{", hangUp}, "away", "closed the connection"},
		{"waits in a body", []string{head + "{"}, "away", "no whole answer"},
		{"no HTTP", []string{"SSH-2.0-OpenSSH_9.2\r\n", hangUp}, "broken", "is it the GPU daemon?"},
		{"another protocol's status", []string{"HTTP/1.1 abc OK\r\n\r\n", hangUp}, "broken", "is it the GPU daemon?"},
		{"an endless header", []string{"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Filler: "+strings.Repeat("x", 1000)+"\r\n", 100)}, "broken", "16384 of header"},
		{"endless early answers", []string{strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000)}, "broken", "16384 of header"},
		{"a large body", []string{response("200 OK", `{"devices":["`+strings.Repeat("x", 2<<20)+`"]}`)}, "broken", "more than 1048576 bytes"},
		{"an endless body", []string{"HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 2<<20)}, "broken", "more than 1048576 bytes"},
		{"no JSON", []string{response("200 OK", "<html>")}, "broken", "answered nonsense: the answer is no JSON"},
		{"nothing", []string{response("200 OK", "")}, "broken", "the answer is no JSON"},
		{"another success", []string{"HTTP/1.1 204 No Content\r\n\r\n", hangUp}, "broken", "HTTP status 204 without a reason"},
		{"elsewhere", []string{"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"}, "broken", "HTTP status 302"},
		{"refused",
			[]string{response("409 Conflict", `{"error":"container c1 wants 3 GPUs of the stock pool, 1 is free; set more aside by --stock"}`)},
			"refused", "agent.sock: container c1 wants 3 GPUs of the stock pool, 1 is free; set more aside by --stock"},
		{"refused without a reason", []string{response("403 Forbidden", "no")}, "refused", "HTTP status 403 without a reason"},
		{"in trouble", []string{response("500 Internal Server Error", `{"error":"write devices.allow: no such device"}`)},
			"broken", "write devices.allow: no such device"},
		{"a reason of many lines",
			[]string{response("409 Conflict", `{"error":"one\ntwo\u001b[31m\u0000`+strings.Repeat("x", 100_000)+`"}`)},
			"refused", "one two [31m "},
		{"a long reason", []string{response("409 Conflict", `{"error":"x`+strings.Repeat("é", 2000)+`"}`)}, "refused", "x" + strings.Repeat("é", 999)},
	}
	path := filepath.Join(t.TempDir(), "agent.sock")
	c := startClient(t, path)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			serveScript(t, l, 0, tt.chunks...)
			begun := time.Now()
			got := c.call(prepareCall(timeout))
			if got.Kind != tt.kind || !strings.Contains(got.Message, tt.says) {
				t.Errorf("got %s: %.300s\nwant %s: …%s", got.Kind, got.Message, tt.kind, tt.says)
			}
			if !strings.Contains(got.Message, "container c1") || !strings.Contains(got.Message, path) {
				t.Errorf("does not say what and where: %.300s", got.Message)
			}
			if strings.ContainsRune(got.Message, '\ufffd') {
				t.Errorf("the message has half a character: %q", got.Message)
			}
			if len(got.Message) > 3000 {
				t.Errorf("the message has %d bytes", len(got.Message))
			}
			if took := time.Since(begun); took > 10*timeout*time.Millisecond {
				t.Errorf("took %s, allowed were %d ms", took, timeout)
			}
		})
	}
}

// A response that arrives byte by byte does not extend the deadline.
func TestClientWithSlowDaemon(t *testing.T) {
	l, path := listenSocket(t)
	var bytes []string
	for _, b := range response("200 OK", `{"devices":[]}`) {
		bytes = append(bytes, string(b))
	}
	serveScript(t, l, 50*time.Millisecond, bytes...)
	c := startClient(t, path)
	if got := c.call(prepareCall(500)); got.Kind != "away" || !strings.Contains(got.Message, "no whole answer within") {
		t.Errorf("got %+v", got)
	}
	if got := c.call(prepareCall(30_000)); got.Kind != "ok" {
		t.Errorf("got %+v", got)
	}
	if got := c.call(prepareCall(0)); got.Kind != "away" || !strings.Contains(got.Message, "no time left") {
		t.Errorf("got %+v", got)
	}
}

// The socket does not exist, or another user owns it.
func TestClientWithoutADaemon(t *testing.T) {
	check := func(t *testing.T, path, says string) {
		t.Helper()
		got := startClient(t, path).call(prepareCall(30_000))
		if got.Kind != "away" || !strings.Contains(got.Message, path+": "+says) {
			t.Errorf("got %s: %s\nwant away: …%s", got.Kind, got.Message, says)
		}
	}
	dir := t.TempDir()
	check(t, filepath.Join(dir, "absent"), "No such file or directory; start the daemon: mesos-gpu agent")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, file, "it is no socket")
	l, path := listenSocket(t)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	check(t, path, "Connection refused; start the daemon: mesos-gpu agent")

	testneeds.RequireRoot(t)
	l, path = listenSocket(t)
	serveScript(t, l, 0, response("200 OK", `{}`))
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	check(t, path, "it belongs to uid 65534, not to root")
}

// Ending the agent does not wait for the daemon.
func TestClientCancels(t *testing.T) {
	l, path := listenSocket(t)
	asked := make(chan struct{})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			asked <- struct{}{}
		}
	}()
	c := startClient(t, path)
	under := c.send(prepareCall(60_000))
	<-asked
	begun := time.Now()
	c.call(map[string]any{"op": "stop"})
	if got := <-under; got.Kind != "away" || !strings.Contains(got.Message, "the agent is stopping") {
		t.Errorf("got %+v", got)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// Proxy variables in the agent's environment are ignored, and many threads may call
// concurrently.
func TestClientIsThreadSafe(t *testing.T) {
	l, path := listenSocket(t)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	}()
	for _, name := range []string{"http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	c := startClient(t, path)
	var calls []<-chan callResult
	for range 50 {
		calls = append(calls, c.send(prepareCall(20_000)))
	}
	for _, call := range calls {
		if got := <-call; got.Kind != "ok" {
			t.Errorf("got %+v", got)
		}
	}
}

// A response is accepted completely or rejected.
func TestClientRejectsInvalidResponses(t *testing.T) {
	tests := []struct{ name, answer, says string }{ // says is "" for a valid answer
		{"all empty", `{}`, ""},
		{"nulls", `{"devices":null,"nodes":null,"mounts":null,"environment":null}`, ""},
		{"fields of later", `{"devices":["GPU-a"],"later":{"a":[1]},"nodes":[{"path":"/dev/nvidia0","major":195,"minor":0,"later":1}]}`, ""},
		{"the largest numbers", `{"nodes":[{"path":"/dev/x","major":4095,"minor":1048575}]}`, ""},
		{"an equals sign in a value", `{"environment":{"A":"b=c"}}`, ""},
		{"a list", `[]`, "the answer is no object"},
		{"a string", `"x"`, "the answer is no object"},
		{"two answers", `{}{}`, "the answer is no JSON"},
		{"a comment", `{/**/}`, "the answer is no JSON"},
		{"no UTF-8", "{\"devices\":[\"\xff\"]}", "the answer is no JSON"},
		{"devices: an object", `{"devices":{}}`, "devices is no list"},
		{"devices: a number", `{"devices":["a",7]}`, "devices[1] is no string"},
		{"devices: empty", `{"devices":[""]}`, "devices[0] is empty"},
		{"nodes: a string", `{"nodes":["/dev/nvidia0"]}`, "nodes[0].path is missing"},
		{"nodes: no major", `{"nodes":[{"path":"/dev/nvidia0","minor":0}]}`, "nodes[0].major is no number from 0 to 4095"},
		{"nodes: negative", `{"nodes":[{"path":"/dev/nvidia0","major":195,"minor":-1}]}`, "nodes[0].minor is no number"},
		{"nodes: a fraction", `{"nodes":[{"path":"/dev/nvidia0","major":195.5,"minor":0}]}`, "nodes[0].major is no number"},
		{"nodes: too large", `{"nodes":[{"path":"/dev/nvidia0","major":4096,"minor":0}]}`, "nodes[0].major is no number"},
		{"nodes: far too large", `{"nodes":[{"path":"/dev/nvidia0","major":195,"minor":99999999999999999999999}]}`, "nodes[0].minor is no number"},
		{"nodes: elsewhere", `{"nodes":[{"path":"/etc/passwd","major":195,"minor":0}]}`, "nodes[0].path is no plain path below /dev/"},
		{"nodes: /dev itself", `{"nodes":[{"path":"/dev/","major":195,"minor":0}]}`, "no plain path"},
		{"nodes: up", `{"nodes":[{"path":"/dev/../etc/passwd","major":195,"minor":0}]}`, "no plain path"},
		{"nodes: up at the end", `{"nodes":[{"path":"/dev/a/..","major":195,"minor":0}]}`, "no plain path"},
		{"nodes: a zero byte", `{"nodes":[{"path":"/dev/a\u0000b","major":195,"minor":0}]}`, "nodes[0].path is empty, or has a zero byte"},
		{"nodes: a long path", `{"nodes":[{"path":"/dev/` + strings.Repeat("x", 5000) + `","major":195,"minor":0}]}`, "no plain path"},
		{"mounts: relative", `{"mounts":[{"source":"etc","target":"/usr/local/nvidia","read_only":true}]}`, "mounts[0].source is no plain path below /"},
		{"mounts: onto the root", `{"mounts":[{"source":"/a","target":"/"}]}`, "mounts[0].target is no plain path"},
		{"mounts: up", `{"mounts":[{"source":"/a","target":"/../b"}]}`, "mounts[0].target is no plain path"},
		{"mounts: neither", `{"mounts":[{"source":"/a","target":"/b","read_only":1}]}`, "mounts[0].read_only is neither true nor false"},
		{"mounts: no target", `{"mounts":[{"source":"/a"}]}`, "mounts[0].target is missing"},
		{"environment: a list", `{"environment":["A=b"]}`, "environment is no object"},
		{"environment: a number", `{"environment":{"A":1}}`, "environment.A is no string"},
		{"environment: an odd name", `{"environment":{"A=B":"c"}}`, "environment is a name that no variable can have"},
		{"environment: a zero byte", `{"environment":{"A":"b\u0000"}}`, "environment.A is no string without zero bytes"},
		{"deep", strings.Repeat("[", 500_000), "the answer is no JSON"},
		{"deep and whole", `{"devices":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`, "devices[0] is no string"},
	}
	answers := make(chan string, 1)
	c := startClient(t, answerOf(t, answers))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answers <- tt.answer
			got := c.call(prepareCall(20_000))
			if tt.says == "" && got.Kind != "ok" || tt.says != "" && (got.Kind != "broken" || !strings.Contains(got.Message, tt.says)) {
				t.Errorf("got %s: %.300s\nwant: %s", got.Kind, got.Message, tt.says)
			}
		})
	}
}

// answerOf returns the socket of a server that sends the channel's answers.
func answerOf(t *testing.T, answers <-chan string) string {
	l, path := listenSocket(t)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, <-answers) }))
	}()
	return path
}

// Valid responses with a few bytes changed: the client accepts or rejects each, and the
// sanitizers find nothing.
func TestClientSurvivesMutatedResponses(t *testing.T) {
	const whole = `{"devices":["GPU-a","GPU-b"],"nodes":[{"path":"/dev/nvidia0","major":195,"minor":0}],"mounts":[{"source":"/v","target":"/usr/local/nvidia","read_only":true}],"environment":{"A":"b","C":""}}`
	cases := 600
	if testneeds.IsLongRun() {
		cases = 3000
	}
	const alphabet = `{}[]",:0129.eE+-\nulltrefasx` + "\x00\xff/ \t"
	answers := make(chan string, 1)
	c := startClient(t, answerOf(t, answers))
	random := rand.New(rand.NewPCG(4, 2))
	kinds := map[string]int{}
	for range cases {
		text := []byte(whole)
		for range 1 + random.IntN(3) {
			at, b := random.IntN(len(text)), alphabet[random.IntN(len(alphabet))]
			switch random.IntN(4) {
			case 0:
				text[at] = b
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				text = append(text[:at], append([]byte{b}, text[at:]...)...)
			case 3:
				text = append(text[:at], bytes.Repeat(text[at:], 2)...)
			}
		}
		answers <- string(text)
		got := c.call(prepareCall(20_000))
		kinds[got.Kind]++
		if got.Kind != "ok" && got.Kind != "broken" {
			t.Fatalf("%q gave %+v", text, got)
		}
		if valid := json.Valid(text); got.Kind == "ok" && !valid {
			t.Errorf("took %q", text)
		}
	}
	if kinds["ok"] < cases/30 || kinds["broken"] < cases/30 {
		t.Errorf("got %v: the mutations are one-sided", kinds)
	}
}

func TestResources(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       string
	}{
		{"nothing in nothing", `[]`, `[]`, "yes"},
		{"nothing in some", `[{"name":"gpus","scalar":1}]`, `[]`, "yes"},
		{"some in nothing", `[]`, `[{"name":"gpus","scalar":1}]`, "no"},
		{"nought is nothing", `[]`, `[{"name":"gpus","scalar":0},{"name":"gpu_ids","set":[]},{"name":"gpu_ports","ranges":[]}]`, "yes"},
		{"less", `[{"name":"gpus","scalar":2}]`, `[{"name":"gpus","scalar":1.999}]`, "yes"},
		{"more", `[{"name":"gpus","scalar":2}]`, `[{"name":"gpus","scalar":2.001}]`, "no"},
		{"parts add up", `[{"name":"gpus","scalar":1},{"name":"gpus","scalar":1}]`, `[{"name":"gpus","scalar":2}]`, "yes"},
		{"another name", `[{"name":"gpus","scalar":2}]`, `[{"name":"gpu0.mem","scalar":1}]`, "no"},
		{"a subset", `[{"name":"gpu_ids","set":["a","b"]}]`, `[{"name":"gpu_ids","set":["b"]}]`, "yes"},
		{"another of one", `[{"name":"gpu_ids","set":["a"]}]`, `[{"name":"gpu_ids","set":["b"]}]`, "no"},
		{"parts of a set", `[{"name":"gpu_ids","set":["a"]},{"name":"gpu_ids","set":["b"]}]`, `[{"name":"gpu_ids","set":["a","b"]}]`, "yes"},
		{"another kind", `[{"name":"gpus","scalar":2}]`, `[{"name":"gpus","set":["a"]}]`, "no"},
		{"within joined ranges", `[{"name":"gpu_ports","ranges":[{"begin":6,"end":9},{"begin":1,"end":5}]}]`,
			`[{"name":"gpu_ports","ranges":[{"begin":4,"end":7}]}]`, "yes"},
		{"across a gap", `[{"name":"gpu_ports","ranges":[{"begin":1,"end":5},{"begin":7,"end":9}]}]`, `[{"name":"gpu_ports","ranges":[{"begin":4,"end":7}]}]`, "no"},
		{"one less", `[{"name":"gpus","scalar":2},{"name":"gpu_ids","set":["a"]}]`, `[{"name":"gpus","scalar":1},{"name":"gpu_ids","set":["a"]}]`, "yes"},
		{"one more, one less", `[{"name":"gpus","scalar":2},{"name":"gpu_ids","set":["a"]}]`,
			`[{"name":"gpus","scalar":1},{"name":"gpu_ids","set":["a","b"]}]`, "no"},
	}
	c := startClient(t, "/nonexistent")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := c.call(map[string]any{"op": "contains", "body": map[string]any{"a": json.RawMessage(tt.a), "b": json.RawMessage(tt.b)}})
			if got.Kind != tt.want {
				t.Errorf("a contains b: %s, want %s", got.Kind, tt.want)
			}
		})
	}
}
