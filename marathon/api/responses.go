package api

import (
	"time"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Time is encoded as in Marathon: UTC, with milliseconds.
type Time struct{ time.Time }

const timestampLayout = "2006-01-02T15:04:05.000Z"

func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timestampLayout) + `"`), nil
}

// AppTask is a placed instance. State is Mesos's: TASK_RUNNING.
type AppTask struct {
	ID      string `json:"id"`
	AppID   string `json:"appId"`
	Host    string `json:"host"`
	SlaveID string `json:"slaveId,omitempty"`
	State   string `json:"state"`
	// Ports are host ports. ServicePorts are copied from the app.
	Ports        []int              `json:"ports"`
	ServicePorts []int              `json:"servicePorts"`
	IPAddresses  []deploy.IPAddress `json:"ipAddresses"`
	StagedAt     Time               `json:"stagedAt,omitzero"`
	StartedAt    Time               `json:"startedAt,omitzero"`
	// Version is the version of the app that the task runs.
	Version            string         `json:"version,omitempty"`
	HealthCheckResults []HealthResult `json:"healthCheckResults"`
	// LocalVolumes is always empty: there are no persistent volumes.
	LocalVolumes []struct{} `json:"localVolumes"`
	Region       string     `json:"region,omitempty"`
	Zone         string     `json:"zone,omitempty"`
	Role         string     `json:"role"`
}

// HealthResult is the last result of one health check of a task.
type HealthResult struct {
	Alive               bool   `json:"alive"`
	ConsecutiveFailures int    `json:"consecutiveFailures"`
	FirstSuccess        Time   `json:"firstSuccess,omitzero"`
	LastSuccess         Time   `json:"lastSuccess,omitzero"`
	LastFailure         Time   `json:"lastFailure,omitzero"`
	LastFailureCause    string `json:"lastFailureCause,omitempty"`
	// InstanceID is the task's id.
	InstanceID string `json:"instanceId"`
}

// TaskFailure is the last failure of a task of an app.
type TaskFailure struct {
	AppID     string `json:"appId"`
	Host      string `json:"host"`
	Message   string `json:"message"`
	State     string `json:"state"`
	TaskID    string `json:"taskId"`
	Timestamp Time   `json:"timestamp"`
	Version   string `json:"version"`
	SlaveID   string `json:"slaveId,omitempty"`
}

// ReadinessResult is the last result of a readiness check of a new task.
type ReadinessResult struct {
	Name         string             `json:"name"`
	TaskID       string             `json:"taskId"`
	Ready        bool               `json:"ready"`
	LastResponse *ReadinessResponse `json:"lastResponse,omitempty"`
}

// ReadinessResponse is present if the check preserves the last response.
type ReadinessResponse struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
}

// AppStatus is an app in its current state. Deployments are the ids of those that change it.
type AppStatus struct {
	*marathon.App
	Tasks       []AppTask
	Deployments []string
	LastFailure *TaskFailure
	Readiness   []ReadinessResult
}

// appInfo is an app in an answer. Parts that are not embedded are absent.
type appInfo struct {
	*marathon.App
	*taskCounts
	Deployments *[]objectID        `json:"deployments,omitempty"`
	Readiness   *[]ReadinessResult `json:"readinessCheckResults,omitempty"`
	Tasks       *[]AppTask         `json:"tasks,omitempty"`
	LastFailure *TaskFailure       `json:"lastTaskFailure,omitempty"`
	Stats       *appStats          `json:"tasksStats,omitempty"`
}

type taskCounts struct {
	Staged    int `json:"tasksStaged"`
	Running   int `json:"tasksRunning"`
	Healthy   int `json:"tasksHealthy"`
	Unhealthy int `json:"tasksUnhealthy"`
}

type objectID struct {
	ID string `json:"id"`
}

// deploymentResult is the answer to a request that starts a deployment.
type deploymentResult struct {
	Version      string `json:"version"`
	DeploymentID string `json:"deploymentId"`
}

// queueItem is an app with instances that wait to be placed. LastUnusedOffers is empty if it
// is requested, because offers are not recorded by app.
type queueItem struct {
	Count            int           `json:"count"`
	Role             string        `json:"role"`
	Delay            queueDelay    `json:"delay"`
	Since            Time          `json:"since"`
	Processed        offersSummary `json:"processedOffersSummary"`
	LastUnusedOffers *[]struct{}   `json:"lastUnusedOffers,omitempty"`
	App              *marathon.App `json:"app"`
	// Message is why instances wait. Marathon has no such field.
	Message string `json:"message,omitempty"`
}

// queueDelay is the backoff. Overdue is true once it has ended.
type queueDelay struct {
	TimeLeftSeconds int  `json:"timeLeftSeconds"`
	Overdue         bool `json:"overdue"`
}

// offersSummary counts agents as they were last offered, because offers are not counted by
// app. It is empty for an app whose instances do not wait for agents.
type offersSummary struct {
	Processed  *int            `json:"processedOffersCount,omitempty"`
	Unused     *int            `json:"unusedOffersCount,omitempty"`
	LastOffers []rejectSummary `json:"rejectSummaryLastOffers,omitempty"`
}

// rejectSummary is how many of the offers that earlier reasons left one reason declined.
type rejectSummary struct {
	Reason    string `json:"reason"`
	Declined  int    `json:"declined"`
	Processed int    `json:"processed"`
}

// ServedVersion is the release of Marathon whose API this package serves. Clients compare it
// with the releases that introduced what they need.
const ServedVersion = "1.11.24"

// SchedulerInfo describes the scheduler. It has no keys but Marathon's, because some clients
// reject others.
type SchedulerInfo struct {
	Name string `json:"name"`
	// Version is ServedVersion, BuildRef the scheduler's own version.
	Version  string `json:"version"`
	BuildRef string `json:"buildref"`
	Elected  bool   `json:"elected"`
	// Leader is the leader's HOST:PORT.
	Leader      string          `json:"leader,omitempty"`
	FrameworkID string          `json:"frameworkId,omitempty"`
	Marathon    MarathonConfig  `json:"marathon_config"`
	ZooKeeper   ZooKeeperConfig `json:"zookeeper_config"`
	HTTP        HTTPConfig      `json:"http_config"`
}

// MarathonConfig contains the settings that this scheduler has in common with Marathon.
type MarathonConfig struct {
	Checkpoint         bool   `json:"checkpoint"`
	DefaultNetworkName string `json:"default_network_name,omitempty"`
	Executor           string `json:"executor"`
	// FailoverTimeout is in seconds.
	FailoverTimeout int64 `json:"failover_timeout,omitempty"`
	// Features lists Marathon's optional features that are always on.
	Features      []string `json:"features"`
	FrameworkName string   `json:"framework_name,omitempty"`
	// HighlyAvailable is true if other schedulers may take over.
	HighlyAvailable bool   `json:"ha"`
	Hostname        string `json:"hostname,omitempty"`
	Master          string `json:"master,omitempty"`
	MesosBridgeName string `json:"mesos_bridge_name,omitempty"`
	// MesosLeaderUIURL is the URL of the leading master, which ends with a slash. It is
	// absent without a leading master.
	MesosLeaderUIURL string `json:"mesos_leader_ui_url,omitempty"`
	MesosRole        string `json:"mesos_role"`
	MesosUser        string `json:"mesos_user,omitempty"`
	WebUIURL         string `json:"webui_url,omitempty"`
}

// ZooKeeperConfig is empty unless the journal is in ZooKeeper. The timeout is in milliseconds.
type ZooKeeperConfig struct {
	URL            string `json:"zk,omitempty"`
	SessionTimeout int64  `json:"zk_session_timeout,omitempty"`
}

// HTTPConfig is the port of the API, with or without TLS.
type HTTPConfig struct {
	HTTPPort  int `json:"http_port,omitempty"`
	HTTPSPort int `json:"https_port,omitempty"`
}
