package apiserver

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// ReloadingCertificate is a server certificate in two files. It reloads them when they
// change, without a restart. It is safe for concurrent use.
type ReloadingCertificate struct {
	// certPath and keyPath are the PEM files of the certificate and its key.
	certPath, keyPath string
	// log reports reloads, and files that cannot be loaded.
	log logrus.FieldLogger

	// mu protects the fields below.
	mu sync.Mutex
	// current is the last certificate that was loaded successfully.
	current *tls.Certificate
	// loadedFrom are the versions of both files at the last attempt to load them, successful or
	// not: a pair that cannot be loaded is logged once.
	loadedFrom [2]fileStamp
}

// fileStamp identifies a version of a file.
type fileStamp struct {
	modified time.Time
	size     int64
}

// LoadCertificate loads the pair. It returns an error if the files are not a valid pair.
func LoadCertificate(cert, key string, log logrus.FieldLogger) (*ReloadingCertificate, error) {
	c := &ReloadingCertificate{certPath: cert, keyPath: key, log: log}
	return c, c.loadPair(c.fileStamps())
}

// TLSConfig returns a server configuration that checks the files at each handshake.
func (c *ReloadingCertificate) TLSConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.currentPair(), nil },
	}
}

// currentPair reloads the files if they have changed. If the new pair is invalid, as
// between the writes of both files, it keeps the old one and logs the error.
func (c *ReloadingCertificate) currentPair() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.fileStamps(); now != c.loadedFrom {
		if err := c.loadPair(now); err != nil {
			c.log.WithError(err).Error("the API's certificate is not reloaded")
		} else {
			c.log.WithField("file", c.certPath).Info("the API's certificate was read again")
		}
	}
	return c.current
}

// fileStamps returns the present versions of both files, zero for one that cannot be read.
func (c *ReloadingCertificate) fileStamps() (s [2]fileStamp) {
	for i, path := range []string{c.certPath, c.keyPath} {
		if info, err := os.Stat(path); err == nil {
			s[i] = fileStamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

// loadPair loads the files, whose versions are stamps. After an error the previous pair stays in use.
func (c *ReloadingCertificate) loadPair(stamps [2]fileStamp) error {
	c.loadedFrom = stamps
	pair, err := tls.LoadX509KeyPair(c.certPath, c.keyPath)
	if err != nil {
		return fmt.Errorf("read the API's certificate %s with key %s: %w", c.certPath, c.keyPath, err)
	}
	c.current = &pair
	return nil
}
