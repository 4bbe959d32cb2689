module github.com/docker/compose/v2
