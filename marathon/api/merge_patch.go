package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// appPatch is an update of an app as it was sent, by field. null is the same as absent: it
// changes nothing, as in Marathon.
type appPatch map[string]json.RawMessage

// readPatch reads an update. If it is no object, it returns the error of marathon.ParseApp.
func readPatch(data []byte, s marathon.ParseSettings) (appPatch, error) {
	p := appPatch{}
	if err := json.Unmarshal(data, &p); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, &marathon.SyntaxError{Cause: err}
		}
		_, err := marathon.ParseApp(data, s)
		return nil, err
	}
	maps.DeleteFunc(p, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return p, nil
}

// requestedVersion returns the version of an update that only requests an earlier version, or
// "" for any other update.
func (p appPatch) requestedVersion() (string, error) {
	if p["version"] == nil {
		return "", nil
	}
	for field := range p {
		if field != "id" && field != "version" {
			return "", invalidAt("/version", "it stands alone, or with the id: leave out %s to go back to a version, or the version to change the app", field)
		}
	}
	var v string
	if err := json.Unmarshal(p["version"], &v); err != nil {
		return "", invalidAt("/version", "a string is wanted here")
	}
	return v, nil
}

// mergePatch replaces whole fields of the app by those of an update and parses the result. An
// old form of a field replaces the new one, but portDefinitions take precedence over ports, as
// in Marathon: some clients send an empty list of ports with each update.
func mergePatch(stored *marathon.App, p appPatch, s marathon.ParseSettings) (*marathon.App, error) {
	if p["portDefinitions"] != nil && p["ports"] != nil {
		p = maps.Clone(p)
		delete(p, "ports")
	}
	base := *stored
	p.clearReplaced(&base)
	text, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	merged := appPatch{}
	if err := json.Unmarshal(text, &merged); err != nil {
		return nil, err
	}
	maps.Copy(merged, p)
	return parseComplete(merged, stored.ID, s)
}

// parseComplete parses a whole definition. Its id is taken from the path; the body's is ignored.
func parseComplete(p appPatch, id string, s marathon.ParseSettings) (*marathon.App, error) {
	p = maps.Clone(p)
	delete(p, "version")
	delete(p, "versionInfo")
	name, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	p["id"] = name
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return marathon.ParseApp(text, s)
}

// clearReplaced removes fields of the stored app that the update replaces: those of which the
// update has an old form, and the ports of a network mode that the app leaves.
func (p appPatch) clearReplaced(a *marathon.App) {
	if p["uris"] != nil {
		a.Fetch = nil
	}
	if p["ports"] != nil {
		a.PortDefinitions = nil
	}
	host, given := p.movesToHost()
	if !given {
		return
	}
	a.Networks = nil
	if host == hasHostPorts(a) {
		return
	}
	a.PortDefinitions, a.RequirePorts = nil, false
	if a.Container != nil {
		c := *a.Container
		c.PortMappings = nil
		a.Container = &c
	}
}

// hasHostPorts reports whether the stored app has ports in the host's network.
func hasHostPorts(a *marathon.App) bool { return a.PortDefinitions != nil }

// movesToHost reports whether the update selects the host's network. given is false if it does
// not mention networks in any form.
func (p appPatch) movesToHost() (host, given bool) {
	// The types are maps because field names in structs would match in any case.
	var networks []map[string]any
	_ = json.Unmarshal(p["networks"], &networks) // ParseApp reports mistakes
	var container map[string]any
	_ = json.Unmarshal(p["container"], &container)
	docker, _ := container["docker"].(map[string]any)
	network, _ := docker["network"].(string)
	switch {
	case p["networks"] != nil:
		return !slices.ContainsFunc(networks, func(n map[string]any) bool {
			mode, _ := n["mode"].(string)
			return !strings.EqualFold(mode, marathon.HostMode)
		}), true
	case network != "":
		return strings.EqualFold(network, "HOST"), true
	}
	return false, p["ipAddress"] != nil
}

func invalidAt(path, format string, args ...any) error {
	return &marathon.ValidationError{Message: "Object is not valid", Details: []marathon.ErrorDetail{{Path: path, Errors: []string{fmt.Sprintf(format, args...)}}}}
}
