package job

import (
	"strings"
	"testing"
)

func TestCheckImageName(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, image := range []string{
		"", "i", "debian", "debian:12", "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime", "nvcr.io/nvidia/pytorch:24.01-py3",
		"localhost:5000/a/b_c/d-e:V1.2", "127.0.0.1:1/nothing:v1", "[::1]:5000/a", "Registry.example/a__b", "debian" + digest, "debian:12" + digest,
	} {
		if err := CheckImageName(image); err != nil {
			t.Error(err)
		}
	}
	for _, image := range []string{
		"pytorch/pytorch:2.1:latest", "Debian", "a b", "a\x00", "a:", ":a", "a/", "/a", "a//b", "a@sha256:12", "a:b/c:d:e", "ü", "-a", "a_-b",
		"a:" + strings.Repeat("x", 129), strings.Repeat("a", 400), "docker://debian",
	} {
		if CheckImageName(image) == nil {
			t.Errorf("%q is accepted", image)
		}
	}
}
