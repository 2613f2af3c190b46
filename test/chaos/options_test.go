package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/chaos"
)

func TestOptions_Validate(t *testing.T) {
	t.Parallel()
	o := chaos.DefaultOptions()
	require.ErrorContains(t, o.Validate(), "binary:")
	o.Binary = "barnabas"
	require.NoError(t, o.Validate())

	o = chaos.Options{Kills: -1, Rate: 5001, Endpoints: 9, Partitions: 65, Session: time.Second}
	err := o.Validate()
	for _, name := range []string{"binary", "kills", "rate", "endpoints", "partitions", "session", "limit"} {
		require.ErrorContains(t, err, name+":", "all at once")
	}
	result, err := chaos.Run(t.Context(), o)
	require.Nil(t, result)
	require.ErrorContains(t, err, "kills: -1")
}
