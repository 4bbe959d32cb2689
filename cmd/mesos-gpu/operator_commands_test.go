package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// operateOn runs a command line against a scheduler with one fixed response, and returns the
// requests.
func operateOn(t *testing.T, answer string, args ...string) (asked []string, r commandRun) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.EscapedPath(), body)))
		if answer == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	r = commandAt(t, s.URL, args...)
	return asked, r
}

const rolesAnswer = `{"roles":[{"name":"research","weight":2,"order":"fifo","policy":"headroom","backfill":true,"quota":{"V100":8,"*":16},"quota_set":true,"held":{"*":3.5,"V100":3.5},"waiting":2},
	{"name":"a/b","weight":1,"order":"shortest","policy":"binpack","backfill":false,"quota":{},"quota_set":false,"held":{},"waiting":0}]}`

const limitedAnswer = `{"roles":[{"name":"research","weight":1,"quota":{},"held":{"*":5},"waiting":3,"waiting_jobs":7,"waiting_jobs_limit":9,"user_limits":{"each":{"gpus":{"V100":2,"*":4},"waiting_jobs":20,"submissions_per_minute":30},
	"users":[{"user":"alice","limits":{"running_jobs":3,"waiting_jobs":5},"held":{"V100":5,"*":5},"running_jobs":2,"waiting_jobs":4}]}}]}`

const recentAnswer = `{"roles":[{"name":"lab","weight":1,"quota":{},"held":{},"half_life_seconds":86400,"recent":2.5,"users":[{"user":"ann","recent":2.5,"held":0}]},{"name":"prod","weight":1,"quota":{},"held":{}}]}`

const mesosQuotaAnswer = `{"roles":[{"name":"lab","weight":1,"quota":{"*":8},"mesos_quota":{"limit":4,"guarantee":2,"used":3},"held":{"*":1}},{"name":"prod","weight":1,"quota":{},"held":{}}]}`

const deservedAnswer = `{"roles":[{"name":"research","weight":1,"quota":{"*":16},"deserved":{"A100":8},"demanded":{"A100":12,"*":12},"entitled":{"A100":10,"*":10},"held":{"A100":5.5,"*":5.5},"waiting":3},
	{"name":"prod","weight":1,"quota":{},"deserved":{"A100":4},"demanded":{"A100":9,"*":9},"entitled":{"A100":6,"*":6},"held":{"A100":9,"*":9},"waiting":0},
	{"name":"guests","weight":1,"quota":{},"deserved":{},"demanded":{"V100":1,"*":1},"entitled":{"V100":1,"*":1},"held":{"V100":1,"*":1},"waiting":0}]}`

const twoAgentsAnswer = `{"agents":[{"id":"S1","hostname":"gpu1","gpus":4,"gpus_free":2,"cordoned":"new fans"},{"id":"S2","hostname":"gpu2","cordoned":"dust","draining":true}]}`

// If one of several agents does not exist, none is changed.
func TestDrainChecksAllAgentsFirst(t *testing.T) {
	for _, verb := range []string{"cordon", "drain"} {
		asked, r := operateOn(t, twoAgentsAnswer, verb, "gpu1", "--reason", "new", "fans")
		r.expect(t, "",
			"nothing was changed: there is no agent with the id or hostname \"fans\": see mesos-gpu agents\nmesos-gpu: a reason of several words is quoted: --reason \"new fans\"",
			1)
		if slices.ContainsFunc(asked, func(request string) bool { return strings.HasPrefix(request, "POST") }) {
			t.Errorf("%s: requests %q", verb, asked)
		}
	}
}

// Operator commands send the right requests and print the results.
func TestOperatorCommands(t *testing.T) {
	role := `{"name":"a/b","weight":1,"quota":{"V100":8},"quota_set":true,"held":{"V100":9,"*":9},"waiting":0}`
	for _, test := range []struct {
		args   []string
		answer string
		asked  []string
		out    string
	}{
		{[]string{"queue"},
			`{"jobs":[{"position":1,"name":"train","role":"research","priority":3,"submitted":"2020-01-01T00:00:00Z","tasks":4,"waiting":2,"gpus":"2 x A100","reason":"2 of 4 tasks: no agent"}]}`,
			[]string{"GET /v1/queue"}, "1 train research 3 2 of 4 2 x A100 "},
		{[]string{"gpus", "-o", "wide"},
			`{"gpus":[{"uuid":"GPU-a","model":"Tesla","type":"V100","mem_mib":9,"pci":"0000:3b:00.0","agent":"S0","hostname":"gpu1","state":"free"}]}`,
			[]string{"GET /v1/gpus"},
			"HOST TYPE MODEL MEMORY UUID STATE SHARED TASK NOTE PCI AGENT\ngpu1 V100 Tesla 9 MiB GPU-a free - - 0000:3b:00.0 S0\n0 of 1 GPU held\n"},
		{[]string{"quota", "get"}, rolesAnswer, []string{"GET /v1/roles"}, "research V100=8, *=16 (set) V100=3.5, *=3.5 2\na/b none - 0\n"},
		{[]string{"quota", "get", "a/b", "-o", "wide"}, rolesAnswer, []string{"GET /v1/roles"}, "a/b none - 0 1 shortest binpack false\n"},
		{[]string{"quota", "get", "research"}, deservedAnswer, []string{"GET /v1/roles"}, "research *=16 A100=8 A100=12, *=12 A100=10, *=10 A100=5.5, *=5.5 3\n"},
		{[]string{"quota", "explain", "research"}, deservedAnswer, []string{"GET /v1/roles"},
			"A100 8 - 12 10 5.5 0 2.5\n* 8 16 12 10 5.5 0 2.5\nprod A100 5 4 9\nprod * 5 4 9\nguests * 1 0 1\n"},
		{[]string{"quota", "explain", "guests"}, deservedAnswer, []string{"GET /v1/roles"}, "V100 0 - 1 1 1 1 0\n* 0 - 1 1 1 1 0\n"},
		{[]string{"quota", "explain", "research", "-o", "wide"}, rolesAnswer, []string{"GET /v1/roles"}, "V100 0 8 0 3.5 0 0\n* 0 16 0 3.5 0 0\n"},
		{[]string{"quota", "explain", "research"}, limitedAnswer, []string{"GET /v1/roles"},
			"* 0 - 0 5 0 0\nresearch 7 of 9\nalice V100=5, *=5 - 2 of 3 4 of 5 -\n(each other) - V100=2, *=4 0 0 of 20 30\n"},
		{[]string{"quota", "explain", "lab"}, recentAnswer, []string{"GET /v1/roles"}, "* 0 - 0 0 0 0\nlab 24h0m0s 2.5\nann 2.5 0\n"},
		{[]string{"quota", "get"}, recentAnswer, []string{"GET /v1/roles"}, "lab none - 0 2.5\nprod none - 0 -\n"},
		{[]string{"quota", "get"}, mesosQuotaAnswer, []string{"GET /v1/roles"}, "lab *=8 *=1 0 3 of 4\nprod none - 0 -\n"},
		{[]string{"quota", "explain", "lab"}, mesosQuotaAnswer, []string{"GET /v1/roles"}, "* 0 8 0 1 0 0\n4 2 3\n"},
		{[]string{"quota", "set", "a/b", "V100=8"}, role, []string{`PUT /v1/roles/a%2Fb/quota {"quota":"V100=8"}`},
			"role a/b: quota V100=8 (set), held V100=9, *=9\n"},
		{[]string{"quota", "set", "a/b", "none"}, role, []string{`PUT /v1/roles/a%2Fb/quota {"quota":""}`}, "role a/b: "},
		{[]string{"quota", "set", "a/b", "none"}, `{"name":"a/b","quota_set":true}`,
			[]string{`PUT /v1/roles/a%2Fb/quota {"quota":""}`}, "role a/b: quota unlimited (set), held -\n"},
		{[]string{"quota", "unset", "a/b"}, role, []string{`PUT /v1/roles/a%2Fb/quota {"quota":null}`}, "role a/b: "},
		{[]string{"cordon", "gpu1", "S2", "--reason", "new fans"}, twoAgentsAnswer,
			[]string{"GET /v1/agents", `POST /v1/agents/gpu1/cordon {"reason":"new fans"}`, `POST /v1/agents/S2/cordon {"reason":"new fans"}`},
			"agent gpu1: cordoned\nagent S2: cordoned\n"},
		{[]string{"drain", "gpu1"}, "", []string{`POST /v1/agents/gpu1/drain {"reason":""}`}, "agent gpu1: draining\n"},
		{[]string{"uncordon", "gpu1"}, "", []string{`POST /v1/agents/gpu1/uncordon {}`}, "agent gpu1: uncordoned\n"},
		{[]string{"agents"}, twoAgentsAnswer,
			[]string{"GET /v1/agents"}, "S1 gpu1 4 2 - - - - 0 0 MiB cordoned: new fans\nS2 gpu2 0 0 - - - - 0 0 MiB draining: dust\n"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			args := test.args
			if !strings.Contains(test.out, ":") || args[0] == "agents" {
				args = append(args, "--no-headers")
			}
			asked, r := operateOn(t, test.answer, args...)
			if got, want := strings.Join(asked, "\n"), strings.Join(test.asked, "\n"); got != want {
				t.Errorf("it asked\n%s\nwant\n%s", got, want)
			}
			var got strings.Builder
			for line := range strings.Lines(r.out) {
				got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
			}
			if !strings.HasPrefix(got.String(), test.out) || r.status != 0 {
				t.Errorf("status %d, %q and %q", r.status, got.String(), r.err)
			}
		})
	}
	_, r := operateOn(t, strings.Replace(role, "{", `{"warnings":["quota: no agent has H100 yet"],`, 1), "quota", "set", "a/b", "H100=8")
	r.expect(t, "role a/b: quota V100=8 (set), held V100=9, *=9\n", "mesos-gpu: quota: no agent has H100 yet\n", 0)
	for _, verb := range []string{"get", "explain"} {
		_, r = operateOn(t, rolesAnswer, "quota", verb, "unknown")
		r.expect(t, "", `the scheduler has no role "unknown": see mesos-gpu quota get`, 1)
	}
	_, r = operateOn(t, deservedAnswer, "quota", "explain", "guests", "-o", "json")
	if !strings.Contains(r.out, `"borrowed": 1`) || r.status != 0 {
		t.Errorf("quota explain -o json: status %d, %s", r.status, r.out)
	}
	_, r = operateOn(t, rolesAnswer, "quota", "get", "unknown")
	r.expect(t, "", `the scheduler has no role "unknown": see mesos-gpu quota get`, 1)
}

// drain --wait ends when the scheduler has no task on the agent, and with 124 after its timeout.
func TestDrainWaits(t *testing.T) {
	lists := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		state := "KILLING"
		if lists++; lists == 2 {
			state = "WAITING"
		}
		fmt.Fprintf(w, `{"jobs": [{"spec": {"name": "a"}, "tasks": [{"id": "a.0.1.x", "state": %q, "hostname": "gpu1", "agent_id": "S1"}]}]}`, state)
	}))
	t.Cleanup(s.Close)
	commandAt(t, s.URL, "drain", "gpu1", "--wait").expect(t, "agent gpu1: draining\nagent gpu1: drained\n", "", 0)
	commandAt(t, s.URL, "drain", "S1", "--wait", "--timeout", "1ms").expect(t, "agent S1: draining\n", "mesos-gpu: agent S1 is not drained yet: ", 124)
	commandAt(t, s.URL, "drain", "gpu1", "--timeout", "1s").expect(t, "", "--timeout is for --wait", 2)
}
