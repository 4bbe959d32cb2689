// The module of gosec, apart from that of the product: gosec 2.20.0 builds with the present Go only with a newer x/tools, and
// later releases bring the clients of three language models.
module mesos-gpu/scripts/gosec

go 1.26.0

tool github.com/securego/gosec/v2/cmd/gosec

require (
	github.com/ccojocar/zxcvbn-go v1.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gookit/color v1.5.4 // indirect
	github.com/securego/gosec/v2 v2.20.0 // indirect
	github.com/xo/terminfo v0.0.0-20210125001918-ca9a967f8778 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
