package notifier

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/job"
)

// sendMail sends one mail about the notifications, which have the same recipient. It returns a *permanentError if
// another attempt is useless. It takes at most timeout, from the connection to the server's last answer.
func sendMail(ctx context.Context, s *Settings, list []*notification.Notification, errorLines []string, timeout time.Duration, now time.Time) error {
	if err := s.Targets.CheckTarget(list[0].To); err != nil {
		return &permanentError{err}
	}
	m := s.mail
	if m == nil {
		return &permanentError{errors.New("no mail server is configured")}
	}
	to, _ := job.MailAddress(list[0].To)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(m.host, m.port))
	if err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	if err := m.deliver(conn, to, notification.MailMessage(m.from, list, errorLines, now)); err != nil {
		if ctx.Err() != nil {
			return errors.New("the mail server does not answer in time")
		}
		return classifyMailError(err)
	}
	return nil
}

// deliver sends a message over a connection to the server. It returns nil once the server has accepted the message, and is
// then responsible for it.
func (m *mailSettings) deliver(conn net.Conn, to string, message []byte) error {
	if m.implicitTLS {
		conn = tls.Client(conn, m.tls)
	}
	c, err := smtp.NewClient(conn, m.host)
	if err != nil {
		return err
	}
	defer c.Close()
	if name, err := os.Hostname(); err == nil && name != "" {
		if err := c.Hello(name); err != nil {
			return err
		}
	}
	if err := m.secure(c, conn); err != nil {
		return err
	}
	if err := m.authenticate(c); err != nil {
		return err
	}
	if err := c.Mail(m.from); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(message); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the server has accepted the message
	return nil
}

// secure starts TLS. Only the connection to a server on this machine may be without it.
func (m *mailSettings) secure(c *smtp.Client, conn net.Conn) error {
	if m.implicitTLS {
		return nil
	}
	if ok, _ := c.Extension("STARTTLS"); ok {
		return c.StartTLS(m.tls)
	}
	if isLoopback(conn.RemoteAddr()) {
		return nil
	}
	return errors.New("the mail server does not offer STARTTLS")
}

// isLoopback reports whether an address is one of this machine that no other machine reaches.
func isLoopback(addr net.Addr) bool {
	a, err := netip.ParseAddrPort(addr.String())
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// authenticate logs in, if the operator has configured an account. The password is sent over TLS only.
func (m *mailSettings) authenticate(c *smtp.Client) error {
	if m.user == "" {
		return nil
	}
	if _, secured := c.TLSConnectionState(); !secured {
		return errors.New("the connection to the mail server has no TLS: the password is not sent")
	}
	_, methods := c.Extension("AUTH")
	switch words := strings.Fields(strings.ToUpper(methods)); {
	case slices.Contains(words, "PLAIN"):
		return c.Auth(smtp.PlainAuth("", m.user, m.password, m.host))
	case slices.Contains(words, "LOGIN"):
		return c.Auth(&loginAuth{user: m.user, password: m.password})
	}
	return errors.New("the mail server offers neither AUTH PLAIN nor AUTH LOGIN")
}

// loginAuth is the mechanism LOGIN, which net/smtp does not have: the server requests the user and then the password.
type loginAuth struct {
	user, password string
	// sent counts the answers.
	sent int
}

func (a *loginAuth) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS {
		return "", nil, errors.New("the connection has no TLS")
	}
	return "LOGIN", nil, nil
}

func (a *loginAuth) Next(_ []byte, more bool) ([]byte, error) {
	if !more {
		return nil, nil
	}
	a.sent++
	switch a.sent {
	case 1:
		return []byte(a.user), nil
	case 2:
		return []byte(a.password), nil
	}
	return nil, errors.New("the mail server requests more than a user and a password")
}

// classifyMailError returns a *permanentError for an answer that the server will repeat, such as an unknown recipient.
// Failures of the login are not permanent: the operator may correct the account.
func classifyMailError(err error) error {
	var answer *textproto.Error
	if !errors.As(err, &answer) {
		return fmt.Errorf("mail server: %w", err)
	}
	err = fmt.Errorf("the mail server answers %d %s", answer.Code, truncate(answer.Msg, 200))
	if answer.Code >= 550 && answer.Code <= 559 {
		return &permanentError{err}
	}
	return err
}

// truncate returns a text with at most limit characters and, if it was longer, an ellipsis.
func truncate(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
