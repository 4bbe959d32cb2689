package notification

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/job"
)

// TestAllowedTargets: nothing is allowed by default, and a star covers neither internal names nor internal addresses.
func TestAllowedTargets(t *testing.T) {
	some := AllowedTargets{
		Enabled:      true,
		WebhookHosts: job.FetchHosts{"hooks.example.org", "*.corp.example.org:8443", "10.0.0.7:9000"},
		MailDomains:  []string{"example.org", "*.example.net"},
	}
	star := AllowedTargets{Enabled: true, WebhookHosts: job.FetchHosts{"*"}, MailDomains: []string{"*"}}
	for _, c := range []struct {
		to         string
		some, star bool
	}{
		{"https://hooks.example.org/x", true, true},
		{"https://HOOKS.example.org./x", true, true},
		{"https://hooks.example.org:444/x", false, false},
		{"https://a.corp.example.org:8443/", true, false},
		{"http://10.0.0.7:9000/hook", true, false},
		{"http://10.0.0.8:9000/hook", false, false},
		{"http://127.0.0.1/", false, false},
		{"http://[::1]/", false, false},
		{"http://169.254.169.254/latest/meta-data", false, false},
		{"http://2130706433/", false, false},
		{"http://0x7f.1/", false, false},
		{"http://localhost/", false, false},
		{"http://vault.internal/", false, false},
		{"https://example.com/", false, true},
		{"mailto:alice@example.org", true, true},
		{"mailto:alice@EXAMPLE.ORG", true, true},
		{"mailto:alice@example.net", false, true},
		{"mailto:alice@gpu.example.net", true, true},
		{"mailto:alice@evilexample.org", false, true},
	} {
		for name, a := range map[string]struct {
			targets AllowedTargets
			want    bool
		}{
			"some":           {some, c.some},
			"star":           {star, c.star},
			"none":           {AllowedTargets{Enabled: true}, false},
			"not configured": {AllowedTargets{WebhookHosts: job.FetchHosts{"*"}}, false},
		} {
			if err := a.targets.CheckTarget(c.to); (err == nil) != a.want {
				t.Errorf("%s: %s: %v, want it allowed: %t", name, c.to, err, a.want)
			}
		}
	}
}

func TestRedactTarget(t *testing.T) {
	for to, want := range map[string]string{
		"mailto:alice@example.org":                        "mailto:alice@example.org",
		"https://hooks.example.org":                       "https://hooks.example.org",
		"https://hooks.example.org/services/T0/B0/secret": "https://hooks.example.org/…",
		"https://hooks.example.org?token=secret":          "https://hooks.example.org/…",
		"https://user:secret@hooks.example.org/x":         "https://hooks.example.org/…",
	} {
		if got := RedactTarget(to); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
	}
}

// TestRetriesEnd: pauses grow to the longest one, vary by at most a fifth, and end after the attempts or the time.
func TestRetriesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := RetrySchedule{
			First: time.Duration(rapid.Int64Range(1e9, 60e9).Draw(t, "first")), MaxAttempts: rapid.IntRange(1, 50).Draw(t, "attempts"),
			GiveUpAfter: time.Duration(rapid.Int64Range(1e9, 48*3600e9).Draw(t, "give up")),
		}
		s.Longest = s.First * time.Duration(rapid.Int64Range(1, 1000).Draw(t, "longest"))
		start := time.Unix(1_700_000_000, 0)
		n := New("mailto:a@example.org", Facts{Job: rapid.StringMatching(`[a-z]{1,9}`).Draw(t, "job"), Time: start})
		now, want := start, s.First
		for {
			next := s.NextAttempt(n, now)
			n.Attempts++
			if next.IsZero() {
				if n.Attempts < s.MaxAttempts && now.Add(want*6/5).Sub(start) < s.GiveUpAfter {
					t.Fatalf("given up after %d attempts in %s", n.Attempts, now.Sub(start))
				}
				break
			}
			if pause := next.Sub(now); pause < want*79/100 || pause > want*121/100 {
				t.Fatalf("pause %d is %s, want about %s", n.Attempts, pause, want)
			}
			if n.Attempts >= s.MaxAttempts || next.Sub(start) > s.GiveUpAfter {
				t.Fatalf("attempt %d after %s", n.Attempts+1, next.Sub(start))
			}
			now, want = next, min(2*want, s.Longest)
		}
	})
}

// TestSignature checks the signature against one that openssl has computed.
func TestSignature(t *testing.T) {
	// printf '1700000000.{"id":"x"}' | openssl dgst -sha256 -hmac 0123456789abcdef
	got := Sign([][]byte{[]byte("0123456789abcdef"), []byte("other secret")}, time.Unix(1_700_000_000, 0), []byte(`{"id":"x"}`))
	parts := strings.Split(got, ",")
	if len(parts) != 3 || parts[0] != "t=1700000000" || parts[1] != "v1="+opensslSignature || parts[1] == parts[2] {
		t.Errorf("signature %s", got)
	}
}

// TestIDsAreStable: equal facts have equal ids, and any other target, run, event or time has another one.
func TestIDsAreStable(t *testing.T) {
	f := Facts{Event: job.NotifyEnd, Time: time.Unix(1, 5), Job: "a", Submitted: time.Unix(1, 0)}
	ids := map[string]string{}
	for name, change := range map[string]func(*Facts){
		"time": func(f *Facts) { f.Time = f.Time.Add(1) }, "event": func(f *Facts) { f.Event = job.NotifyStart },
		"job": func(f *Facts) { f.Job = "b" }, "run": func(f *Facts) { f.Submitted = f.Submitted.Add(1) }, "none": func(*Facts) {},
	} {
		g := f
		change(&g)
		ids[New("mailto:a@example.org", g).ID] = name
	}
	ids[New("mailto:b@example.org", f).ID] = "target"
	if len(ids) != 6 {
		t.Errorf("ids are not unique: %v", ids)
	}
	g := f
	g.Reason, g.State = "other", job.Failed
	if New("mailto:a@example.org", g).ID != New("mailto:a@example.org", f).ID {
		t.Error("the reason changes the id")
	}
}

// TestMailIsSafe: no text of a job adds a header or a line of SMTP, and the mail has the facts.
func TestMailIsSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("x\r\nBcc: eve@example.com\r\n\r\nbody"), rapid.Just("\r\n.\r\nQUIT\r\n"), rapid.Just("a\u2028b\x00c"))
		code := 3
		list := []*Notification{}
		for range rapid.IntRange(1, 3).Draw(t, "n") {
			list = append(list, New("mailto:alice@example.org", Facts{
				Event:     job.NotificationEvent(text.Draw(t, "event")),
				Job:       text.Draw(t, "job"),
				Run:       2,
				Role:      text.Draw(t, "role"),
				Owner:     text.Draw(t, "owner"),
				Reason:    text.Draw(t, "reason"),
				Hostname:  text.Draw(t, "host"),
				ExitCode:  &code,
				Tasks:     12,
				TaskIDs:   []string{text.Draw(t, "task")},
				Submitted: time.Unix(1, 0),
			}))
		}
		raw := MailMessage("gpu@example.org", list, []string{text.Draw(t, "output")}, time.Unix(1_700_000_000, 0).UTC())
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Header) != 9 || m.Header.Get("To") != "alice@example.org" || m.Header.Get("From") != "gpu@example.org" || m.Header.Get("Bcc") != "" {
			t.Fatalf("headers %v", m.Header)
		}
		for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
			if line := s.Text(); len(line) > 998 || strings.Trim(line, "\r\n") == "." {
				t.Fatalf("line %q", line)
			}
		}
		if body, err := io.ReadAll(quotedprintable.NewReader(m.Body)); err != nil || len(body) == 0 {
			t.Fatalf("body %q, %v", body, err)
		}
	})
}

// TestMailHasNoLineOfOneDot: where the encoding breaks a sentence before its full stop, the dot is encoded.
func TestMailHasNoLineOfOneDot(t *testing.T) {
	for length := range 100 {
		n := New("mailto:alice@example.org", Facts{Event: job.NotifyStart, Job: strings.Repeat("x", length), Run: 1})
		raw := MailMessage("gpu@example.org", []*Notification{n}, nil, time.Unix(1_700_000_000, 0).UTC())
		m, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
		if want := "Job " + runName(&n.Facts) + " has started.\r\n"; err != nil || !strings.HasPrefix(string(body), want) {
			t.Errorf("a name of %d characters: body %q, %v, want %q", length, body, err, want)
		}
		if bytes.Contains(raw, []byte("\r\n.\r\n")) {
			t.Errorf("a name of %d characters: %q has a line of one dot", length, raw)
		}
	}
}

func TestMailHasTheFacts(t *testing.T) {
	code := 3
	n := New("mailto:alice@example.org", Facts{
		Event:     job.NotifyFailure,
		Time:      time.Unix(1_700_000_100, 0),
		Job:       "träin",
		Run:       2,
		Role:      "research",
		Owner:     "alice",
		State:     job.Failed,
		Reason:    "exited with status 3",
		ExitCode:  &code,
		Tasks:     12,
		TaskIDs:   []string{"t.0.1"},
		Hostname:  "gpu1",
		Submitted: time.Unix(1_700_000_000, 0),
		Ended:     time.Unix(1_700_000_100, 0),
	})
	m, err := mail.ReadMessage(bytes.NewReader(MailMessage("gpu@example.org", []*Notification{n}, []string{"Traceback:", "."}, time.Unix(1_700_000_100, 0).UTC())))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "[mesos-gpu] träin@2 has failed" {
		t.Errorf("subject %q, %v", subject, err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Reason:    exited with status 3\r\n", "Exit code: 3", "Role:      research", "Tasks:     t.0.1 and 11 more",
		"Host:      gpu1", "Ended:     2023-11-14T22:15:00Z",
		"standard error of t.0.1:\r\n\r\n  Traceback:\r\n  .\r\n\r\nmesos-gpu describe",
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the mail lacks %q:\n%s", want, body)
		}
	}
	digest := MailMessage("gpu@example.org", []*Notification{n, n}, nil, time.Unix(1_700_000_100, 0).UTC())
	if !bytes.Contains(digest, []byte("Subject: [mesos-gpu] 2 events of jobs\r\n")) {
		t.Errorf("digest:\n%s", digest)
	}
}

func TestMailsAreLimited(t *testing.T) {
	l, now := RateLimiter{PerWindow: 3}, time.Unix(1_700_000_000, 0)
	for i := range 3 {
		if n, _ := l.Remaining("a", now); n != 3-i {
			t.Errorf("%d remain, want %d", n, 3-i)
		}
		l.CountSent("a", now)
		now = now.Add(time.Minute)
	}
	if n, next := l.Remaining("a", now); n != 0 || !next.Equal(now.Add(57*time.Minute)) {
		t.Errorf("%d remain, next %s", n, next)
	}
	if n, _ := l.Remaining("b", now); n != 3 {
		t.Errorf("another recipient has %d", n)
	}
	if n, _ := l.Remaining("a", now.Add(58*time.Minute)); n != 2 {
		t.Errorf("%d remain after an hour", n)
	}
	if n, _ := l.Remaining("a", now.Add(2*time.Hour)); n != 3 || len(l.sent) != 0 {
		t.Errorf("%d remain, of %d recipients", n, len(l.sent))
	}
}

// Recipients without mails in the last hour are removed by later mails to others.
func TestOldRecipientsAreRemoved(t *testing.T) {
	l, now := RateLimiter{PerWindow: 3}, time.Unix(1_700_000_000, 0)
	for _, to := range []string{"a", "b", "c"} {
		l.CountSent(to, now)
		now = now.Add(RateWindow)
	}
	if len(l.sent) != 1 {
		t.Errorf("%d recipients, want the last one", len(l.sent))
	}
}

const opensslSignature = "f1cf8ba6a2fa64bd8193b9db564f42cd35d0fc2a46f6a2c2903f897838a7f23a"
