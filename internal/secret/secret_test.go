package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

func TestString_IsNeverShown(t *testing.T) {
	t.Parallel()
	s := secret.String("hunter2")
	type holder struct {
		Password secret.String
		Many     []secret.String
	}
	h := holder{Password: s, Many: []secret.String{s}}

	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%T %v"} {
		fmt.Fprintf(&shown, verb+"\n", s, s)
		fmt.Fprintf(&shown, verb+"\n", h, &h)
	}
	js, err := json.Marshal(h)
	require.NoError(t, err)
	shown.Write(js)
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("m", "password", s, "holder", h)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("m", "password", s, "holder", h)
	shown.Write(logged.Bytes())

	require.NotContains(t, shown.String(), "hunter2")
	require.NotContains(t, shown.String(), fmt.Sprintf("%x", "hunter2"))
	require.Contains(t, shown.String(), "***")
	require.Equal(t, "hunter2", s.Reveal())
	require.Empty(t, secret.String("").String(), "a secret that is not set is shown as not set")
}

// C-203: white space at the end of a secret file.
func TestReadFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		want    string
		err     error
	}{
		"plain":             {content: "abc", want: "abc"},
		"trailing newline":  {content: "abc\n", want: "abc"},
		"windows line end":  {content: "abc\r\n", want: "abc"},
		"several line ends": {content: "abc\n\n", want: "abc"},
		"spaces are kept":   {content: " a b ", want: " a b "},
		"inner newline":     {content: "a\nb\n", want: "a\nb"},
		"empty":             {content: "", err: secret.ErrEmptyFile},
		"only a newline":    {content: "\n", err: secret.ErrEmptyFile},
		"too large":         {content: strings.Repeat("x", 64<<10+1), err: secret.ErrFileTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
			got, err := secret.ReadFile(path)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got.Reveal())
		})
	}
	_, err := secret.ReadFile(filepath.Join(t.TempDir(), "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
