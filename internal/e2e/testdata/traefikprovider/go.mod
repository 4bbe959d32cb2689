module traefikprovider

go 1.26

require github.com/traefik/traefik/v2 v2.5.7

// Traefik requires versions of these modules that do not exist. Its provider for Marathon does not import them.
replace (
	github.com/abbot/go-http-auth => github.com/abbot/go-http-auth v0.4.0
	github.com/docker/compose/v2 => ./unused
	github.com/go-check/check => gopkg.in/check.v1 v1.0.0-20201130134442-10cb98267c6c
)
