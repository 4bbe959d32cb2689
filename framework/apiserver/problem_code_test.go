package apiserver

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
)

// TestOpenAPIHasAllProblemCodes compares the constants with the enum of openapi.yaml.
func TestOpenAPIHasAllProblemCodes(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "api", "problem_code.go"))
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, m := range regexp.MustCompile(`ProblemCode = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, m[1])
	}
	_, rest, _ := strings.Cut(string(api.OpenAPIDocument()), "\n    ProblemCode:\n")
	_, rest, _ = strings.Cut(rest, "enum: [")
	list, _, _ := strings.Cut(rest, "]")
	documented := strings.Split(strings.ReplaceAll(list, `"`, ""), ", ")
	if len(codes) < 20 || !slices.Equal(codes, documented) {
		t.Errorf("constants %q, documented %q", codes, documented)
	}
}

// TestClassifyStartError checks that an error gets a code only if it is about the program itself.
func TestClassifyStartError(t *testing.T) {
	for detail, want := range map[string]api.ProblemCode{
		"launch container: start x: no such program in /usr/bin":     api.CodeProgramNotFound,
		"launch container: start x: fork/exec x: permission denied":  api.CodeProgramNotPermitted,
		`exec: "x": executable file not found in $PATH: unknown`:     api.CodeProgramNotFound,
		"start x: fork/exec x: permission denied":                    api.CodeProgramNotPermitted,
		"start x: fork/exec x: exec format error":                    api.CodeProgramWrongFormat,
		"start x: fork/exec /bin/x: is a directory":                  api.CodeProgramIsDirectory,
		"dial unix /var/run/docker.sock: connect: permission denied": api.CodeMesosFailed,
		"exec failed: chdir to cwd (/y): no such file or directory":  api.CodeMesosFailed,
		"start y: fork/exec y: no such file or directory":            api.CodeMesosFailed,
		"start x: fork/exec x: resource temporarily unavailable":     api.CodeMesosFailed,
	} {
		err := classifyStartError("/bin/x", api.NewProblemf(502, "%s", detail))
		var p *api.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s: got %+v, want %s", detail, err, want)
		}
	}
}
