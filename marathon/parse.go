package marathon

import (
	"encoding/json"
	"fmt"
)

// ParseSettings are the defaults that depend on the scheduler.
type ParseSettings struct {
	// Role is the scheduler's role. It is the default, and the only one allowed
	// outside groups that enforce their own.
	Role string
	// DefaultNetwork is the container network of apps that name none. If it is
	// empty they must name one.
	DefaultNetwork string
	// BridgeNetwork is the value of ipAddress.networkName that selects bridge
	// mode, and the CNI network of MESOS containers in bridge mode. Empty means
	// MesosBridge for the latter.
	BridgeNetwork string
	// GPUBehavior is the default of GPULabel. Empty means GPURestricted.
	GPUBehavior string
	// ServicePorts are allotted to ports whose service port is 0. Zero means
	// DefaultServicePorts.
	ServicePorts PortRange
	// Strict makes fields that Marathon does not have an error. Otherwise they are
	// dropped with a warning.
	Strict bool
	// Warn, if set, is called for each part of a valid definition that is dropped.
	Warn func(Warning)
}

// Warning reports a part of a definition that is dropped, by its path in Marathon's notation.
type Warning struct{ Path, Reason string }

// MesosBridge is the default name of Mesos's bridge network.
const MesosBridge = "mesos-bridge"

// ParseApp parses one app, fills in defaults, converts old forms and checks the result. It
// returns *SyntaxError if the text is not JSON, otherwise *ValidationError with all
// mistakes.
func ParseApp(data []byte, s ParseSettings) (*App, error) {
	c := schemaChecker{strict: s.Strict}
	app, err := readDefinition[App](data, appSchema(), &c)
	if app == nil {
		return nil, err
	}
	f := appNormalizer{app: app, settings: s, base: "/", roles: []string{s.Role}, violations: &c.violations}
	f.normalizeApp()
	if err := c.violations.finish(s); err != nil {
		return nil, err
	}
	return app, nil
}

// readDefinition decodes the values that the schema allows. A nil result comes with an
// error.
func readDefinition[T any](data []byte, schema *schemaNode, c *schemaChecker) (*T, error) {
	v, err := decodeJSON(data)
	if err != nil {
		return nil, &SyntaxError{err}
	}
	clean, ok := c.checkValue(schema, v, "", false)
	if !ok {
		return nil, c.violations.asError()
	}
	b, err := json.Marshal(clean)
	if err != nil {
		return nil, fmt.Errorf("write what was read: %w", err)
	}
	t := new(T)
	if err := json.Unmarshal(b, t); err != nil {
		return nil, fmt.Errorf("read a definition that fits the schema: %w", err)
	}
	return t, nil
}

// appNormalizer completes and checks one app.
type appNormalizer struct {
	app      *App
	settings ParseSettings
	// path is where the app is in the document: "" or "/groups(0)/apps(1)".
	path string
	// base is the group that relative ids refer to.
	base string
	// roles are the allowed roles, the default first.
	roles      []string
	violations *violationList
}

func (norm *appNormalizer) normalizeApp() {
	norm.checkOldForms()
	norm.migrateOldForms()
	norm.resolveIDs()
	norm.checkAppRules()
	norm.fillDefaults()
}

// addWarning records that a part of the app is dropped.
func (norm *appNormalizer) addWarning(place, reason string) {
	norm.violations.addWarning(norm.path+place, reason)
}

// addError records a mistake at a path within the app.
func (norm *appNormalizer) addError(place, format string, args ...any) {
	if place == "/" && norm.path != "" {
		place = ""
	}
	norm.violations.addRuleError(norm.path+place, format, args...)
}
