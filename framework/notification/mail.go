package notification

import (
	"bytes"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"strings"
	"time"
	"unicode"

	"mesos-gpu/job"
)

// maxDigestLines limits the notifications that a digest lists.
const maxDigestLines = 200

// maxSubject limits the subject of a mail, in characters.
const maxSubject = 120

// MailMessage returns a mail, with its headers, about one notification, or a digest of several to the same recipient.
// errorLines are the end of the standard error of the task of a single one. Sender and recipient are valid addresses.
func MailMessage(from string, list []*Notification, errorLines []string, now time.Time) []byte {
	first := list[0]
	to, _ := job.MailAddress(first.To)
	_, domain, _ := strings.Cut(from, "@")
	subject, text := mailSubject(&first.Facts), mailText(&first.Facts, errorLines)
	if len(list) > 1 {
		subject, text = fmt.Sprintf("[mesos-gpu] %d events of jobs", len(list)), digestText(list)
	}
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, oneLine(value)) }
	header("From", from)
	header("To", to)
	header("Subject", mime.QEncoding.Encode("utf-8", truncateText(oneLine(subject), maxSubject)))
	header("Date", now.Format(time.RFC1123Z))
	header("Message-ID", "<"+first.ID+"@"+domain+">")
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))) // writing to memory does not fail
	_ = w.Close()
	// The encoding may break a line before its full stop. A line of one dot ends a mail in SMTP.
	return bytes.ReplaceAll(b.Bytes(), []byte("\r\n.\r\n"), []byte("\r\n=2E\r\n"))
}

// oneLine replaces control characters, so that a value cannot end its line.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// truncateText returns a text with at most limit characters, the last of which is an ellipsis if it was longer.
func truncateText(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}

func mailSubject(f *Facts) string {
	return fmt.Sprintf("[mesos-gpu] %s %s", subjectName(f), describeEvent(f))
}

func runName(f *Facts) string { return oneLine(job.RunID{Name: f.Job, Run: f.Run}.String()) }

// subjectName returns what the event is about: a run, or the role or user whose budget it concerns.
func subjectName(f *Facts) string {
	switch {
	case f.Event != job.NotifyBudget:
		return runName(f)
	case f.Owner != "":
		return oneLine(fmt.Sprintf("user %s in role %s", f.Owner, f.Role))
	}
	return oneLine("role " + f.Role)
}

// describeEvent returns, for example, "has failed".
func describeEvent(f *Facts) string {
	switch f.Event {
	case job.NotifyStart:
		return "has started"
	case job.NotifyEnd:
		if f.State == job.Finished {
			return "has finished"
		}
		return "was killed"
	case job.NotifyFailure:
		if f.Ended.IsZero() {
			return "has failed and is started again"
		}
		return "has failed"
	case job.NotifyPreemption:
		return "makes room"
	case job.NotifyIdle:
		return "was idle and is stopped"
	case job.NotifyGPUIdle:
		return "has idle GPUs"
	case job.NotifyQuota:
		return "waits for quota"
	case job.NotifyBudget:
		return "has used most or all of a budget"
	}
	return oneLine(string(f.Event))
}

// mailText returns the text of a mail about one event. Empty facts have no line.
func mailText(f *Facts, errorLines []string) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name+":", oneLine(value))
		}
	}
	if f.Event != job.NotifyBudget {
		b.WriteString("Job ")
	}
	fmt.Fprintf(&b, "%s %s.\n\n", subjectName(f), describeEvent(f))
	line("Reason", f.Reason)
	if f.ExitCode != nil {
		line("Exit code", fmt.Sprint(*f.ExitCode))
	}
	line("State", string(f.State))
	line("Role", f.Role)
	line("Owner", f.Owner)
	if f.Tasks > 0 {
		names := strings.Join(f.TaskIDs, ", ")
		if more := f.Tasks - len(f.TaskIDs); more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		line("Tasks", names)
	}
	line("Host", f.Hostname)
	for _, at := range []struct {
		name string
		time time.Time
	}{{"Event", f.Time}, {"Submitted", f.Submitted}, {"Started", f.Started}, {"Ended", f.Ended}} {
		if !at.time.IsZero() {
			line(at.name, at.time.UTC().Format(time.RFC3339))
		}
	}
	if len(errorLines) > 0 {
		fmt.Fprintf(&b, "\nLast lines of the standard error of %s:\n\n", oneLine(f.TaskIDs[0]))
		for _, text := range errorLines {
			fmt.Fprintf(&b, "  %s\n", oneLine(text))
		}
	}
	if f.Event == job.NotifyBudget {
		fmt.Fprintf(&b, "\nmesos-gpu quota explain %s\n", oneLine(f.Role))
	} else {
		fmt.Fprintf(&b, "\nmesos-gpu describe %s\nmesos-gpu logs %s\n", runName(f), runName(f))
	}
	return b.String()
}

// digestText returns the text of a mail about several events, with a line for each of the first maxDigestLines.
func digestText(list []*Notification) string {
	var b strings.Builder
	b.WriteString("These events are in one mail because this address has received many mails within an hour.\n\n")
	for i, n := range list {
		if i == maxDigestLines {
			fmt.Fprintf(&b, "and %d more\n", len(list)-i)
			break
		}
		text := fmt.Sprintf("%s %s %s", n.Time.UTC().Format(time.RFC3339), subjectName(&n.Facts), describeEvent(&n.Facts))
		if n.Reason != "" {
			text += ": " + n.Reason
		}
		b.WriteString(truncateText(oneLine(text), 300) + "\n")
	}
	return b.String()
}
