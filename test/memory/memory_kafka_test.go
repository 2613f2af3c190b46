//go:build kafka

package memory_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/memory"
)

// The short form: four times the memory budget waits, for as many endpoints as hang at a time without filling the slots.
func TestMemory_Short(t *testing.T) {
	o := memory.DefaultOptions()
	o.Events, o.Endpoints, o.After, o.Patience = 40_000, 1000, 90*time.Second, 5*time.Minute
	o.Progress = t.Output()
	o.Binary = filepath.Join(t.TempDir(), "barnabas")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", o.Binary, "../../cmd/barnabas").CombinedOutput()
	require.NoError(t, err, "%s", out)
	result, err := memory.Run(t.Context(), o)
	require.NoError(t, err)
	var table bytes.Buffer
	require.NoError(t, result.WriteTable(&table))
	t.Logf("\n%s", table.String())
	require.True(t, result.Held(), "the command to look closer: make memory MEMORY_EVENTS=%d MEMORY_FLAGS='-keep -endpoints %d'", o.Events, o.Endpoints)
}
