package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the barnabas under test, built once.
var binary string

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "barnabas-e2e-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "barnabas")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, "../../cmd/barnabas").CombinedOutput()
	if err != nil {
		return 1, fmt.Errorf("build barnabas: %w\n%s", err, out)
	}
	return m.Run(), nil
}
