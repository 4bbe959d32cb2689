package notifier

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/notification"
	"mesos-gpu/job"
	"mesos-gpu/job/editdistance"
	"mesos-gpu/job/jobfile"
)

// Settings is the operator's configuration of notifications.
type Settings struct {
	// Targets are the targets that jobs may notify.
	Targets notification.AllowedTargets
	Retry   notification.RetrySchedule
	IdleGPU notification.IdleGPURule
	// secrets sign webhooks; the first one is the newest. webhookTLS verifies their servers.
	secrets    [][]byte
	webhookTLS *tls.Config
	// mail is nil if no server is configured.
	mail *mailSettings
}

// mailSettings are the server and the account by which mails are sent.
type mailSettings struct {
	// host and port are the server's address. implicitTLS means that the connection starts with TLS.
	host, port  string
	implicitTLS bool
	tls         *tls.Config
	// from is the sender's address. user is "" without authentication.
	from, user, password string
	// perHour is how many mails a recipient gets within an hour, at least 1.
	perHour int
}

// settingsFile is the file of the settings.
type settingsFile struct {
	Webhooks *struct {
		Hosts      []string `yaml:"hosts"`
		SecretFile string   `yaml:"secret_file"`
		CAFile     string   `yaml:"ca_file"`
	} `yaml:"webhooks"`
	Mail *struct {
		Server         string   `yaml:"server"`
		From           string   `yaml:"from"`
		CredentialFile string   `yaml:"credential_file"`
		CAFile         string   `yaml:"ca_file"`
		Domains        []string `yaml:"domains"`
		PerHour        int      `yaml:"per_hour"`
	} `yaml:"mail"`
	Retry struct {
		First    jobfile.Duration `yaml:"first"`
		Longest  jobfile.Duration `yaml:"longest"`
		Attempts int              `yaml:"attempts"`
		GiveUp   jobfile.Duration `yaml:"give_up"`
	} `yaml:"retry"`
	GPUIdle struct {
		After jobfile.Duration `yaml:"after"`
		Below float64          `yaml:"below"`
	} `yaml:"gpu_idle"`
}

// Limits of the files.
const (
	maxSettingsBytes = 1 << 20
	maxSecretBytes   = 4096
	// minSecretLength is the least length of a secret, in bytes: half of an HMAC-SHA256 key.
	minSecretLength = 16
	// maxSecrets is 2: the one in use and its successor.
	maxSecrets = 2
	// defaultPerHour is the limit of mails to one recipient within an hour.
	defaultPerHour = 20
)

// LoadSettings reads the settings from a YAML file, and the secrets from the files that it names. Its errors contain no
// secret.
func LoadSettings(path string) (*Settings, error) {
	s, err := loadSettings(path)
	if err != nil {
		return nil, fmt.Errorf("notifications %s: %w", path, err)
	}
	return s, nil
}

func loadSettings(path string) (*Settings, error) {
	data, err := readLimited(path, maxSettingsBytes)
	if err != nil {
		return nil, err
	}
	var f settingsFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, describeDecodeError(err)
	}
	s := &Settings{Targets: notification.AllowedTargets{Enabled: true}, Retry: notification.DefaultRetrySchedule(), IdleGPU: notification.DefaultIdleGPURule()}
	r := &s.Retry
	r.First, r.Longest = cmp.Or(time.Duration(f.Retry.First), r.First), cmp.Or(time.Duration(f.Retry.Longest), r.Longest)
	r.MaxAttempts, r.GiveUpAfter = cmp.Or(f.Retry.Attempts, r.MaxAttempts), cmp.Or(time.Duration(f.Retry.GiveUp), r.GiveUpAfter)
	if r.First <= 0 || r.Longest < r.First || r.MaxAttempts < 1 || r.GiveUpAfter <= 0 {
		return nil, errors.New("retry: first, longest, attempts and give_up must be above 0, and longest not below first")
	}
	g := &s.IdleGPU
	g.After, g.Below = cmp.Or(time.Duration(f.GPUIdle.After), g.After), cmp.Or(f.GPUIdle.Below, g.Below)
	if g.After < time.Second || !(g.Below > 0 && g.Below <= 1) {
		return nil, fmt.Errorf("gpu_idle: after %s is not 1s or more, or below %g not a duty above 0 and up to 1", g.After, g.Below)
	}
	return s, errors.Join(f.readWebhooks(s), f.readMail(s))
}

// unknownField matches the YAML library's error for an unknown key.
var unknownField = regexp.MustCompile(`^(line [0-9]+): field (.*) not found in type .*$`)

// describeDecodeError returns the mistakes of a file without names of Go types. Unknown keys get the most similar known one.
func describeDecodeError(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return err
	}
	var errs []error
	for _, text := range wrong.Errors {
		m := unknownField.FindStringSubmatch(text)
		if m == nil {
			errs = append(errs, errors.New(text))
			continue
		}
		hint := ""
		if near := editdistance.Nearest(m[2], settingsKeys(reflect.TypeFor[settingsFile]())); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		errs = append(errs, fmt.Errorf("%s: unknown key %q%s", m[1], m[2], hint))
	}
	return errors.Join(errs...)
}

// settingsKeys returns the keys of a struct and of those in it.
func settingsKeys(t reflect.Type) (keys []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		keys = append(append(keys, f.Tag.Get("yaml")), settingsKeys(f.Type)...)
	}
	return keys
}

// readWebhooks checks the section of webhooks, reads the secrets and sets both in s.
func (f *settingsFile) readWebhooks(s *Settings) (err error) {
	w := f.Webhooks
	if w == nil {
		return nil
	}
	for _, host := range w.Hosts {
		if job.ValidateFetchHost(host) != nil {
			return fmt.Errorf("webhooks: hosts: %q: write HOST, *.SUFFIX or *, with :PORT for another than the default port of the scheme", host)
		}
	}
	s.Targets.WebhookHosts = w.Hosts
	if w.SecretFile == "" {
		return errors.New("webhooks: secret_file is missing: receivers verify the signature with its secret")
	}
	text, err := readLimited(w.SecretFile, maxSecretBytes)
	if err != nil {
		return fmt.Errorf("webhooks: secret_file: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			s.secrets = append(s.secrets, []byte(line))
		}
	}
	if len(s.secrets) < 1 || len(s.secrets) > maxSecrets {
		return fmt.Errorf("webhooks: secret_file has %d secrets, want one line, or two while one replaces the other", len(s.secrets))
	}
	for _, secret := range s.secrets {
		if len(secret) < minSecretLength {
			return fmt.Errorf("webhooks: secret_file has a secret of %d bytes, at least %d are needed", len(secret), minSecretLength)
		}
	}
	if s.webhookTLS, err = tlsConfig(w.CAFile); err != nil {
		return fmt.Errorf("webhooks: ca_file: %w", err)
	}
	return nil
}

// readMail checks the section of mail, reads the credential and sets both in s.
func (f *settingsFile) readMail(s *Settings) (err error) {
	m := f.Mail
	if m == nil {
		return nil
	}
	mail := &mailSettings{from: m.From, perHour: cmp.Or(m.PerHour, defaultPerHour)}
	server, implicit := strings.CutPrefix(m.Server, "smtps://")
	if mail.host, mail.port, err = net.SplitHostPort(strings.TrimPrefix(server, "smtp://")); err != nil || mail.host == "" || mail.port == "" {
		return fmt.Errorf("mail: server %q: write HOST:PORT, or smtps://HOST:PORT for a connection that starts with TLS", m.Server)
	}
	mail.implicitTLS = implicit
	if err := job.ValidateNotificationRules([]job.NotificationRule{{To: "mailto:" + m.From}}); err != nil {
		return fmt.Errorf("mail: from: %q is not an address such as gpu@example.org", m.From)
	}
	if mail.perHour < 1 {
		return fmt.Errorf("mail: per_hour %d is not 1 or more", m.PerHour)
	}
	for _, domain := range m.Domains {
		if strings.Contains(strings.TrimPrefix(domain, "*"), "*") || strings.ContainsAny(domain, "@ ") || domain == "" {
			return fmt.Errorf("mail: domains: %q: write DOMAIN, *.SUFFIX or *", domain)
		}
	}
	s.Targets.MailDomains = m.Domains
	if m.CredentialFile != "" {
		text, err := readLimited(m.CredentialFile, maxSecretBytes)
		if err != nil {
			return fmt.Errorf("mail: credential_file: %w", err)
		}
		var ok bool
		if mail.user, mail.password, ok = strings.Cut(strings.TrimSpace(string(text)), ":"); !ok || mail.user == "" ||
			strings.ContainsAny(string(bytes.TrimSpace(text)), "\r\n\x00") {
			return errors.New("mail: credential_file: write USER:PASSWORD in one line")
		}
	}
	if mail.tls, err = tlsConfig(m.CAFile); err != nil {
		return fmt.Errorf("mail: ca_file: %w", err)
	}
	mail.tls.ServerName = mail.host
	s.mail = mail
	return nil
}

// tlsConfig trusts the system's certificates, or those of a file.
func tlsConfig(caFile string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return c, nil
	}
	text, err := readLimited(caFile, maxSettingsBytes)
	if err != nil {
		return nil, err
	}
	if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate", caFile)
	}
	return c, nil
}

// readLimited reads a file. It fails for one of more than limit bytes, such as a device.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}
