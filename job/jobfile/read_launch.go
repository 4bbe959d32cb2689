package jobfile

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// readService reads true, or how the tasks are kept running.
func readService(n *yaml.Node, to **job.Service) error {
	wanted := true
	if n.Kind == yaml.ScalarNode {
		if err := readFlag(n, &wanted); err != nil {
			return fmt.Errorf("%w, nor keys such as {backoff: 1s}", err)
		}
		if wanted {
			*to = &job.Service{}
		}
		return nil
	}
	v := &job.Service{}
	*to = v
	return readFields(n, map[string]valueReader{
		"backoff":        func(n *yaml.Node) error { return readPositiveDuration(n, &v.Backoff.Initial) },
		"backoff_factor": func(n *yaml.Node) error { return readNumber(n, &v.Backoff.Factor) },
		"backoff_max":    func(n *yaml.Node) error { return readPositiveDuration(n, &v.Backoff.Max) },
		"replace_after":  func(n *yaml.Node) error { return readReplaceAfter(n, &v.ReplaceAfter) },
	})
}

func readReplaceAfter(n *yaml.Node, to *time.Duration) error {
	if n.Kind == yaml.ScalarNode && n.Value == neverText {
		*to = job.Unlimited
		return nil
	}
	if _, err := time.ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil {
		return fmt.Errorf("%q is neither a duration such as 10m nor %s", n.Value, neverText)
	}
	return readPositiveDuration(n, to)
}

// readFetch reads a list of URIs and of {uri, path, extract, executable, cache}.
func readFetch(n *yaml.Node, to *[]job.FetchArtifact) error {
	return readEach(n, "[https://example.org/model.tar.gz]", func(item *yaml.Node) (err error) {
		var a job.FetchArtifact
		if item.Kind == yaml.ScalarNode {
			err = readText(item, &a.URI)
		} else {
			err = readFields(item, map[string]valueReader{
				"uri":        func(n *yaml.Node) error { return readText(n, &a.URI) },
				"path":       func(n *yaml.Node) error { return readText(n, &a.Path) },
				"extract":    func(n *yaml.Node) error { return readFlag(n, &a.Extract) },
				"executable": func(n *yaml.Node) error { return readFlag(n, &a.Executable) },
				"cache":      func(n *yaml.Node) error { return readFlag(n, &a.Cache) },
			})
		}
		*to = append(*to, a)
		return err
	})
}

func readLimits(n *yaml.Node, to *job.ResourceLimits) error {
	return readFields(n, map[string]valueReader{
		"cpus": func(n *yaml.Node) error { return readLimit(n, &to.CPUs, readNumber) },
		"mem":  func(n *yaml.Node) error { return readLimit(n, &to.MemMiB, readSize) },
	})
}

func readLimit(n *yaml.Node, to *float64, read func(*yaml.Node, *float64) error) error {
	if n.Kind == yaml.ScalarNode && n.Value == job.UnlimitedText {
		*to = job.Unlimited
		return nil
	}
	if err := read(n, to); err != nil {
		return fmt.Errorf("%w, nor %s", err, job.UnlimitedText)
	}
	return nil
}

// readParameters reads a list of "key=value" and of {key, value}.
func readParameters(n *yaml.Node, to *[]job.DockerParameter) error {
	return readEach(n, "[init=true]", func(item *yaml.Node) (err error) {
		var p job.DockerParameter
		if item.Kind == yaml.ScalarNode {
			p, err = job.ParseParameter(item.Value)
		} else {
			err = readFields(item, map[string]valueReader{
				"key":   func(n *yaml.Node) error { return readText(n, &p.Key) },
				"value": func(n *yaml.Node) error { return readAnyText(n, &p.Value) },
			})
		}
		*to = append(*to, p)
		return err
	})
}

// readAnyText may be empty.
func readAnyText(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("is not a single value")
	}
	*to = n.Value
	return nil
}
