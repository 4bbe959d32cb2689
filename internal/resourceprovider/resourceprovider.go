// Package resourceprovider holds the messages of Mesos's v1 resource provider
// API, which mesos-go lacks. It decides field numbers and names, those of
// mesos/v1/resource_provider/resource_provider.proto, and nothing else: the
// client is isolator/advertise, the server the embedded agent.
//
// The messages work with gogo/protobuf's Marshal and Unmarshal and with
// encoding/json, in the JSON form that Mesos reads and writes.
package resourceprovider

import (
	"encoding/json"

	"github.com/gogo/protobuf/proto"
)

// Path is where an agent serves the API, below its own URL.
const Path = "/api/v1/resource_provider"

// enumNames is the behaviour that the three enumerations share: a name for each
// number from 0, in order.
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

// formatMessage is a message for logs: its JSON form. gogo's text form would write the
// names of hand-written enumerations twice.
func formatMessage(m proto.Message) string {
	b, err := json.Marshal(m)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return string(b)
}
