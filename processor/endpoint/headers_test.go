package endpoint_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// P9: custom headers carry credentials. Their values are in the topic sealed only, come
// back as they were on every process that has the key, and lock the endpoint on one that has another.
func TestHeaders_ValuesRestSealed(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	r := registry(t, c, ready(t, c, keyA))
	headers := []schemas.Header{{Key: "X-Api-Key", Value: []byte("PLANTED-HEADER")}, {Key: "X-Plain", Value: []byte("b")}}
	_, err := r.Put(t.Context(), "acme", endpoint.Settings{ID: "e1", URL: "https://h.example/", Headers: headers})
	require.NoError(t, err)
	_, err = r.SetState(t.Context(), "acme", "e1", schemas.EndpointDisabled, "maintenance")
	require.NoError(t, err)
	_, err = r.ResetBreaker(t.Context(), "acme", "e1")
	require.NoError(t, err)

	require.NotContains(t, string(dump(t, c)), "PLANTED")
	ep, ok := ready(t, c, keyA).Get("e1")
	require.True(t, ok)
	require.NoError(t, ep.Locked)
	require.Equal(t, headers, ep.Headers, "after any number of changes")
	require.WithinDuration(t, time.Now(), ep.BreakerResetAt, time.Minute)

	ep, ok = ready(t, c, keyB).Get("e1")
	require.True(t, ok)
	require.ErrorIs(t, ep.Locked, endpoint.ErrUnseal)
}
