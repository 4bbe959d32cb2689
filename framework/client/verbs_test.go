package client

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/verbs"
	"mesos-gpu/job"
)

// verbArguments returns the arguments of the methods of verbs.List after the context, by the verb's name.
func verbArguments(t *testing.T) map[string][]any {
	folder := t.TempDir()
	file := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(file, []byte("lr: 0.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const task = "train.0.1.x"
	near, _ := tcpPair(t)
	quota, unset := "V100=8", (*string)(nil)
	role, user := job.HoldTarget{Kind: job.HeldRole, Name: "lab"}, job.HoldTarget{Kind: job.HeldUser, Name: "carol"}
	return map[string][]any{
		"submit a job":        {job.Spec{Name: "train"}},
		"rerun a job":         {"train", api.RerunRequest{}},
		"edit a job":          {"train", map[string]any{"priority": 7}},
		"apply a service":     {job.Spec{Name: "train"}},
		"scale a service":     {"train", 4},
		"hold a job":          {"train", "new data"},
		"release a job":       {"train"},
		"requeue a job":       {"train", api.RequeueRequest{}},
		"kill a job":          {"train"},
		"stop a task":         {task, false},
		"submit a schedule":   {job.Spec{Name: "nightly"}},
		"kill a schedule":     {"nightly"},
		"notifications retry": {"n1"},
		"notifications drop":  {"n1"},
		"hold a role":         {role, api.HoldRequest{}},
		"release a role":      {role},
		"hold a user":         {user, api.HoldRequest{}},
		"release a user":      {user},
		"quota set":           {"lab", &quota},
		"quota unset":         {"lab", unset},
		"cordon an agent":     {"gpu1", "new fans"},
		"uncordon an agent":   {"gpu1"},
		"drain an agent":      {"gpu1", "new fans"},

		"exec in a task":           {"train", 0, api.ExecRequest{Argv: []string{"nvidia-smi"}}, api.Terminal{}},
		"attach to a job":          {"train", 0, api.WindowSize{}, api.Terminal{}},
		"port-forward to a task":   {"train", 0, "http", near},
		"notebook of a job":        {"train", 0, ""},
		"cp a file into a task":    {task, file, "", CopyOptions{}},
		"cp a folder into a task":  {task, folder, "", CopyOptions{}},
		"cp a file out of a task":  {task, "log.txt"},
		"ls a sandbox":             {task, ""},
		"artifacts of a job":       {"train"},
		"logs of a task":           {task, OutputOptions{}},
		"ps":                       {},
		"ps of the runs of a job":  {"train"},
		"describe a job":           {"train"},
		"describe a schedule":      {"nightly"},
		"events of a job":          {"train", 10},
		"events of all jobs":       {""},
		"schedules":                {},
		"notifications":            {api.NotificationState("")},
		"queue":                    {},
		"agents":                   {},
		"gpus":                     {},
		"top":                      {""},
		"usage of jobs that ended": {api.AccountingQuery{}},
		"usage of attempts":        {api.AccountingQuery{}},
		"quota get":                {},
		"holds":                    {},
	}
}

// TestVerbsAreMethods checks that the method of each verb sends the verb's request.
func TestVerbsAreMethods(t *testing.T) {
	var requests []string
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusForbidden)
	})
	arguments := verbArguments(t)
	for _, v := range verbs.List() {
		method := reflect.ValueOf(c).MethodByName(v.Method)
		if !method.IsValid() {
			t.Errorf("%s: the client has no method %s", v.Name, v.Method)
			continue
		}
		requests = nil
		in := []reflect.Value{reflect.ValueOf(context.Context(t.Context()))}
		for _, argument := range arguments[v.Name] {
			in = append(in, reflect.ValueOf(argument))
		}
		if list := method.Call(in)[0]; list.Kind() == reflect.Func {
			for range list.Seq2() { // requests are sent while it is read
			}
		}
		if !slices.ContainsFunc(requests, v.IsRequest) {
			t.Errorf("%s: %s sent %q, want %s", v.Name, v.Method, requests, v.Request)
		}
	}
}
