package executor

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"

	"mesos-gpu/job"
)

// ConfigFromEnv reads the variables that a Mesos agent sets for an executor,
// and the operator's MESOS_GPU_* settings. It does not set the functions. It
// returns an error for malformed values; Run reports missing ones.
func ConfigFromEnv(getenv func(string) string) (ExecutorConfig, error) {
	e := envReader{getenv: getenv}
	c := ExecutorConfig{
		Endpoint:        getenv("MESOS_AGENT_ENDPOINT"),
		ProcessID:       parseProcessID(getenv("MESOS_SLAVE_PID")),
		Socket:          getenv("MESOS_DOMAIN_SOCKET"),
		TLS:             e.readBool("SSL_ENABLED") || e.readBool("LIBPROCESS_SSL_ENABLED"),
		Token:           getenv("MESOS_EXECUTOR_AUTHENTICATION_TOKEN"),
		FrameworkID:     getenv("MESOS_FRAMEWORK_ID"),
		ExecutorID:      getenv("MESOS_EXECUTOR_ID"),
		Sandbox:         getenv("MESOS_SANDBOX"),
		Directory:       getenv("MESOS_DIRECTORY"),
		Checkpoint:      e.readBool("MESOS_CHECKPOINT"),
		RecoveryTimeout: e.readDuration("MESOS_RECOVERY_TIMEOUT"),
		BackoffMax:      e.readDuration("MESOS_SUBSCRIPTION_BACKOFF_MAX"),
		ShutdownGrace:   e.readDuration("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD"),
		DevDir:          getenv("MESOS_GPU_DEV"),
		VolumesDir:      getenv("MESOS_GPU_VOLUMES"),
		DriverRoot:      getenv("MESOS_GPU_DRIVER_ROOT"),
		DockerHost:      getenv("DOCKER_HOST"),
		HealthSocket:    getenv("MESOS_GPU_SOCKET"),
		DockerConfig:    getenv("MESOS_GPU_DOCKER_CONFIG"),
		SecretsDir:      getenv("MESOS_GPU_SECRETS"),
		AllowHostIPC:    e.readBool("MESOS_GPU_ALLOW_HOST_IPC"),
		AllowedDevices:  e.readDevices("MESOS_GPU_ALLOW_DEVICES"),
		LogBytes:        e.readLogSize("MESOS_GPU_LOG_SIZE"),
		LogFiles:        e.readCount("MESOS_GPU_LOG_FILES"),
	}
	if c.Sandbox == "" {
		c.Sandbox = c.Directory
	}
	c.ContainerID = parseContainerID(c.Directory)
	c.setDefaults()
	return c, errors.Join(e.errs...)
}

// envReader reads typed variables and collects their errors.
type envReader struct {
	getenv func(string) string
	errs   []error
}

func (e *envReader) readBool(name string) bool {
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

// readDevices reads paths that are separated by commas.
func (e *envReader) readDevices(name string) []string {
	value := e.getenv(name)
	if value == "" {
		return nil
	}
	paths := strings.Split(value, ",")
	for _, path := range paths {
		if err := job.ValidateDevicePath(path); err != nil {
			e.errs = append(e.errs, fmt.Errorf("%s=%s: %w", name, value, err))
		}
	}
	return paths
}

func (e *envReader) readDuration(name string) time.Duration {
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

// readLogSize reads a number of bytes such as 100MiB; 0 means no limit.
func (e *envReader) readLogSize(name string) int64 {
	value := e.getenv(name)
	if value == "" {
		return defaultLogBytes
	}
	digits := strings.TrimRight(value, "BKMGTi")
	shift, known := map[string]int{"": 0, "B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[value[len(digits):]]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > math.MaxInt64>>shift {
		e.errs = append(e.errs, fmt.Errorf("%s=%s is not a size such as 100MiB", name, value))
		return 0
	}
	if n <<= shift; n > 0 && n < minLogBytes {
		e.errs = append(e.errs, fmt.Errorf("%s=%s is less than %d bytes: set more, or 0 for unlimited files", name, value, minLogBytes))
	}
	return n
}

// readCount reads a positive number. It returns 0 if the variable is not set.
func (e *envReader) readCount(name string) int {
	value := e.getenv(name)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		e.errs = append(e.errs, fmt.Errorf("%s=%s is not a positive number", name, value))
	}
	return n
}

// parseProcessID returns the name in a libprocess address such as
// "slave(1)@10.0.0.1:5051".
func parseProcessID(pid string) string {
	id, _, _ := strings.Cut(pid, "@")
	return id
}

// parseContainerID returns the container id in a sandbox's path,
// …/executors/E/runs/CONTAINER. Old agents do not send the id in SUBSCRIBED.
func parseContainerID(directory string) string {
	if filepath.Base(filepath.Dir(directory)) != "runs" {
		return ""
	}
	return filepath.Base(directory)
}
