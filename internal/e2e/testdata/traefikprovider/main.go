// Command traefikprovider runs Traefik's provider for Marathon and prints each configuration as
// a line of JSON. It is a module of its own: only make test-marathon builds it.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/traefik/traefik/v2/pkg/config/dynamic"
	"github.com/traefik/traefik/v2/pkg/provider/marathon"
	"github.com/traefik/traefik/v2/pkg/safe"
)

func main() {
	p := marathon.Provider{}
	p.SetDefaults()
	p.Endpoint, p.RespectReadinessChecks = os.Args[1], true
	if err := p.Init(); err != nil {
		log.Fatal(err)
	}
	configurations := make(chan dynamic.Message)
	go func() {
		if err := p.Provide(configurations, safe.NewPool(context.Background())); err != nil {
			log.Fatal(err)
		}
	}()
	out := json.NewEncoder(os.Stdout)
	for c := range configurations {
		if err := out.Encode(c.Configuration); err != nil {
			log.Fatal(err)
		}
	}
}
