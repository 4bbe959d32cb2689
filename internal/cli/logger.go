package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
)

// NewLogger returns a logger that writes to standard error. If that is the systemd
// journal, each line starts with its priority. It returns a UsageError for an
// unknown level.
func (a *App) NewLogger(level string) (*logrus.Logger, error) {
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, &UsageError{fmt.Errorf("--log-level %s: use debug, info, warn or error", level)}
	}
	log := logrus.New()
	log.SetOutput(a.Stderr)
	log.SetLevel(parsed)
	if isJournalStream(a.Stderr) {
		log.SetFormatter(priorityFormatter{log.Formatter})
	}
	return log, nil
}

// isJournalStream reports whether w is the journal stream that systemd gave this
// process. The journal reads a prefix such as "<3>" as the line's priority.
func isJournalStream(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := journal.StderrIsJournalStream()
	return is && err == nil
}

// priorityFormatter prefixes each line with its syslog priority.
type priorityFormatter struct{ logrus.Formatter }

func (p priorityFormatter) Format(e *logrus.Entry) ([]byte, error) {
	line, err := p.Formatter.Format(e)
	return append(syslogPriority(e.Level), line...), err
}

func syslogPriority(level logrus.Level) []byte {
	p := journal.PriDebug
	switch level {
	case logrus.PanicLevel, logrus.FatalLevel:
		p = journal.PriCrit
	case logrus.ErrorLevel:
		p = journal.PriErr
	case logrus.WarnLevel:
		p = journal.PriWarning
	case logrus.InfoLevel:
		p = journal.PriInfo
	}
	return fmt.Appendf(nil, "<%d>", p)
}

// PrintError writes the error that ends the program. Each line is an error of its own, and has the program's name. In the
// systemd journal each becomes an entry, with the priority of an error.
func PrintError(w io.Writer, text string) {
	prefix := "mesos-gpu: "
	if isJournalStream(w) {
		prefix = string(syslogPriority(logrus.ErrorLevel)) + prefix
	}
	fmt.Fprintln(w, prefix+strings.ReplaceAll(text, "\n", "\n"+prefix))
}

func AddLogLevelFlag(c *cobra.Command, level *string) {
	c.Flags().StringVar(level, "log-level", "info", "log level: debug, info, warn or error")
}
