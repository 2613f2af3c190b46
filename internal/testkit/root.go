package testkit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Root finds the checkout that a test runs in, from its folder upwards, for what the test starts from there.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for d := dir; ; d = filepath.Dir(d) {
		_, err := os.Stat(filepath.Join(d, "go.mod"))
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the checkout: %w", err)
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod in %s or above it", dir)
		}
	}
}
