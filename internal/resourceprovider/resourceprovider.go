// Package resourceprovider defines the messages of Mesos's v1 resource provider
// API, which mesos-go lacks. Field numbers and names match
// mesos/v1/resource_provider/resource_provider.proto. The client is
// isolator/advertise and the server is the embedded agent.
//
// The messages work with gogo/protobuf's Marshal and Unmarshal and with
// encoding/json, in Mesos's JSON format.
package resourceprovider

import (
	"encoding/json"

	"github.com/gogo/protobuf/proto"
)

// Path is the API's path below an agent's URL.
const Path = "/api/v1/resource_provider"

// enumNames implements the three enumerations: a name for each number, starting
// at 0.
type enumNames []string

func (e enumNames) name(n int32) string {
	if n >= 0 && int(n) < len(e) {
		return e[n]
	}
	return proto.EnumName(nil, n)
}

func (e enumNames) marshalName(n int32) ([]byte, error) {
	return proto.MarshalJSONEnum(map[int32]string{n: e.name(n)}, n)
}

func (e enumNames) unmarshalName(data []byte, kind string) (int32, error) {
	numbers := make(map[string]int32, len(e))
	for n, name := range e {
		numbers[name] = int32(n)
	}
	return proto.UnmarshalJSONEnum(numbers, data, kind)
}

// formatMessage formats a message for logs as JSON. gogo's text format would
// print the names of hand-written enumerations twice.
func formatMessage(m proto.Message) string {
	b, err := json.Marshal(m)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(b)
}
