package bench_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/test/bench"
)

func TestPayloads_SayWhatTheyAreAndAreJSON(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 1_799_999_999_123_456_789)
	for _, size := range []int{bench.MinPayload, bench.MinPayload + 1, 1024, 10_240} {
		b := bench.NewPayloads(size).Make(bench.Hung, 0xfedcba9876543210, at)
		require.Len(t, b, size)
		var content struct{ Class, Number, Sent, Text string }
		require.NoError(t, json.Unmarshal(b, &content))
		require.Equal(t, "h", content.Class)
		require.Equal(t, "fedcba9876543210", content.Number)
		require.Equal(t, fmt.Sprintf("%016x", at.UnixNano()), content.Sent)
		require.Len(t, content.Text, size-bench.MinPayload)

		class, number, sent, err := bench.ReadPayload(b)
		require.NoError(t, err)
		require.Equal(t, bench.Hung, class)
		require.Equal(t, uint64(0xfedcba9876543210), number)
		require.True(t, sent.Equal(at))
	}
}

func TestReadPayload_RefusesWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	whole := bench.NewPayloads(200).Make(bench.Measured, 1, time.Now())
	garbled := append([]byte{}, whole...)
	for i := range garbled[:len(garbled)-1] {
		garbled[i] = 'G'
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "cut": whole[:150], "short": []byte(`{}`), "no digits": garbled,
	} {
		_, _, _, err := bench.ReadPayload(b)
		require.Error(t, err, name)
	}
}
