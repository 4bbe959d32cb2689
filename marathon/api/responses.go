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
	Region             string         `json:"region,omitempty"`
	Zone               string         `json:"zone,omitempty"`
	Role               string         `json:"role"`
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
	// Message is why the app cannot be deployed, if its actions fail.
	Message string
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
	// Message is why instances cannot be queued. Marathon has no such field.
	Message string `json:"message,omitempty"`
}

// queueDelay is the backoff. Overdue is true once it has ended.
type queueDelay struct {
	TimeLeftSeconds int  `json:"timeLeftSeconds"`
	Overdue         bool `json:"overdue"`
}

// offersSummary is empty, because offers are not counted by app.
type offersSummary struct{}

// SchedulerInfo describes the scheduler. The keys of its maps are Marathon's, if they mean the
// same.
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
