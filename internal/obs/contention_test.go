package obs_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
)

// Without sampling, which is off by default, both profiles would be empty for ever.
func TestHandler_ContentionIsSampledWhileAskedFor(t *testing.T) { // not parallel: the rates are the runtime's
	h := obs.Handler(obs.ServerOptions{Registry: prometheus.NewRegistry(), Pprof: true, Log: discard()})
	for _, name := range []string{"block", "mutex"} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, runtime.SetMutexProfileFraction(-1), "nobody has asked")
			server := httptest.NewServer(h)
			defer server.Close()
			done := make(chan int)
			go func() {
				resp, err := server.Client().Get(server.URL + "/debug/pprof/" + name + "?seconds=1")
				if err != nil {
					done <- 0
					return
				}
				_ = resp.Body.Close()
				done <- resp.StatusCode
			}()
			sampled := false
			for status := 0; status == 0; {
				select {
				case status = <-done:
					require.Equal(t, http.StatusOK, status)
				default:
					sampled = sampled || runtime.SetMutexProfileFraction(-1) > 0
					contend()
				}
			}
			require.True(t, sampled)
			require.Zero(t, runtime.SetMutexProfileFraction(-1), "nobody asks any more")
		})
	}
}

// contend makes two goroutines wait for each other, so that the loop above yields.
func contend() {
	var mu sync.Mutex
	mu.Lock()
	var wait sync.WaitGroup
	wait.Go(func() { mu.Lock(); mu.Unlock() }) //nolint:staticcheck // being contended is its purpose
	runtime.Gosched()
	mu.Unlock()
	wait.Wait()
}
