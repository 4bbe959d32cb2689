package marathon

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SupportLevel is how this scheduler treats a field.
type SupportLevel int

const (
	// Honoured fields have the effect that Marathon documents.
	Honoured SupportLevel = iota
	// Refused fields make a definition invalid, unless the value has no effect
	// (null, false, empty, the default) or is one of Field.Accepts.
	Refused
	// Informational fields are accepted and have no effect.
	Informational
)

func (s SupportLevel) String() string {
	return [...]string{"honoured", "refused", "informational"}[s]
}

// JSONType is one JSON type or several.
type JSONType int

const (
	String JSONType = 1 << iota
	// Integer has 32 bits, Long 64.
	Integer
	Long
	Number
	Boolean
	Object
	Array
	// Any is for fields that other programs add and that are ignored.
	Any
)

func (t JSONType) String() string {
	var names []string
	for i, name := range []string{"string", "integer", "integer", "number", "boolean", "object", "array", "any"} {
		if t&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// Field describes one documented field of an app or a group: its values, and how it is
// treated.
type Field struct {
	// Path is the path of the field: "container.docker.image". "[]" means
	// the elements of an array, "*" for the values of a map.
	Path string
	Type JSONType
	// Default is the value of an absent field, in JSON. It is empty if there is
	// none, or if it depends on other fields.
	Default  string
	Required bool
	// Enum lists the allowed values. A definition may write them in any case.
	Enum           []string
	Min, Max       *float64
	MinLen, MaxLen int
	// Pattern must match a string.
	Pattern *regexp.Regexp
	// Deprecated names the field that replaces this one, if it is deprecated.
	Deprecated string

	Support SupportLevel
	// Accepts lists values that are allowed although the field is refused.
	Accepts []string
	// Why is the reason why the field is refused, or how it is honoured.
	Why string
}

// AppFields returns the fields of an app: those of Marathon's own interface description,
// and a few of older versions.
func AppFields() []Field {
	return slices.Concat(appFields(), containerFields(), volumeFields(), networkFields(), healthFields(), statusFields())
}

// Names of users, images, ports and networks.
var (
	userName    = regexp.MustCompile(`^[^\x00-\x20\x7f]*$`)
	imageName   = regexp.MustCompile(`^[^ \t\n\x00]+$`)
	portName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	networkName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9_]*[a-z0-9])?$`)
)

// boundOf returns a pointer to the bound of a number.
func boundOf(v float64) *float64 { return &v }

// Bounds of a job's values. job.Spec.Validate has the same.
const (
	maxGPUs      = 1024
	maxCPUs      = 4096
	maxMiB       = 1 << 30
	maxSeconds   = 366 * 24 * 60 * 60
	maxKillGrace = 24 * 60 * 60
	maxFactor    = 100
	maxFailures  = 1000
	// maxListItems bounds volumes, artifacts and options of docker run.
	maxListItems = 100
	// maxNameLength bounds the names of ports, networks and volumes.
	maxNameLength = 63
	maxID         = 255
)

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
