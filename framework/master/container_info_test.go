package master

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// encodeAsJSON returns a Mesos message as JSON.
func encodeAsJSON(t *testing.T, m any) string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compareJSON compares JSON texts, ignoring the order of fields and null values in got.
func compareJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v in %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	if diff := cmp.Diff(w, dropUnset(g)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// dropUnset removes fields that are not set: in mesos-go's JSON, empty lists are null.
func dropUnset(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			if v[k] = dropUnset(child); child == nil {
				delete(v, k)
			}
		}
	case []any:
		for i := range v {
			v[i] = dropUnset(v[i])
		}
	}
	return v
}

func TestConvertContainer(t *testing.T) {
	docker := func(c job.Container) job.Spec {
		return job.Spec{Image: "i", Containerizer: job.Docker, Container: c}
	}
	mesosTask := func(c job.Container) job.Spec {
		return job.Spec{Image: "i", Containerizer: job.Mesos, Container: c}
	}
	volumes := []job.Volume{{Source: "/a", Target: "/b", ReadOnly: true}, {Source: "n", Target: "/c", Driver: "nfs"}, {Source: "m", Target: "/d"}}
	for _, c := range []struct {
		name  string
		spec  job.Spec
		ports []int
		want  string
	}{
		{"the agent's processes", job.Spec{Containerizer: job.Mesos}, nil, `null`},
		{"limits without an image", job.Spec{Containerizer: job.Mesos, Container: job.Container{Ulimits: []job.Ulimit{{Name: "nofile", Soft: 5, Hard: 6}}}}, nil,
			`{"type":"MESOS","rlimit_info":{"rlimits":[{"type":"RLMT_NOFILE","soft":5,"hard":6}]}}`},
		{"plain docker", docker(job.Container{}), nil, `{"type":"DOCKER","docker":{"image":"i","network":"HOST"}}`},
		{"docker on the host's network", docker(job.Container{Network: job.HostNetwork, Ports: make([]job.Port, 1)}),
			[]int{31000}, `{"type":"DOCKER","docker":{"image":"i","network":"HOST"}}`},
		{"docker on a bridge", docker(job.Container{Network: job.BridgeNetwork, Ports: []job.Port{{Container: 80}, {Protocol: job.UDP}}}), []int{31000, 31005},
			`{"type":"DOCKER","docker":{"image":"i","network":"BRIDGE","port_mappings":[{"host_port":31000,"container_port":80},{"host_port":31005,"container_port":31005,"protocol":"udp"}]}}`},
		{"a gang's port on a bridge", docker(job.Container{Network: job.BridgeNetwork}), []int{31007},
			`{"type":"DOCKER","docker":{"image":"i","network":"BRIDGE","port_mappings":[{"host_port":31007,"container_port":31007}]}}`},
		{"docker on a network by name", docker(job.Container{Network: "weave"}), nil,
			`{"type":"DOCKER","docker":{"image":"i","network":"USER"},"network_infos":[{"name":"weave"}]}`},
		{"docker without a network", docker(job.Container{Network: job.NoNetwork}), nil, `{"type":"DOCKER","docker":{"image":"i","network":"NONE"}}`},
		{"docker's parameters", docker(job.Container{
			ForcePull: true,
			ShmMiB:    1.5,
			IPC:       job.HostIPC,
			Ulimits:   []job.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}, {Name: "stack", Soft: 1, Hard: 2}},
		}), nil,
			`{"type":"DOCKER","docker":{"image":"i","network":"HOST","force_pull_image":true,"parameters":[
				{"key":"shm-size","value":"1572864"},{"key":"ipc","value":"host"},{"key":"ulimit","value":"memlock=-1:-1"},{"key":"ulimit","value":"stack=1:2"}]}}`},
		{"docker's volumes", docker(job.Container{Volumes: volumes}), nil,
			`{"type":"DOCKER","docker":{"image":"i","network":"HOST"},"volumes":[{"mode":"RO","container_path":"/b","host_path":"/a"},
				{"mode":"RW","container_path":"/c","source":{"type":"DOCKER_VOLUME","docker_volume":{"name":"n","driver":"nfs"}}},
				{"mode":"RW","container_path":"/d","source":{"type":"DOCKER_VOLUME","docker_volume":{"name":"m"}}}]}`},
		{"plain mesos", mesosTask(job.Container{}), nil, `{"type":"MESOS","mesos":{"image":{"type":"DOCKER","docker":{"name":"i"}}}}`},
		{"mesos, all it has", mesosTask(job.Container{
			ForcePull: true,
			ShmMiB:    8,
			Volumes:   volumes[:1],
			Ulimits:   []job.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}},
			Ports:     make([]job.Port, 1),
		}), []int{31000},
			`{"type":"MESOS","mesos":{"image":{"type":"DOCKER","docker":{"name":"i"},"cached":false}},"volumes":[{"mode":"RO","container_path":"/b","host_path":"/a"}],
				"linux_info":{"ipc_mode":"PRIVATE","shm_size":8},"rlimit_info":{"rlimits":[{"type":"RLMT_MEMLOCK","soft":18446744073709551615,"hard":18446744073709551615}]}}`},
	} {
		t.Run(c.name, func(t *testing.T) { compareJSON(t, encodeAsJSON(t, convertContainer(&c.spec, c.ports)), c.want) })
	}
}

// TestExecutorJoinsCNINetwork checks that the executor's container, which the task's shares, joins the network.
func TestExecutorJoinsCNINetwork(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  job.Spec
		ports []int
		want  string
	}{
		{"the host's network", job.Spec{Containerizer: job.Mesos}, nil, `null`},
		{"the host's network by name", job.Spec{Containerizer: job.Mesos, Container: job.Container{Network: job.HostNetwork}}, nil, `null`},
		{"docker's network", job.Spec{Containerizer: job.Docker, Container: job.Container{Network: "weave"}}, nil, `null`},
		{"without an image", job.Spec{Containerizer: job.Mesos, Container: job.Container{Network: "front"}}, nil,
			`{"type":"MESOS","network_infos":[{"name":"front"}]}`},
		{"labels and ports", job.Spec{Image: "i", Containerizer: job.Mesos, Container: job.Container{
			Network: "front", NetworkLabels: map[string]string{"b": "", "a": "1"}, Ports: []job.Port{{Container: 80}, {Protocol: job.UDP}},
		}}, []int{31000, 31005, 31007},
			`{"type":"MESOS","network_infos":[{"name":"front","labels":{"labels":[{"key":"a","value":"1"},{"key":"b","value":""}]},
				"port_mappings":[{"host_port":31000,"container_port":80},{"host_port":31005,"container_port":31005,"protocol":"udp"},{"host_port":31007,"container_port":31007}]}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			compareJSON(t, encodeAsJSON(t, executorContainer(&c.spec, c.ports)), c.want)
			l := sched.TaskLaunch{TaskID: "a.0.1", Spec: &c.spec, Ports: c.ports}
			compareJSON(t, encodeAsJSON(t, new(Client).buildExecutor(l, nil, "f", nil, nil).Container), c.want)
		})
	}
}

func TestEveryUlimitHasAMesosName(t *testing.T) {
	for _, name := range []string{
		"core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
		"rttime", "sigpending", "stack",
	} {
		got := convertUlimits([]job.Ulimit{{Name: name}}).Rlimits[0].Type
		if got == mesos.RLimitInfo_RLimit_UNKNOWN {
			t.Errorf("%s is unknown to Mesos", name)
		}
	}
}

func TestConvertChecks(t *testing.T) {
	times := job.Check{Delay: time.Second, Interval: 2 * time.Second, Timeout: 1500 * time.Millisecond}
	with := func(change func(*job.Check)) job.Check {
		c := times
		change(&c)
		return c
	}
	http := with(func(c *job.Check) { c.HTTP = &job.HTTPCheck{Path: "/h", CheckPort: job.CheckPort{Index: 1}} })
	tls := with(func(c *job.Check) {
		c.HTTP = &job.HTTPCheck{Path: "/", TLS: true, CheckPort: job.CheckPort{Port: 443}}
	})
	tcp := with(func(c *job.Check) { c.TCP = &job.TCPCheck{} })
	command := with(func(c *job.Check) { c.Command = []string{"probe", "-v"} })
	const in = `"delay_seconds":1,"interval_seconds":2,"timeout_seconds":1.5`
	const health = in + `,"grace_period_seconds":60,"consecutive_failures":3`
	host := job.Container{Ports: make([]job.Port, 2)}
	bridge := job.Container{Network: job.BridgeNetwork, Ports: []job.Port{{Container: 80}, {}}}
	for _, c := range []struct {
		name          string
		containerizer job.Containerizer
		container     job.Container
		check         job.Check
		health, plain string
	}{
		{"http on the host's network", job.Docker, host, http,
			`{"type":"HTTP","http":{"scheme":"http","port":31001,"path":"/h"},` + health + `}`,
			`{"type":"HTTP","http":{"port":31001,"path":"/h"},` + in + `}`},
		{"http on a bridge, the host's number", job.Docker, bridge, http,
			`{"type":"HTTP","http":{"scheme":"http","port":31001,"path":"/h"},` + health + `}`,
			`{"type":"HTTP","http":{"port":31001,"path":"/h"},` + in + `}`},
		{"https on a port", job.Mesos, host, tls, `{"type":"HTTP","http":{"scheme":"https","port":443,"path":"/"},` + health + `}`, ""},
		{"tcp on the host's network", job.Mesos, host, tcp, `{"type":"TCP","tcp":{"port":31000},` + health + `}`, `{"type":"TCP","tcp":{"port":31000},` + in + `}`},
		{"tcp on a bridge, the container's number", job.Docker, bridge, tcp, `{"type":"TCP","tcp":{"port":80},` + health + `}`,
			`{"type":"TCP","tcp":{"port":80},` + in + `}`},
		{"command in docker", job.Docker, host, command, `{"type":"COMMAND","command":{"shell":false,"value":"probe","arguments":["-v"]},` + health + `}`,
			`{"type":"COMMAND","command":{"command":{"shell":false,"value":"probe","arguments":["-v"]}},` + in + `}`},
		{"command in mesos", job.Mesos, host, command, `{"type":"COMMAND","command":{"shell":false,"value":"probe","arguments":["probe","-v"]},` + health + `}`,
			`{"type":"COMMAND","command":{"command":{"shell":false,"value":"probe","arguments":["probe","-v"]}},` + in + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := job.Spec{Containerizer: c.containerizer, Container: c.container}
			s.HealthCheck, s.Check = &job.HealthCheck{Check: c.check, Grace: time.Minute, Failures: 3}, &c.check
			ports := []int{31000, 31001}
			compareJSON(t, encodeAsJSON(t, convertHealthCheck(&s, s.HealthCheck, ports)), c.health)
			if c.plain != "" {
				compareJSON(t, encodeAsJSON(t, convertCheck(&s, ports)), c.plain)
			}
		})
	}
	never := job.Spec{Containerizer: job.Mesos, Container: job.Container{HealthCheck: &job.HealthCheck{Check: command, Failures: job.Unlimited}}}
	if got := convertHealthCheck(&never, never.HealthCheck, nil).GetConsecutiveFailures(); got != 0 {
		t.Errorf("never is %d failures to Mesos, want 0", got)
	}
	none := &job.Spec{}
	if first, more, err := convertHealthChecks(none, nil); first != nil || more != nil || err != nil || convertCheck(none, nil) != nil {
		t.Error("no health check was converted to one")
	}
}

// TestSeveralHealthChecks checks that TaskInfo contains the first health check and the task's data the others, with
// the assigned ports.
func TestSeveralHealthChecks(t *testing.T) {
	s := &job.Spec{Name: "t", CPUs: 1, Containerizer: job.Mesos, Container: job.Container{Ports: make([]job.Port, 2)}}
	s.HealthCheck = &job.HealthCheck{Check: job.Check{TCP: &job.TCPCheck{}}, Failures: 1}
	s.MoreHealthChecks = []job.HealthCheck{
		{Check: job.Check{HTTP: &job.HTTPCheck{Path: "/h", TLS: true, CheckPort: job.CheckPort{Index: 1}}, Interval: time.Second}, Grace: time.Minute, Failures: 5},
		{Check: job.Check{Command: []string{"probe", "-v"}}, Failures: job.Unlimited},
	}
	accept := sched.AcceptOffers{AgentID: "a1", Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: s, Ports: []int{31000, 31001}}}}
	tasks, _, err := newTestClient(t).buildTasks(accept, []mesos.Offer{newOffer("o1", "r", parseResource("cpus:2"), parseResource("ports:[31000-31002]"))}, "f")
	if err != nil {
		t.Fatal(err)
	}
	if got := tasks[0].HealthCheck.GetTCP().GetPort(); got != 31000 {
		t.Errorf("the TaskInfo's check has port %d, want 31000", got)
	}
	launch, ok, err := job.ParseLaunch(tasks[0].Data)
	if err != nil || !ok || len(launch.HealthChecks) != 2 {
		t.Fatalf("launch %+v, %t, %v", launch, ok, err)
	}
	for i, port := range []uint32{31001, 0} {
		var got mesos.HealthCheck
		if err := json.Unmarshal(launch.HealthChecks[i], &got); err != nil {
			t.Fatal(err)
		}
		want := convertHealthCheck(s, &s.MoreHealthChecks[i], []int{31000, 31001})
		if !got.Equal(want) || got.GetHTTP().GetPort() != port {
			t.Errorf("health check %d: got %s, want %s", i+2, encodeAsJSON(t, &got), encodeAsJSON(t, want))
		}
	}
}

// TestAcceptSurvivesEncoding checks that an ACCEPT does not change in either encoding that a master reads.
func TestAcceptSurvivesEncoding(t *testing.T) {
	for _, containerizer := range []job.Containerizer{job.Docker, job.Mesos} {
		s := &job.Spec{Name: "t", CPUs: 1, Image: "i", Containerizer: containerizer, Container: job.Container{
			Volumes: []job.Volume{{Source: "/a", Target: "/b"}}, Ports: make([]job.Port, 1), ForcePull: true, ShmMiB: 8,
			Ulimits: []job.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}}, Labels: map[string]string{"team": "vision", "empty": ""},
			HealthCheck: &job.HealthCheck{Check: job.Check{HTTP: &job.HTTPCheck{Path: "/"}}, Failures: 1}, Check: &job.Check{Command: []string{"probe"}},
		}}
		if containerizer == job.Docker {
			s.Network, s.IPC, s.Volumes = job.BridgeNetwork, job.PrivateIPC, append(s.Volumes, job.Volume{Source: "n", Target: "/n"})
		}
		accept := sched.AcceptOffers{AgentID: "a1", Launches: []sched.TaskLaunch{{TaskID: "t1", Spec: s, Ports: []int{31000}}}}
		tasks, _, err := newTestClient(t).buildTasks(accept, []mesos.Offer{newOffer("o1", "r", parseResource("cpus:2"), parseResource("ports:[31000-31002]"))}, "f")
		if err != nil {
			t.Fatal(err)
		}
		sent := calls.Accept(calls.OfferOperations{calls.OpLaunch(tasks...)}.WithOffers(mesos.OfferID{Value: "o1"}))
		packed, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var binary, text scheduler.Call
		if err := proto.Unmarshal(packed, &binary); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(encodeAsJSON(t, sent)), &text); err != nil {
			t.Fatal(err)
		}
		if !binary.Equal(sent) {
			t.Errorf("%s through protobuf:\n%s", containerizer, cmp.Diff(encodeAsJSON(t, sent), encodeAsJSON(t, &binary)))
		}
		if !text.Equal(sent) {
			t.Errorf("%s through JSON:\n%s", containerizer, cmp.Diff(encodeAsJSON(t, sent), encodeAsJSON(t, &text)))
		}
		var keys []string
		for _, l := range tasks[0].Labels.Labels {
			keys = append(keys, l.Key)
		}
		if diff := cmp.Diff([]string{jobLabel, indexLabel, "empty", "team"}, keys); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
	}
}

func TestHealthInAnUpdate(t *testing.T) {
	running := mesos.TASK_RUNNING
	yes, no := true, false
	for _, c := range []struct {
		name    string
		status  mesos.TaskStatus
		healthy *bool
		check   string
	}{
		{"neither", mesos.TaskStatus{}, nil, ""},
		{"healthy", mesos.TaskStatus{Healthy: &yes}, &yes, ""},
		{"unhealthy", mesos.TaskStatus{Healthy: &no}, &no, ""},
		{"command", mesos.TaskStatus{CheckStatus: &mesos.CheckStatusInfo{Command: &mesos.CheckStatusInfo_Command{ExitCode: new(int32(3))}}}, nil, "exit status 3"},
		{"http", mesos.TaskStatus{CheckStatus: &mesos.CheckStatusInfo{HTTP: &mesos.CheckStatusInfo_Http{StatusCode: new(uint32(503))}}}, nil, "HTTP status 503"},
		{"tcp", mesos.TaskStatus{CheckStatus: &mesos.CheckStatusInfo{TCP: &mesos.CheckStatusInfo_Tcp{Succeeded: &yes}}}, nil, "connected"},
		{"no tcp", mesos.TaskStatus{CheckStatus: &mesos.CheckStatusInfo{TCP: &mesos.CheckStatusInfo_Tcp{Succeeded: &no}}}, nil, "not connected"},
		{"not yet", mesos.TaskStatus{CheckStatus: &mesos.CheckStatusInfo{HTTP: &mesos.CheckStatusInfo_Http{}}}, nil, "no result"},
	} {
		c.status.State = &running
		u := convertUpdate(&c.status)
		if diff := cmp.Diff(c.healthy, u.Healthy); diff != "" || u.Check != c.check || u.State != job.Running {
			t.Errorf("%s: state %s, check %q, healthy %s", c.name, u.State, u.Check, diff)
		}
	}
}

// TestHealthFailureInAnUpdate checks that the executor's label is read, and that another value is ignored.
func TestHealthFailureInAnUpdate(t *testing.T) {
	running, failure := mesos.TASK_RUNNING, job.HealthFailure{Check: 2, Failures: 3, Cause: "status 500"}
	for value, want := range map[string]*job.HealthFailure{failure.Encode(): &failure, "3": nil} {
		u := convertUpdate(&mesos.TaskStatus{State: &running, Labels: &mesos.Labels{Labels: []mesos.Label{{Key: job.HealthFailureLabel, Value: &value}}}})
		if diff := cmp.Diff(want, u.HealthFailure); diff != "" {
			t.Errorf("%s (-want +got):\n%s", value, diff)
		}
	}
}

// TestContainerAddresses checks that the addresses of all networks are returned once each, in order.
func TestContainerAddresses(t *testing.T) {
	at := func(ips ...string) (n mesos.NetworkInfo) {
		for _, ip := range ips {
			n.IPAddresses = append(n.IPAddresses, mesos.NetworkInfo_IPAddress{IPAddress: &ip})
		}
		return n
	}
	for name, c := range map[string]struct {
		status *mesos.ContainerStatus
		want   []string
	}{
		"none told":  {nil, nil},
		"no address": {&mesos.ContainerStatus{NetworkInfos: []mesos.NetworkInfo{{IPAddresses: make([]mesos.NetworkInfo_IPAddress, 1)}}}, nil},
		"two of them": {&mesos.ContainerStatus{NetworkInfos: []mesos.NetworkInfo{
			at("172.17.0.2", "fd00::2"), at("172.17.0.2", "10.1.0.9"),
		}}, []string{"172.17.0.2", "fd00::2", "10.1.0.9"}},
	} {
		got := convertUpdate(&mesos.TaskStatus{State: mesos.TASK_RUNNING.Enum(), ContainerStatus: c.status}).Addresses
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
