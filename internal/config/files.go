package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// maxKeysFile bounds api.keys_file, in bytes.
const maxKeysFile = 1 << 20

// ErrKeysFileTooLarge is an api.keys_file of more than 1 MiB.
var ErrKeysFileTooLarge = errors.New("keys file is larger than 1 MiB")

// Key is the key of the endpoints' secrets, as written: from the setting or from its file.
func (e Endpoints) Key() (secret.String, error) {
	if e.SecretKeyFile == "" {
		return e.SecretKey, nil
	}
	key, err := secret.ReadFile(e.SecretKeyFile)
	if err != nil {
		return "", &KeyError{Key: "endpoints.secret_key_file", Err: err}
	}
	return key, nil
}

// Entries are the API key entries of keys and of keys_file, in this order.
func (a API) Entries() ([]string, error) {
	out := append([]string(nil), a.Keys...)
	if a.KeysFile == "" {
		return out, nil
	}
	b, err := os.ReadFile(a.KeysFile)
	if err == nil && len(b) > maxKeysFile {
		err = ErrKeysFileTooLarge
	}
	if err != nil {
		return nil, &KeyError{Key: "api.keys_file", Err: err}
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out, nil
}

// CheckFiles opens every file that the settings name and reports those that
// cannot be read: what `serve --check-config` adds to Validate.
func (c *Config) CheckFiles() error {
	var errs []error
	for _, k := range Keys() {
		path, ok := k.field(c).Interface().(string)
		if !ok || path == "" || !strings.HasSuffix(k.Path, "_file") {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			errs = append(errs, &KeyError{Key: k.Path, Err: err})
			continue
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = fmt.Errorf("%s is a directory", path)
		}
		if err != nil {
			errs = append(errs, &KeyError{Key: k.Path, Err: err})
		}
		_ = f.Close()
	}
	if _, err := c.Endpoints.Key(); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
