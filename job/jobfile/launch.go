package jobfile

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// service reads true, or how the tasks are kept running.
func service(n *yaml.Node, to **job.Service) error {
	wanted := true
	if n.Kind == yaml.ScalarNode {
		if err := flag(n, &wanted); err != nil {
			return fmt.Errorf("%w, nor keys such as {backoff: 1s}", err)
		}
		if wanted {
			*to = &job.Service{}
		}
		return nil
	}
	v := &job.Service{}
	*to = v
	return fields(n, map[string]reader{
		"backoff":        func(n *yaml.Node) error { return someTime(n, &v.Backoff.Initial) },
		"backoff_factor": func(n *yaml.Node) error { return number(n, &v.Backoff.Factor) },
		"backoff_max":    func(n *yaml.Node) error { return someTime(n, &v.Backoff.Max) },
		"replace_after":  func(n *yaml.Node) error { return replaceAfter(n, &v.ReplaceAfter) },
	})
}

func replaceAfter(n *yaml.Node, to *time.Duration) error {
	if n.Kind == yaml.ScalarNode && n.Value == never {
		*to = job.Unlimited
		return nil
	}
	if _, err := time.ParseDuration(n.Value); n.Kind != yaml.ScalarNode || err != nil {
		return fmt.Errorf("%q is neither a duration such as 10m nor %s", n.Value, never)
	}
	return someTime(n, to)
}

// fetch reads a list of URIs and of {uri, path, extract, executable, cache}.
func fetch(n *yaml.Node, to *[]job.Artifact) error {
	return each(n, "[https://example.org/model.tar.gz]", func(item *yaml.Node) (err error) {
		var a job.Artifact
		if item.Kind == yaml.ScalarNode {
			err = text(item, &a.URI)
		} else {
			err = fields(item, map[string]reader{
				"uri":        func(n *yaml.Node) error { return text(n, &a.URI) },
				"path":       func(n *yaml.Node) error { return text(n, &a.Path) },
				"extract":    func(n *yaml.Node) error { return flag(n, &a.Extract) },
				"executable": func(n *yaml.Node) error { return flag(n, &a.Executable) },
				"cache":      func(n *yaml.Node) error { return flag(n, &a.Cache) },
			})
		}
		*to = append(*to, a)
		return err
	})
}

func limits(n *yaml.Node, to *job.Limits) error {
	return fields(n, map[string]reader{
		"cpus": func(n *yaml.Node) error { return limit(n, &to.CPUs, number) },
		"mem":  func(n *yaml.Node) error { return limit(n, &to.MemMiB, size) },
	})
}

func limit(n *yaml.Node, to *float64, read func(*yaml.Node, *float64) error) error {
	if n.Kind == yaml.ScalarNode && n.Value == job.UnlimitedText {
		*to = job.Unlimited
		return nil
	}
	if err := read(n, to); err != nil {
		return fmt.Errorf("%w, nor %s", err, job.UnlimitedText)
	}
	return nil
}

// parameters reads a list of "key=value" and of {key, value}.
func parameters(n *yaml.Node, to *[]job.Parameter) error {
	return each(n, "[init=true]", func(item *yaml.Node) (err error) {
		var p job.Parameter
		if item.Kind == yaml.ScalarNode {
			p, err = job.ParseParameter(item.Value)
		} else {
			err = fields(item, map[string]reader{
				"key":   func(n *yaml.Node) error { return text(n, &p.Key) },
				"value": func(n *yaml.Node) error { return anyText(n, &p.Value) },
			})
		}
		*to = append(*to, p)
		return err
	})
}

// anyText may be empty.
func anyText(n *yaml.Node, to *string) error {
	if n.Kind != yaml.ScalarNode {
		return errors.New("is not a single value")
	}
	*to = n.Value
	return nil
}
