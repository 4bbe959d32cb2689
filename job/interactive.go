package job

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// AttachTimeout is how long a task with Stdin or TTY waits for its client before it ends.
const AttachTimeout = time.Minute

// ExitClientLost is the exit code of a task with Stdin or TTY whose client disconnected before the end of its command,
// or did not attach in time. It is 128 and SIGHUP.
const ExitClientLost = 129

// TakesClient reports whether the task needs a client that attaches to it: for its input, or for its terminal.
func (s *Spec) TakesClient() bool { return s.Stdin || s.TTY }

// validateInteractive rejects keys that have no meaning for a job with one client.
func (s *Spec) validateInteractive(bad reportFunc) {
	if !s.TakesClient() {
		return
	}
	key := "stdin"
	if s.TTY {
		key = "tty"
	}
	for _, other := range []struct {
		key string
		set bool
		why string
	}{
		{"tasks", s.Tasks > 1 && s.Matrix == nil, "one client attaches to one task"},
		{"matrix", s.Matrix != nil, "one client attaches to one task"},
		{"service", s.Service != nil, "the task ends with its client"},
		{"retries", s.Retries != 0, "the task ends with its client"},
		{"preemptible", s.Preemptible, "the task ends with its client"},
		{"schedule", s.Schedule != nil, "no client would attach"},
		{"image_entrypoint", s.ImageEntrypoint, "the entrypoint is not used"},
	} {
		if other.set {
			bad(field(other.key).and("stdin", "tty"), "%s: the job has %s: %s", other.key, key, other.why)
		}
	}
	if len(s.Command) == 0 {
		bad(field("command").and("stdin", "tty"), "command: a job with %s needs one, for example command: [sh]", key)
	}
}

// WithClientHolder returns the Spec as its task is launched. If the task takes a client, its command is replaced by a
// shell script. With Stdin the script runs the command and connects its input to a named pipe, which the client fills.
// With TTY it waits until the command of AttachCommand, which runs in the session of the client, has ended. Both end if
// the client is lost, whatever has happened to the scheduler.
func (s *Spec) WithClientHolder() *Spec {
	if !s.TakesClient() {
		return s
	}
	held := *s
	script := fmt.Sprintf(sessionFolder+holdInput, int(math.Ceil(s.KillGrace.Seconds())))
	if s.TTY {
		script = sessionFolder + holdTerminal
	}
	held.Command = slices.Concat([]string{"sh", "-c", script, "mesos-gpu"}, s.ownProgram())
	if held.Entrypoint = ""; s.Containerizer == Docker {
		held.Entrypoint, held.Command = "sh", held.Command[1:]
	}
	return &held
}

// AttachCommand returns the command that is run in the task's container for its client: with TTY the job's own
// command, otherwise one that passes its input on. session is a name that no other client has: the command of one client
// may be launched again after an earlier launch was lost.
func (s *Spec) AttachCommand(session string) []string {
	script := sessionFolder + awaitHolder + feedInput
	if s.TTY {
		script = sessionFolder + awaitHolder + runOnTerminal
	} else if s.Containerizer == Docker {
		// The engine ends the input of a lost session before the executor kills its processes.
		script = strings.Replace(script, "# settle", "sleep 1", 1)
	}
	argv := s.ownProgram()
	if s.TTY && s.Chdir != "" { // the session starts in the sandbox
		argv = StartInFolder(s.Chdir, argv)
	}
	return slices.Concat([]string{"sh", "-c", script, "mesos-gpu-" + session}, argv)
}

// ownProgram returns the entrypoint and the command.
func (s *Spec) ownProgram() []string {
	if s.Entrypoint == "" {
		return s.Command
	}
	return slices.Concat([]string{s.Entrypoint}, s.Command)
}

// The scripts share a folder with named pipes. The client's session has the pipe ctl open as long as it lives, so its
// reader sees the end of the session, and whether the session wrote its result before. They need a POSIX shell,
// mkfifo, ln, cat and sleep.
//
// The task runs holdInput or holdTerminal. The session of the client runs awaitHolder and then feedInput or runOnTerminal.
const (
	// sessionFolder sets d to the folder, which is in the sandbox or, if that is not writable, in /tmp.
	sessionFolder = `d=${MESOS_SANDBOX:-/tmp}; [ -w "$d" ] || d=/tmp
d=$d/.mesos-gpu-session
`
	// makePipes makes the folder and its pipes. ctl appears last: the session waits for it.
	makePipes = `mkdir -m 700 "$d" && mkfifo "$d/in" "$d/new" && mv "$d/new" "$d/ctl" || exit 126
`
	// awaitClient opens ctl after a minute, so that its reader does not wait forever for a client that never attaches.
	awaitClient = `( sleep 60; : >"$d/ctl" ) &
`
	// holdInput runs the command with its input from the pipe in, and kills it if the session ends without the word end.
	holdInput = makePipes + `"$@" <"$d/in" & p=$!
{
	[ "$(cat "$d/ctl")" = end ] || {
		: >"$d/lost"
		echo 'mesos-gpu: the client that sends the standard input is lost, or has not attached within a minute' >&2
		kill -TERM $p; sleep %d; kill -KILL $p
	}
} 3<>"$d/in" &
` + awaitClient + `trap 'kill -TERM $p' TERM INT HUP
while :; do wait $p; c=$?; kill -0 $p 2>/dev/null || break; done
[ -e "$d/lost" ] && c=129
rm -rf "$d"; exit $c
`
	// holdTerminal waits for the exit code of the command that the session runs, and exits with it.
	holdTerminal = makePipes + `trap 'exit 143' TERM INT HUP
cat "$d/ctl" >"$d/code" & r=$!
` + awaitClient + `wait $r
c=; read -r c <"$d/code"
rm -rf "$d"
[ -n "$c" ] && exit "$c"
echo 'mesos-gpu: the client of the session is lost, or has not attached within a minute' >&2
exit 129
`
	// awaitHolder waits until the task is ready and opens ctl. The file attached, which appears with its content, lets only
	// the session pass whose name it has.
	awaitHolder = `n=0
until [ -p "$d/ctl" ]; do
	[ $n -lt 100 ] || { echo 'mesos-gpu: the task does not wait for a client' >&2; exit 1; }
	n=$((n+1)); sleep 0.1 2>/dev/null || sleep 1
done
echo "$0" >"$d/$0" && ln "$d/$0" "$d/attached" 2>/dev/null || [ "$(cat "$d/attached")" = "$0" ] ||
	{ echo 'mesos-gpu: the task has a client already, or had one' >&2; exit 1; }
exec 9>"$d/ctl"
`
	// feedInput copies the client's input into the pipe in and writes end if that was complete.
	feedInput = `cat >"$d/in" 9>&- && {
	# settle
	echo end >&9
}
`
	// runOnTerminal runs the command on the client's terminal and reports its exit code.
	runOnTerminal = `trap : INT QUIT
"$@" 9>&-
c=$?
echo $c >&9
exit $c
`
)
