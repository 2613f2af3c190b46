package config_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
)

// The reference page is what the code says; make docs rewrites it.
func TestDocs_ConfigurationPageIsCurrent(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	require.NoError(t, config.Reference(&page))
	golden.Check(t, "../../docs/configuration.md", page.Bytes())
}
