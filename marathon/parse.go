package marathon

import (
	"encoding/json"
	"fmt"
)

// Settings are what a definition's defaults depend on beside itself.
type Settings struct {
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

// Parse reads one app, fills in what it leaves out, turns old forms into new
// ones and checks it. It returns *Malformed for what is no JSON, *Invalid
// with all that is wrong otherwise.
func Parse(data []byte, s Settings) (*App, error) {
	var c check
	app, err := read[App](data, appSchema(), &c)
	if app == nil {
		return nil, err
	}
	f := finish{app: app, settings: s, base: "/", roles: []string{s.Role}, found: &c.found}
	f.run()
	if err := c.found.invalid(); err != nil {
		return nil, err
	}
	return app, nil
}

// read decodes what the schema lets through. Without a value it returns the
// error.
func read[T any](data []byte, schema *node, c *check) (*T, error) {
	v, err := decode(data)
	if err != nil {
		return nil, &Malformed{err}
	}
	clean, ok := c.value(schema, v, "", false)
	if !ok {
		return nil, c.found.invalid()
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

// finish completes and checks one app.
type finish struct {
	app      *App
	settings Settings
	// at is the app's place in what was read, "" or "/groups(0)/apps(1)".
	at string
	// base is the group that relative ids start from.
	base string
	// roles are those the app may have, the default first.
	roles []string
	found *violations
}

func (f *finish) run() {
	f.oldRules()
	f.migrate()
	f.identify()
	f.rules()
	f.complete()
}

// bad records a broken rule at a place within the app.
func (f *finish) bad(place, format string, args ...any) {
	if place == "/" && f.at != "" {
		place = ""
	}
	f.found.rule(f.at+place, format, args...)
}
