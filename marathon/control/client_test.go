package control

import marathonclient "github.com/gambol99/go-marathon"

var _ = marathonclient.NewDefaultConfig
