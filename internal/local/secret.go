package local

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/framework/master"
	"mesos-gpu/internal/atomicfile"
)

// secretFile is the name of the file in the work directory with the secret of the
// cluster's parts, in the form of Mesos's --credential.
const secretFile = "internal-credential.json"

// secretPrincipal is the principal of the scheduler and of the GPU daemons.
const secretPrincipal = "mesos-gpu-local"

// internalSecret authenticates the parts of a cluster and its executors to each other. It
// is the same for all clusters of a work directory, because executors survive them.
type internalSecret struct{ path, text string }

// loadSecret reads the secret of a work directory, or creates it.
func loadSecret(workDir string) (internalSecret, error) {
	path := filepath.Join(workDir, secretFile)
	known, _, err := master.LoadCredential(path)
	switch {
	case err == nil:
		return internalSecret{path, known.Secret}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return internalSecret{}, err
	}
	s := internalSecret{path, rand.Text()}
	text, err := json.Marshal(map[string]string{"principal": secretPrincipal, "secret": s.text})
	if err == nil {
		err = errors.Join(os.MkdirAll(workDir, workDirMode), atomicfile.Write(path, text, 0o600))
	}
	if err != nil {
		return s, fmt.Errorf("store the secret of the cluster's parts: %w", err)
	}
	return s, nil
}

// basicAuthorization returns the header with which the scheduler and the daemons
// authenticate.
func (s internalSecret) basicAuthorization() string {
	return master.Credential{Principal: secretPrincipal, Secret: s.text}.AuthorizationHeader()
}

// requireSecret rejects requests to the embedded master or an agent from other programs of
// the machine if the API has a socket: they could run commands as any user.
func (c *localCluster) requireSecret(h http.Handler) http.Handler {
	if c.Scheduler.API.Socket == "" {
		return h
	}
	accepted := []string{c.secret.basicAuthorization(), "Bearer " + c.secret.text} // the second one is of executors
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/redirect") { // clients look for the leading master without credentials
			h.ServeHTTP(w, r)
			return
		}
		given := []byte(r.Header.Get("Authorization"))
		for _, one := range accepted {
			if subtle.ConstantTimeCompare(given, []byte(one)) == 1 {
				h.ServeHTTP(w, r)
				return
			}
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="mesos-gpu-local"`)
		http.Error(w, "this part of mesos-gpu local serves only its own programs: use the API", http.StatusUnauthorized)
	})
}
