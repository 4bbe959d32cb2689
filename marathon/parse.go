package marathon

import (
	"encoding/json"
	"fmt"
)

// ParseSettings are what a definition's defaults depend on beside itself.
type ParseSettings struct {
	// Role is the scheduler's: the default, and the only one allowed outside
	// groups that enforce their own.
	Role string
	// DefaultNetwork is the container network of those that name none; empty,
	// they must name one.
	DefaultNetwork string
	// BridgeNetwork is the name by which ipAddress.networkName means bridge
	// mode.
	BridgeNetwork string
	// GPUBehavior is the GPULabel of apps that have none: GPURestricted where
	// it is empty.
	GPUBehavior string
}

// MesosBridge is the name of Mesos's bridge network unless somebody chose
// another.
const MesosBridge = "mesos-bridge"

// ParseApp reads one app, fills in what it leaves out, turns old forms into new
// ones and checks it. It returns *Malformed for what is no JSON, *Invalid
// with all that is wrong otherwise.
func ParseApp(data []byte, s ParseSettings) (*App, error) {
	var c schemaChecker
	app, err := readDefinition[App](data, appSchema(), &c)
	if app == nil {
		return nil, err
	}
	f := appNormalizer{app: app, settings: s, base: "/", roles: []string{s.Role}, violations: &c.violations}
	f.normalizeApp()
	if err := c.violations.asError(); err != nil {
		return nil, err
	}
	return app, nil
}

// readDefinition decodes what the schema lets through. Without a value it returns the
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
	// path is the app's place in what was read, "" or "/groups(0)/apps(1)".
	path string
	// base is the group that relative ids start from.
	base string
	// roles are those the app may have, the default first.
	roles      []string
	violations *violationList
}

func (f *appNormalizer) normalizeApp() {
	f.checkOldForms()
	f.migrateOldForms()
	f.resolveIDs()
	f.checkAppRules()
	f.fillDefaults()
}

// addError records a broken rule at a place within the app.
func (f *appNormalizer) addError(place, format string, args ...any) {
	if place == "/" && f.path != "" {
		place = ""
	}
	f.violations.addRuleError(f.path+place, format, args...)
}
