package endpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-104: whichever way an endpoint is switched on, whoever does it says that it is well: its breaker is reset, and it is of a
// new epoch, in the tables of all processes. Saying it of one that is on changes neither; nor does anything else.
func TestRegistry_SwitchingOnStartsANewEpoch(t *testing.T) {
	t.Parallel()
	c := cluster(t, 1)
	table, elsewhere := ready(t, c, keyA), ready(t, c, keyA)
	r := registry(t, c, table)
	ctx := t.Context()
	settings := func(state schemas.EndpointState) endpoint.Settings {
		return endpoint.Settings{ID: "e1", URL: "https://h.example/", State: state}
	}
	now := func() *endpoint.Endpoint {
		ep, ok := table.Get("e1")
		require.True(t, ok)
		eventually(t, "the other process sees it", func() bool {
			there, ok := elsewhere.Get("e1")
			return ok && there.UpdatedAt.Equal(ep.UpdatedAt)
		})
		there, _ := elsewhere.Get("e1")
		require.Equal(t, ep.Epoch, there.Epoch)
		return ep
	}
	put := func(state schemas.EndpointState) {
		_, err := r.Put(ctx, "acme", settings(state))
		require.NoError(t, err)
	}
	setState := func(state schemas.EndpointState) {
		_, err := r.SetState(ctx, "acme", "e1", state, "")
		require.NoError(t, err)
	}

	put(schemas.EndpointEnabled)
	before := now()
	require.Zero(t, before.BreakerResetAt)
	same := func(what string, change func()) {
		change()
		after := now()
		require.Equal(t, before.Epoch, after.Epoch, what)
		require.Equal(t, before.BreakerResetAt, after.BreakerResetAt, what)
	}
	same("enabled again", func() { setState(schemas.EndpointEnabled) })
	same("saved", func() { put("") })
	same("saved as enabled", func() { put(schemas.EndpointEnabled) })
	same("rotated", func() {
		_, err := r.RotateSecret(ctx, "acme", "e1", endpoint.Rotation{})
		require.NoError(t, err)
	})

	_, err := r.ResetBreaker(ctx, "acme", "e1")
	require.NoError(t, err)
	require.Equal(t, before.Epoch, now().Epoch, "a reset is no new epoch")
	before = now()
	require.NotZero(t, before.BreakerResetAt)

	for name, ways := range map[string][2]func(){
		"by command":           {func() { setState(schemas.EndpointDisabled) }, func() { setState(schemas.EndpointEnabled) }},
		"by saving it":         {func() { put(schemas.EndpointDisabled) }, func() { put(schemas.EndpointEnabled) }},
		"after a 410":          {func() { require.NoError(t, r.Disable(ctx, before, "answered 410 Gone")) }, func() { setState(schemas.EndpointEnabled) }},
		"after a 410, by hand": {func() { require.NoError(t, r.Disable(ctx, before, "answered 410 Gone")) }, func() { put(schemas.EndpointEnabled) }},
	} {
		same(name, ways[0])
		require.False(t, now().Enabled(), name)
		ways[1]()
		after := now()
		require.True(t, after.Enabled(), name)
		require.Empty(t, after.DisabledReason)
		require.NotEqual(t, before.Epoch, after.Epoch, name)
		require.True(t, after.BreakerResetAt.After(before.BreakerResetAt), name)
		before = after
	}

	require.NoError(t, r.Delete(ctx, "acme", "e1"))
	put(schemas.EndpointEnabled)
	require.NotEqual(t, before.Epoch, now().Epoch, "made anew, it is another")
}
