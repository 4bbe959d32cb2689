package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	agentcalls "github.com/mesos/mesos-go/api/v1/lib/agent/calls"
)

const (
	recordIOType        = "application/recordio"
	messageTypeHeader   = "Message-Content-Type"
	messageAcceptHeader = "Message-Accept"

	// heartbeatInterval keeps the input connection alive.
	heartbeatInterval = 30 * time.Second
	// inputGrace is how much earlier than the command its input call may
	// return. The agent answers that call when the command ends, but also on a
	// failure.
	inputGrace = 5 * time.Second
	// resizeDelay is the time after which a command that has printed nothing counts as
	// running.
	resizeDelay = 2 * time.Second
	// endOfTransmission is ^D, which ends a terminal's input.
	endOfTransmission = "\x04"
)

// postStream posts a call whose answer is a RecordIO stream.
func (c *ConnectionConfig) postStream(ctx context.Context, client *http.Client, url string, message protoMarshaler) (*http.Response, error) {
	return c.postMessage(ctx, client, url, message, func(h http.Header) {
		h.Set("Accept", recordIOType)
		h.Set(messageAcceptHeader, protobufType)
	})
}

// feedInput sends the command's input and the terminal's sizes to the agent
// until the command ends. An error ends the command.
func (r *remoteCommand) feedInput(ctx context.Context, ended <-chan struct{}) error {
	body, w := io.Pipe()
	answered := make(chan error, 1)
	go func() {
		err := r.attachInput(ctx, body)
		_ = body.CloseWithError(errAlreadyAnswered) // otherwise the writer would block forever
		answered <- err
	}()
	written := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(written)
		_ = w.CloseWithError(r.writeInputRecords(w, stop)) // the answer explains an error of w
	}()
	var err error
	select {
	case <-ended:
	case err = <-answered:
		if err == nil {
			break
		}
		select { // the command may have ended at the same time
		case <-ended:
			err = nil
		case <-ctx.Done():
		case <-time.After(inputGrace):
		}
	}
	close(stop)
	<-written
	return err
}

// errAlreadyAnswered ends the writing of input that the agent no longer reads.
var errAlreadyAnswered = errors.New("the agent has answered already")

// attachInput makes the call whose body is the command's input.
func (r *remoteCommand) attachInput(ctx context.Context, body io.Reader) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.agentURL(), body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", recordIOType)
	req.Header.Set(messageTypeHeader, protobufType)
	req.Header.Set("Accept", protobufType)
	r.cfg.Credential.setAuthorization(req)
	res, err := r.httpClient.Do(req)
	if err != nil {
		return fmt.Errorf("feed command on agent %s: %w", r.command.AgentURL, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("feed command on agent %s: %w", r.command.AgentURL, r.cfg.addAdvice(readStatusError(res)))
	}
	return nil
}

// writeInputRecords writes the records of the body until stop is closed. Without a terminal it also ends with the
// input, whose end an empty record marks.
func (r *remoteCommand) writeInputRecords(w io.Writer, stop <-chan struct{}) error {
	if err := writeRecord(w, agentcalls.AttachContainerInput(r.id)); err != nil {
		return err
	}
	// Mesos's launcher ends with SIGWINCH if the size changes after it has the terminal
	// and before it starts the program. The first size is early enough almost always,
	// later ones wait for output.
	size := TerminalSize{r.command.Rows, r.command.Cols}
	sized := r.command.TTY && size.Rows > 0 && size.Cols > 0
	if sized && !r.delayFirstSize {
		if err := writeRecord(w, agentcalls.AttachContainerInputTTY(size.ttyInfo())); err != nil {
			return err
		}
	}
	resize, started, running := (<-chan TerminalSize)(nil), r.firstOutput, time.NewTimer(resizeDelay)
	defer running.Stop()
	input := r.input
	switch {
	case r.streams.Stdin != nil:
	case r.command.TTY:
		input = nil
	default:
		closed := make(chan []byte) // no input means end of file
		close(closed)
		input = closed
	}
	beat := time.NewTicker(heartbeatInterval)
	defer beat.Stop()
	for {
		var call *agent.Call
		select {
		case data, ok := <-input:
			if !ok && !r.command.TTY {
				return writeRecord(w, agentcalls.AttachContainerInputData([]byte{})) // an empty record ends the input
			}
			if !ok {
				input, data = nil, []byte(endOfTransmission)
			}
			r.inputSent = true
			if resize == nil {
				started = nil // the terminal may echo the input before the program runs
			}
			call = agentcalls.AttachContainerInputData(data)
		case <-started:
			started = nil
			running.Reset(0)
			continue
		case <-running.C:
			resize, started = r.streams.Resize, nil
			if !sized || !r.delayFirstSize {
				continue
			}
			call = agentcalls.AttachContainerInputTTY(size.ttyInfo())
		case size, ok := <-resize:
			if !ok {
				resize = nil
				continue
			}
			call = agentcalls.AttachContainerInputTTY(size.ttyInfo())
		case <-beat.C:
			call = heartbeatCall()
		case <-stop:
			return nil
		}
		if err := writeRecord(w, call); err != nil {
			return err
		}
	}
}

// heartbeatCall returns the record that keeps the input connection open.
func heartbeatCall() *agent.Call {
	return agentcalls.AttachContainerInputHeartbeat(&agent.ProcessIO_Control_Heartbeat{
		Interval: &mesos.DurationInfo{Nanoseconds: heartbeatInterval.Nanoseconds()},
	})
}

// maxInputChunk bounds one record of input.
const maxInputChunk = 32 << 10

// readInput passes on what in returns and closes the channel at its end. After another
// error the channel stays open: the command must not take a cut off input for a complete one.
func readInput(in io.Reader, to chan<- []byte, stop <-chan struct{}) {
	for {
		buf := make([]byte, maxInputChunk)
		n, err := in.Read(buf)
		if n > 0 {
			select {
			case to <- buf[:n]:
			case <-stop:
				return
			}
		}
		if err == io.EOF {
			close(to)
		}
		if err != nil {
			return
		}
	}
}

// writeRecord writes one RecordIO record.
func writeRecord(w io.Writer, message protoMarshaler) error {
	body, err := message.Marshal()
	if err != nil {
		return fmt.Errorf("encode call: %w", err)
	}
	_, err = w.Write(append([]byte(strconv.Itoa(len(body))+"\n"), body...))
	return err
}
