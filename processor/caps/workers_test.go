package caps_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/caps"
)

// Nothing waits for a worker that is busy, who is free is used again, and who has nothing to do goes.
func TestWorkers(t *testing.T) { // alone: it counts goroutines
	synctest.Test(t, func(t *testing.T) {
		w := caps.NewWorkers()
		before := runtime.NumGoroutine()
		const n = 50
		var ran sync.WaitGroup
		for range 2 {
			ran.Add(n)
			for range n {
				w.Go(func() {
					time.Sleep(time.Second)
					ran.Done()
				})
			}
			ran.Wait()
			synctest.Wait() // for those that have just ended to be free
			require.Equal(t, before+n, runtime.NumGoroutine())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, before, runtime.NumGoroutine())

		w.Go(func() {})
		synctest.Wait()
		require.Equal(t, before+1, runtime.NumGoroutine())
		w.Close()
		w.Close()
		ran.Add(1)
		w.Go(ran.Done)
		ran.Wait()
		synctest.Wait()
		require.Equal(t, before, runtime.NumGoroutine())
	})
}

// One by one is one goroutine: its stack has grown once.
func BenchmarkWorkers(b *testing.B) {
	deep := func() { require.Positive(b, grow(64)) }
	for name, start := range map[string]func(func()){"kept": caps.NewWorkers().Go, "new": func(f func()) { go f() }} {
		b.Run(name, func(b *testing.B) {
			done := make(chan struct{})
			for b.Loop() {
				start(func() {
					deep()
					done <- struct{}{}
				})
				<-done
			}
		})
	}
}

// grow takes some 16 KiB of stack.
func grow(depth int) int {
	var room [256]byte
	if room[0] = byte(depth); depth == 0 {
		return 1
	}
	return grow(depth-1) + int(room[255])
}
