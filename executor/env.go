package executor

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"
)

// ConfigFromEnv reads what a Mesos agent puts into an executor's environment,
// and the MESOS_GPU_* settings of the agent's operator. It leaves Granted and
// Volume to the caller. What is malformed is an error; what is missing shows
// when Run starts.
func ConfigFromEnv(getenv func(string) string) (Config, error) {
	e := env{getenv: getenv}
	c := Config{
		Endpoint:        getenv("MESOS_AGENT_ENDPOINT"),
		ProcessID:       processID(getenv("MESOS_SLAVE_PID")),
		Socket:          getenv("MESOS_DOMAIN_SOCKET"),
		TLS:             e.boolean("SSL_ENABLED") || e.boolean("LIBPROCESS_SSL_ENABLED"),
		Token:           getenv("MESOS_EXECUTOR_AUTHENTICATION_TOKEN"),
		FrameworkID:     getenv("MESOS_FRAMEWORK_ID"),
		ExecutorID:      getenv("MESOS_EXECUTOR_ID"),
		Sandbox:         getenv("MESOS_SANDBOX"),
		Directory:       getenv("MESOS_DIRECTORY"),
		Checkpoint:      e.boolean("MESOS_CHECKPOINT"),
		RecoveryTimeout: e.duration("MESOS_RECOVERY_TIMEOUT"),
		BackoffMax:      e.duration("MESOS_SUBSCRIPTION_BACKOFF_MAX"),
		ShutdownGrace:   e.duration("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"),
		DevDir:          getenv("MESOS_GPU_DEV"),
		VolumesDir:      getenv("MESOS_GPU_VOLUMES"),
		DriverRoot:      getenv("MESOS_GPU_DRIVER_ROOT"),
		DockerHost:      getenv("DOCKER_HOST"),
		HealthSocket:    getenv("MESOS_GPU_SOCKET"),
	}
	if c.Sandbox == "" {
		c.Sandbox = c.Directory
	}
	c.ContainerID = containerID(c.Directory)
	c.setDefaults()
	return c, errors.Join(e.errs...)
}

// env collects what is wrong with the variables it reads.
type env struct {
	getenv func(string) string
	errs   []error
}

func (e *env) boolean(name string) bool {
	value := e.getenv(name)
	if value == "" {
		return false
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s=%s is neither 1 nor 0", name, value))
	}
	return b
}

func (e *env) duration(name string) time.Duration {
	value := e.getenv(name)
	if value == "" {
		return 0
	}
	d, err := mesostime.ParseDuration(value)
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s=%s is not a duration such as 5secs: %w", name, value, err))
	}
	return d
}

// processID is the name in a libprocess address, "slave(1)@10.0.0.1:5051".
func processID(pid string) string {
	id, _, _ := strings.Cut(pid, "@")
	return id
}

// containerID reads a sandbox's path, …/executors/E/runs/CONTAINER: agents
// tell it so where SUBSCRIBED does not.
func containerID(directory string) string {
	if filepath.Base(filepath.Dir(directory)) != "runs" {
		return ""
	}
	return filepath.Base(directory)
}
