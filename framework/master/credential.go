package master

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mesos-gpu/framework/internal/secret"
)

// Credential authenticates the framework to masters and agents by HTTP basic
// authentication. It prints as its principal, so that logs never have the
// secret.
type Credential struct{ Principal, Secret string }

func (c Credential) String() string   { return c.Principal }
func (c Credential) GoString() string { return fmt.Sprintf("%q", c.Principal) }

// LoadCredential reads a file in one of the forms of Mesos's --credential:
// {"principal": "P", "secret": "S"}, or the two words P and S. warning is not
// empty if other users may read the file.
func LoadCredential(path string) (c Credential, warning string, err error) {
	text, warning, err := secret.ReadFile(path)
	if err != nil {
		return Credential{}, "", fmt.Errorf("read credential: %w", err)
	}
	if c, err = parseCredential(text); err != nil {
		return Credential{}, "", fmt.Errorf("read credential %s: %w", path, err)
	}
	return c, warning, nil
}

// The errors of parseCredential never quote the text.
func parseCredential(text string) (Credential, error) {
	var c Credential
	if strings.HasPrefix(text, "{") {
		var form struct{ Principal, Secret string }
		if json.Unmarshal([]byte(text), &form) != nil {
			return c, errors.New(`it is not JSON of the form {"principal": "…", "secret": "…"}`)
		}
		c = Credential(form)
	} else if words := strings.Fields(text); len(words) == 2 {
		c = Credential{Principal: words[0], Secret: words[1]}
	} else {
		return c, fmt.Errorf("it has %d words, want two, a principal and its secret, or JSON", len(words))
	}
	return c, c.validate()
}

// validate returns an error for a credential that masters would reject. It does not contain the secret.
func (c Credential) validate() error {
	switch {
	case c.Principal == "" && c.Secret == "":
		return errors.New("the credential has neither principal nor secret")
	case c.Principal == "":
		return errors.New("the credential has no principal")
	case strings.Contains(c.Principal, ":"):
		return fmt.Errorf("principal %q has a colon, where HTTP basic authentication ends the name", c.Principal)
	}
	return nil
}

// AuthorizationHeader returns the header's value; "" without a principal.
func (c Credential) AuthorizationHeader() string {
	if c.Principal == "" {
		return ""
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Principal+":"+c.Secret))
}

// setAuthorization sets the header. Without a principal it does nothing.
func (c Credential) setAuthorization(req *http.Request) {
	if header := c.AuthorizationHeader(); header != "" {
		req.Header.Set("Authorization", header)
	}
}
