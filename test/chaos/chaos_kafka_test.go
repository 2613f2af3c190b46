//go:build kafka

package chaos_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/chaos"
)

// The short form: a handful of kills, each other fault once. CHAOS_KILLS and CHAOS_SEED change it.
func TestChaos_Short(t *testing.T) {
	o := chaos.DefaultOptions()
	o.Kills, o.Seed = 5, rand.Uint64N(1_000_000)+1
	o.Progress = t.Output()
	o.Binary = filepath.Join(t.TempDir(), "barnabas")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", o.Binary, "../../cmd/barnabas").CombinedOutput()
	require.NoError(t, err, "%s", out)
	if s := os.Getenv("CHAOS_KILLS"); s != "" {
		o.Kills, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	if s := os.Getenv("CHAOS_SEED"); s != "" {
		o.Seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	result, err := chaos.Run(t.Context(), o)
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, result.WriteTable(&table))
	t.Logf("\n%s", table.String())
	require.True(t, result.Held(), "the command to look closer: make chaos CHAOS_KILLS=%d CHAOS_SEED=%d", o.Kills, o.Seed)
}
