package master

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// post sends a raw request.
func post(t *testing.T, url, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

const (
	asJSON     = "application/json"
	subscribeJ = `{"type":"SUBSCRIBE","subscribe":{"framework_info":{"user":"root","name":"raw","failover_timeout":60,
		"roles":["*"],"capabilities":[{"type":"MULTI_ROLE"},{"type":"GPU_RESOURCES"}]}}}`
)

// record reads one RecordIO record of JSON.
func record(t *testing.T, r *bufio.Reader) map[string]any {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return out
}

func TestRawHTTP(t *testing.T) {
	m := New(MasterConfig{})
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	defer server.CloseClientConnections()
	url := server.URL + "/api/v1/scheduler"

	stream := post(t, url, subscribeJ, "Content-Type", asJSON, "Accept", asJSON)
	id := stream.Header.Get("Mesos-Stream-Id")
	if stream.StatusCode != http.StatusOK || id == "" || stream.Header.Get("Content-Type") != asJSON {
		t.Fatalf("got %d %v", stream.StatusCode, stream.Header)
	}
	events := bufio.NewReader(stream.Body)
	first := record(t, events)
	framework := first["subscribed"].(map[string]any)["framework_id"].(map[string]any)["value"].(string)
	if got := record(t, events)["type"]; got != "HEARTBEAT" {
		t.Errorf("got %v after SUBSCRIBED", got)
	}
	call := func(framework string, rest string) string {
		return `{"framework_id":{"value":"` + framework + `"},` + rest + `}`
	}
	for _, tc := range []struct {
		name, body string
		headers    []string
		status     int
		message    string
	}{
		{"no content type", subscribeJ, nil, 400, "Content-Type"},
		{"other content type", subscribeJ, []string{"Content-Type", "text/plain"}, 415, "Content-Type"},
		{"not acceptable", subscribeJ, []string{"Content-Type", asJSON, "Accept", "text/html"}, 406, "Accept"},
		{"no JSON", `{`, []string{"Content-Type", asJSON}, 400, "parse"},
		{"no protobuf", `{`, []string{"Content-Type", "application/x-protobuf"}, 400, "parse"},
		{"subscribe with stream id", subscribeJ, []string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 400, "should not include"},
		{"subscribe without info", `{"type":"SUBSCRIBE","subscribe":{}}`, []string{"Content-Type", asJSON}, 400, "framework_info"},
		{"differing ids", strings.Replace(subscribeJ, `{"type"`, `{"framework_id":{"value":"x"},"type"`, 1), []string{"Content-Type", asJSON}, 400, "differs"},
		{"no framework id", `{"type":"REVIVE"}`, []string{"Content-Type", asJSON}, 400, "framework_id"},
		{"unknown framework", call("unknown", `"type":"REVIVE"`), []string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 400, "cannot be found"},
		{"no stream id", call(framework, `"type":"REVIVE"`), []string{"Content-Type", asJSON}, 400, "Mesos-Stream-Id"},
		{"other stream id", call(framework, `"type":"REVIVE"`), []string{"Content-Type", asJSON, "Mesos-Stream-Id", "x"}, 400, "didn't match"},
		{"missing part", call(framework, `"type":"KILL"`), []string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 400, "'kill'"},
		{"short uuid", call(framework, `"type":"ACKNOWLEDGE","acknowledge":{"agent_id":{"value":"a"},"task_id":{"value":"t"},"uuid":"AAAA"}`),
			[]string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 400, "uuid"},
		{"unknown type", call(framework, `"type":"UNKNOWN"`), []string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 501, "not implemented"},
		{"fine", call(framework, `"type":"REVIVE"`), []string{"Content-Type", asJSON, "Mesos-Stream-Id", id}, 202, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := post(t, url, tc.body, tc.headers...)
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != tc.status || !strings.Contains(string(body), tc.message) {
				t.Errorf("got %d %q (%v), want %d with %q", answer.StatusCode, body, err, tc.status, tc.message)
			}
		})
	}
	if answer, err := http.Get(url); err != nil || answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: got %v (%v), want 405", answer.Status, err)
	}
	register(t, m, gpuAgent)
	got := record(t, events)
	if got["type"] != "OFFERS" {
		t.Errorf("got %v", got)
	}
	if nulls(got) {
		t.Errorf("Mesos leaves out what is not there; got null in %v", got)
	}
}

func nulls(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), nulls)
	case []any:
		return slices.ContainsFunc(v, nulls)
	}
	return false
}

func TestNotSubscribedIsForbidden(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	c.disconnect()
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	answer := post(t, server.URL+"/api/v1/scheduler", `{"framework_id":{"value":"`+c.id.Value+`"},"type":"REVIVE"}`, "Content-Type", asJSON)
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("got %v, want 403", answer.Status)
	}
}

func TestRedirectNamesThisMaster(t *testing.T) {
	server := httptest.NewServer(New(MasterConfig{Addr: "127.0.0.1:7"}).Handler())
	defer server.Close()
	answer := post(t, server.URL+"/master/redirect", "")
	if answer.StatusCode != http.StatusTemporaryRedirect || answer.Header.Get("Location") != "//127.0.0.1:7" {
		t.Errorf("got %v %v", answer.Status, answer.Header)
	}
}
