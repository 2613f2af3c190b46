package docs_test

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

// The request that the contract shows verifies with the secret that it shows, so that receivers can test with it.
func TestContract_ExampleVerifies(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/contract.md")
	secret := regexp.MustCompile("`(whsec_[^`.]+)`").FindStringSubmatch(text)
	require.NotNil(t, secret)
	key, err := sign.ParseSecret(secret[1])
	require.NoError(t, err)
	checked := 0
	for _, b := range parsePage(text).Code {
		if b.Lang != "http" {
			continue
		}
		checked++
		raw := strings.ReplaceAll(strings.TrimSuffix(b.Text, "\n"), "\n", "\r\n")
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		require.NoError(t, err)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		require.NoError(t, sign.Verify(req.Header, body, [][]byte{key}, time.Unix(1795975883, 0), 0))
	}
	require.Equal(t, 1, checked)
}

var (
	commandLine = regexp.MustCompile(`(?m)(?:^|[|(] *|^\$ )(?:bin/)?barnabas((?: [a-z][a-z-]*)+)((?:[^\n|]|\\\n)*)`)
	flagName    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	helpFlag    = regexp.MustCompile(`(?m)^\s+(?:-\w, )?(--[a-z][a-z-]*)`)
)

// Each command that a page shows is there, and has the flags that it is given.
func TestPages_ShowCommandsThatExist(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "barnabas")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/barnabas")
	build.Dir = root(t)
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	flags := map[string][]string{} // of each command, as its help lists them
	known := func(command string) []string {
		if have, ok := flags[command]; ok {
			return have
		}
		help, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(command), "--help")...).CombinedOutput()
		require.NoError(t, err, "barnabas %s --help: %s", command, help)
		have := []string{}
		for _, m := range helpFlag.FindAllStringSubmatch(string(help), -1) {
			have = append(have, m[1])
		}
		// cobra shows the help of the longest command that it knows, and takes the rest for arguments.
		usage := "barnabas " + command
		if !strings.Contains(string(help), "\n  "+usage) {
			have = nil
		}
		flags[command] = have
		return have
	}
	found := 0
	for _, p := range pages(t) {
		var lines []string
		for _, b := range p.Code {
			if b.Lang == "sh" || b.Lang == "" {
				lines = append(lines, b.Text)
			}
		}
		lines = append(lines, p.spans()...)
		for _, m := range commandLine.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
			command := strings.TrimSpace(m[1])
			have := known(command)
			for have == nil && strings.Contains(command, " ") { // the last word may be an argument
				command = command[:strings.LastIndexByte(command, ' ')]
				have = known(command)
			}
			if have == nil {
				t.Errorf("%s: there is no command barnabas %s", p.Name, strings.TrimSpace(m[1]))
				continue
			}
			found++
			rest, _, _ := strings.Cut(m[2], " #")
			for _, flag := range flagName.FindAllStringSubmatch(rest, -1) {
				require.Contains(t, have, flag[1], "%s: barnabas %s", p.Name, command)
			}
		}
	}
	require.Greater(t, found, 30)
}
