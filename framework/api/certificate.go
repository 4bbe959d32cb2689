package api

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// Certificate is a server's, in two files that may be exchanged while it
// serves.
type Certificate struct {
	cert, key string
	log       logrus.FieldLogger

	mu   sync.Mutex
	pair *tls.Certificate
	seen [2]stamp // of the files that pair was read from, or that were refused
}

// stamp tells two versions of a file apart.
type stamp struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads the files.
func LoadCertificate(cert, key string, log logrus.FieldLogger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	return c, c.load(c.stamps())
}

// Config serves with the files as they are at each handshake.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now(), nil },
	}
}

// now reads the files again where they have changed. A pair that is no good,
// as between two writes, leaves the old one.
func (c *Certificate) now() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := c.stamps(); there != c.seen {
		if err := c.load(there); err != nil {
			c.log.WithError(err).Error("the API's certificate stays as it was")
		} else {
			c.log.WithField("file", c.cert).Info("the API's certificate was read again")
		}
	}
	return c.pair
}

func (c *Certificate) stamps() (s [2]stamp) {
	for i, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

func (c *Certificate) load(there [2]stamp) error {
	c.seen = there
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("read the API's certificate %s with key %s: %w", c.cert, c.key, err)
	}
	c.pair = &pair
	return nil
}
