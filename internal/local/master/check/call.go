package check

import (
	"errors"
	"fmt"

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
	if call.Type == scheduler.Call_SUBSCRIBE {
		switch {
		case call.Subscribe == nil:
			return errors.New("expecting 'subscribe' to be present")
		case call.GetFrameworkID().GetValue() != call.Subscribe.GetFrameworkInfo().GetID().GetValue():
			return errors.New("'framework_id' differs from 'subscribe.framework_info.id'")
		}
		return nil
	}
	if call.FrameworkID == nil {
		return errors.New("expecting 'framework_id' to be present")
	}
	if part, missing := missingBody(call); missing {
		return fmt.Errorf("expecting '%s' to be present", part)
	}
	switch call.Type {
	case scheduler.Call_ACKNOWLEDGE:
		if n := len(call.Acknowledge.UUID); n != uuidLen {
			return fmt.Errorf("'acknowledge.uuid' has %d bytes, a uuid has %d", n, uuidLen)
		}
	case scheduler.Call_UPDATE_FRAMEWORK:
		if call.FrameworkID.Value != call.UpdateFramework.FrameworkInfo.GetID().GetValue() {
			return errors.New("'framework_id' differs from 'update_framework.framework_info.id'")
		}
	}
	return nil
}

// missingBody returns the message that the call's type requires and whether it
// is missing.
func missingBody(call *scheduler.Call) (part string, missing bool) {
	switch call.Type {
	case scheduler.Call_ACCEPT:
		return "accept", call.Accept == nil
	case scheduler.Call_DECLINE:
		return "decline", call.Decline == nil
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		return "accept_inverse_offers", call.AcceptInverseOffers == nil
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		return "decline_inverse_offers", call.DeclineInverseOffers == nil
	case scheduler.Call_KILL:
		return "kill", call.Kill == nil
	case scheduler.Call_SHUTDOWN:
		return "shutdown", call.Shutdown == nil
	case scheduler.Call_ACKNOWLEDGE:
		return "acknowledge", call.Acknowledge == nil
	case scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		return "acknowledge_operation_status", call.AcknowledgeOperationStatus == nil
	case scheduler.Call_RECONCILE:
		return "reconcile", call.Reconcile == nil
	case scheduler.Call_RECONCILE_OPERATIONS:
		return "reconcile_operations", call.ReconcileOperations == nil
	case scheduler.Call_MESSAGE:
		return "message", call.Message == nil
	case scheduler.Call_REQUEST:
		return "request", call.Request == nil
	case scheduler.Call_UPDATE_FRAMEWORK:
		return "update_framework", call.UpdateFramework == nil
	}
	return "", false // TEARDOWN, REVIVE and SUPPRESS have no required message
}
