package proxyconfig

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// traefikFile is the dynamic configuration that Traefik's file provider reads.
type traefikFile struct {
	HTTP *traefikSection `yaml:"http,omitempty"`
	TCP  *traefikSection `yaml:"tcp,omitempty"`
}

type traefikSection struct {
	Routers  map[string]traefikRouter  `yaml:"routers,omitempty"`
	Services map[string]traefikService `yaml:"services"`
}

type traefikRouter struct {
	Rule    string `yaml:"rule"`
	Service string `yaml:"service"`
}

type traefikService struct {
	LoadBalancer traefikBalancer `yaml:"loadBalancer"`
}

type traefikBalancer struct {
	Servers []traefikServer `yaml:"servers"`
}

type traefikServer struct {
	URL     string `yaml:"url,omitempty"`
	Address string `yaml:"address,omitempty"`
}

// WriteTraefik returns a dynamic configuration of Traefik: a service for each endpoint with
// servers, and a router by host name for the first port of each HTTP service. domain follows
// the job's name in the host name, "" for none.
func WriteTraefik(list []Endpoint, domain string) (string, error) {
	var f traefikFile
	add := func(section **traefikSection, e *Endpoint, servers []traefikServer) {
		if *section == nil {
			*section = &traefikSection{Services: map[string]traefikService{}}
		}
		(*section).Services[e.Name] = traefikService{traefikBalancer{servers}}
	}
	for i := range list {
		e := &list[i]
		if len(e.Servers) == 0 {
			continue // Traefik rejects a service without servers
		}
		var servers []traefikServer
		for _, s := range e.Servers {
			if e.HTTP {
				servers = append(servers, traefikServer{URL: "http://" + s.Address})
			} else {
				servers = append(servers, traefikServer{Address: s.Address})
			}
		}
		if !e.HTTP {
			add(&f.TCP, e, servers)
			continue
		}
		add(&f.HTTP, e, servers)
		if e.First {
			if f.HTTP.Routers == nil {
				f.HTTP.Routers = map[string]traefikRouter{}
			}
			host := strings.TrimSuffix(e.Job+"."+domain, ".")
			f.HTTP.Routers[e.Name] = traefikRouter{Rule: fmt.Sprintf("Host(`%s`)", host), Service: e.Name}
		}
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("encode configuration of Traefik: %w", err)
	}
	return "# Written by mesos-gpu service-config.\n" + string(text), nil
}
