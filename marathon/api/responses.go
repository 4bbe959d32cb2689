package api

import (
	"time"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Time is written as Marathon writes times: UTC, with milliseconds.
type Time struct{ time.Time }

const timestampLayout = "2006-01-02T15:04:05.000Z"

func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timestampLayout) + `"`), nil
}

// AppTask is an instance that has been placed. State is Mesos's: TASK_RUNNING.
type AppTask struct {
	ID      string `json:"id"`
	AppID   string `json:"appId"`
	Host    string `json:"host"`
	SlaveID string `json:"slaveId,omitempty"`
	State   string `json:"state"`
	// Ports are the host's. ServicePorts are filled in from the app.
	Ports        []int              `json:"ports"`
	ServicePorts []int              `json:"servicePorts"`
	IPAddresses  []deploy.IPAddress `json:"ipAddresses"`
	StagedAt     Time               `json:"stagedAt,omitzero"`
	StartedAt    Time               `json:"startedAt,omitzero"`
	// Version is the app's that the task runs.
	Version            string         `json:"version,omitempty"`
	HealthCheckResults []HealthResult `json:"healthCheckResults"`
	Region             string         `json:"region,omitempty"`
	Zone               string         `json:"zone,omitempty"`
	Role               string         `json:"role"`
}

// HealthResult is what one health check has found of one task.
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

// TaskFailure is the last end of a task of an app that nobody asked for.
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

// ReadinessResult is what a readiness check has found of a new task.
type ReadinessResult struct {
	Name         string             `json:"name"`
	TaskID       string             `json:"taskId"`
	Ready        bool               `json:"ready"`
	LastResponse *ReadinessResponse `json:"lastResponse,omitempty"`
}

// ReadinessResponse is kept where the check preserves the last response.
type ReadinessResponse struct {
	Status      int    `json:"status"`
	ContentType string `json:"contentType"`
	Body        string `json:"body"`
}

// AppStatus is an app as it is now. Deployments are the ids of those that change it.
type AppStatus struct {
	*marathon.App
	Tasks       []AppTask
	Deployments []string
	LastFailure *TaskFailure
	Readiness   []ReadinessResult
	// Message says what keeps it from being deployed, where something does.
	Message string
}

// appInfo is an App as requests are answered: what is not embedded is absent.
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

// deploymentResult is the answer to what starts a deployment.
type deploymentResult struct {
	Version      string `json:"version"`
	DeploymentID string `json:"deploymentId"`
}

// queueItem is an app of which instances wait to be placed. LastUnusedOffers
// is empty where it is asked for: offers are not kept app by app here.
type queueItem struct {
	Count            int           `json:"count"`
	Role             string        `json:"role"`
	Delay            queueDelay    `json:"delay"`
	Since            Time          `json:"since"`
	Processed        offersSummary `json:"processedOffersSummary"`
	LastUnusedOffers *[]struct{}   `json:"lastUnusedOffers,omitempty"`
	App              *marathon.App `json:"app"`
	// Message says what keeps instances from being queued; Marathon has none.
	Message string `json:"message,omitempty"`
}

// queueDelay is the pause after failures; Overdue says that it has ended.
type queueDelay struct {
	TimeLeftSeconds int  `json:"timeLeftSeconds"`
	Overdue         bool `json:"overdue"`
}

// offersSummary is empty: offers are not counted app by app either.
type offersSummary struct{}

// SchedulerInfo describes the scheduler. The keys of the configurations are Marathon's
// where they have the same meaning.
type SchedulerInfo struct {
	Name        string         `json:"name"`
	Version     string         `json:"version"`
	BuildRef    string         `json:"buildref,omitempty"`
	Elected     bool           `json:"elected"`
	Leader      string         `json:"leader,omitempty"`
	FrameworkID string         `json:"frameworkId,omitempty"`
	Marathon    map[string]any `json:"marathon_config"`
	ZooKeeper   map[string]any `json:"zookeeper_config"`
	HTTP        map[string]any `json:"http_config"`
}
