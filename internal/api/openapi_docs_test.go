package api_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/testkit/golden"
)

// openapi.json is openapi.yaml in the other form; make docs rewrites it.
func TestDocs_OpenAPIJSONIsCurrent(t *testing.T) {
	t.Parallel()
	var doc map[string]any
	require.NoError(t, yaml.Unmarshal(api.OpenAPI(), &doc))
	text, err := json.MarshalIndent(doc, "", " ")
	require.NoError(t, err)
	golden.Check(t, "openapi.json", append(text, '\n'))
}
