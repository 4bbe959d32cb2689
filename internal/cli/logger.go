package cli

import (
	"fmt"
	"github.com/coreos/go-systemd/v22/journal"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"io"
	"os"
	"strings"
) // newLogger writes to the standard error: for a journal with each line's priority.
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

// isJournalStream reports whether w is what systemd gave this process for its log: the
// journal takes "<3>" in front of a line for the line's priority.
func isJournalStream(w io.Writer) bool {
	if w != os.Stderr {
		return false
	}
	is, err := journal.StderrIsJournalStream()
	return is && err == nil
}

// priorityFormatter puts priorities in front of lines.
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

// PrintError writes why the program ends; each line is an error of its own in a
// journal.
func PrintError(w io.Writer, text string) {
	text = "mesos-gpu: " + text
	if isJournalStream(w) {
		p := string(syslogPriority(logrus.ErrorLevel))
		text = p + strings.ReplaceAll(text, "\n", "\n"+p)
	}
	fmt.Fprintln(w, text)
}

func AddLogLevelFlag(c *cobra.Command, level *string) {
	c.Flags().StringVar(level, "log-level", "info", "debug, info, warn or error")
}
