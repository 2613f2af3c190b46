package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/test/bench"
	"github.com/barnabas-webhooks/barnabas/test/process"
)

// The bare loop sends each event once, whatever the number of workers, and the receiver has them all.
func TestRunBare_TheReceiverHasEachEventOnce(t *testing.T) {
	t.Parallel()
	taken := map[int]bool{}
	listen, err := process.FreeAddr(taken)
	require.NoError(t, err)
	control, err := process.FreeAddr(taken)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running errgroup.Group
	running.Go(func() error { return bench.RunReceiver(ctx, listen, control) })
	ask := func(question string, into any) error {
		var text bytes.Buffer
		if err := process.Fetch(ctx, "http://"+control+"/"+question, &text); err != nil {
			return err
		}
		return json.Unmarshal(text.Bytes(), into)
	}
	require.Eventually(t, func() bool { return ask("reset", &struct{}{}) == nil }, time.Minute, time.Millisecond)

	for _, workers := range []int{1, 3, 10, 32} {
		require.NoError(t, ask("reset", &struct{}{}))
		sending, sent := context.WithCancel(ctx)
		var bare errgroup.Group
		const events = 101
		bare.Go(func() error {
			return bench.RunBare(sending, bench.Bare{URL: "http://" + listen + "/1/ep-", Endpoints: 10, Workers: workers, Events: events, Size: 300})
		})
		var count bench.Count
		require.Eventually(t, func() bool { return ask("count", &count) == nil && count.Events >= events }, time.Minute, time.Millisecond)
		sent()
		require.NoError(t, bare.Wait())
		var report bench.Report
		require.NoError(t, ask("report", &report))
		require.Equal(t, events, report.Of(bench.Measured).Events, "%d workers", workers)
		require.Zero(t, report.Of(bench.Measured).Repeats)
		require.Zero(t, report.Strange)
	}

	// Who hangs is counted, and let go when the caller has had enough.
	waiting, enough := context.WithCancel(ctx)
	var hanging errgroup.Group
	hanging.Go(func() error {
		req, err := http.NewRequestWithContext(waiting, http.MethodPost, "http://"+listen+"/hang/ep-1", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
		if err == nil {
			return errors.Join(errors.New("it was answered"), resp.Body.Close())
		}
		return nil
	})
	var report bench.Report
	require.Eventually(t, func() bool { return ask("report", &report) == nil && report.Hung == 1 }, time.Minute, time.Millisecond)
	enough()
	require.NoError(t, hanging.Wait())
	stop()
	require.NoError(t, running.Wait())
}

func TestRunBare_ARefusalEndsIt(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(refusing.Close)
	err := bench.RunBare(t.Context(), bench.Bare{URL: refusing.URL + "/0/ep-", Endpoints: 1, Workers: 2, Events: 5, Size: 300})
	require.ErrorContains(t, err, "418")
}
