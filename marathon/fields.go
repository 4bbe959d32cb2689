package marathon

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SupportLevel is what becomes of a field.
type SupportLevel int

const (
	// Honoured fields do what Marathon's documentation says.
	Honoured SupportLevel = iota
	// Refused fields make a definition invalid, unless they ask for nothing
	// (null, false, empty, the default) or for one of Field.Accepts.
	Refused
	// Informational fields are read and change nothing.
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
	// Any is for what other programs put into a definition and nobody reads.
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

// Field is one documented field of an app or a group: what may stand there,
// and what becomes of it.
type Field struct {
	// Path is the field's place: "container.docker.image", "[]" for the
	// elements of an array, "*" for the values of a map.
	Path string
	Type JSONType
	// Default is the JSON that stands for an absent field, where that does not
	// depend on other fields.
	Default  string
	Required bool
	// Enum lists the allowed values, which may be written in any case.
	Enum           []string
	Min, Max       *float64
	MinLen, MaxLen int
	// Pattern is what a string matches.
	Pattern *regexp.Regexp
	// Deprecated fields are turned into the field named here.
	Deprecated string

	Support SupportLevel
	// Accepts are the values that a refused field may have all the same.
	Accepts []string
	// Why says why a field is refused, or how it is honoured.
	Why string
}

// AppFields lists each documented field of an app, as Marathon's own interface
// description names them, and the few that older versions had.
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

// boundOf is a bound of a number.
func boundOf(v float64) *float64 { return &v }

// Bounds of what becomes of an app: job.Spec.Validate has the same.
const (
	maxGPUs      = 1024
	maxCPUs      = 4096
	maxMiB       = 1 << 30
	maxSeconds   = 366 * 24 * 60 * 60
	maxKillGrace = 24 * 60 * 60
	maxFactor    = 100
	maxFailures  = 1000
	// maxListItems bounds ports, volumes, artifacts and options of docker run.
	maxListItems = 100
	// maxNameLength is that of the names of ports, networks and volumes.
	maxNameLength = 63
	maxID         = 255
)

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
