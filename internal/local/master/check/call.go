// Package check validates a scheduler's calls, its FrameworkInfo and its tasks,
// with the error messages of a Mesos master. It rejects what would corrupt the
// master's state or assign a resource twice; the other checks of Mesos are left
// out. It is pure: the caller handles invalid input.
package check

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// uuidLen is the length of a status update's uuid.
const uuidLen = 16

// ValidateCall returns an error for the first missing field of a scheduler's
// call.
func ValidateCall(call *scheduler.Call) error {
	if _, err := proto.Marshal(call); err != nil {
		return fmt.Errorf("not initialized: %w", err)
	}
	if call.FrameworkID == nil && call.Type != scheduler.Call_SUBSCRIBE {
		return errors.New("expecting 'framework_id' to be present")
	}
	if body, needed := requiredBody(call); needed && reflect.ValueOf(body).IsNil() {
		return fmt.Errorf("expecting '%s' to be present", strings.ToLower(call.Type.String()))
	}
	id := call.GetFrameworkID().GetValue()
	switch call.Type {
	case scheduler.Call_SUBSCRIBE:
		if id != call.Subscribe.GetFrameworkInfo().GetID().GetValue() {
			return errors.New("'framework_id' differs from 'subscribe.framework_info.id'")
		}
	case scheduler.Call_UPDATE_FRAMEWORK:
		if id != call.UpdateFramework.FrameworkInfo.GetID().GetValue() {
			return errors.New("'framework_id' differs from 'update_framework.framework_info.id'")
		}
	case scheduler.Call_ACKNOWLEDGE:
		if n := len(call.Acknowledge.UUID); n != uuidLen {
			return fmt.Errorf("'acknowledge.uuid' has %d bytes, a uuid has %d", n, uuidLen)
		}
	}
	return nil
}

// requiredBody returns the message that the call's type requires. It returns
// false for a type that requires none.
func requiredBody(call *scheduler.Call) (body any, needed bool) {
	body, needed = map[scheduler.Call_Type]any{
		scheduler.Call_SUBSCRIBE: call.Subscribe, scheduler.Call_ACCEPT: call.Accept, scheduler.Call_DECLINE: call.Decline,
		scheduler.Call_ACCEPT_INVERSE_OFFERS: call.AcceptInverseOffers, scheduler.Call_DECLINE_INVERSE_OFFERS: call.DeclineInverseOffers,
		scheduler.Call_KILL: call.Kill, scheduler.Call_SHUTDOWN: call.Shutdown, scheduler.Call_MESSAGE: call.Message, scheduler.Call_ACKNOWLEDGE: call.Acknowledge,
		scheduler.Call_RECONCILE: call.Reconcile, scheduler.Call_UPDATE_FRAMEWORK: call.UpdateFramework,
	}[call.Type]
	return body, needed
}
