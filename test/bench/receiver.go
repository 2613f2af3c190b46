package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// hangPath is the first part of the path of endpoints that never answer; of others it is the wait in milliseconds.
const hangPath = "hang"

// RunReceiver takes webhooks on one address until ctx ends and answers questions about them on another. A path is
// /WAIT/ENDPOINT: it is answered after so many milliseconds, or never where WAIT is "hang".
func RunReceiver(ctx context.Context, listen, control string) error {
	var r Recorder
	mux := http.NewServeMux()
	bodies := sync.Pool{New: func() any { return new([maxBody]byte) }}
	mux.HandleFunc("POST /{wait}/{endpoint}", func(w http.ResponseWriter, req *http.Request) {
		if req.PathValue("wait") == hangPath {
			r.NoteHung()
			_, _ = io.Copy(io.Discard, req.Body) // once it is read, the end of the connection is seen
			<-req.Context().Done()
			return
		}
		buffer := bodies.Get().(*[maxBody]byte)
		defer bodies.Put(buffer)
		n, err := io.ReadFull(req.Body, buffer[:])
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Note(buffer[:n], time.Now())
		if wait, err := strconv.Atoi(req.PathValue("wait")); err == nil && wait > 0 {
			time.Sleep(time.Duration(wait) * time.Millisecond)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return serveBoth(ctx, &r, control, func(serving context.Context) error {
		return serve(serving, listen, mux)
	})
}

// maxBody is above every payload, so that one is read to its end.
const maxBody = 64 << 10

// serveBoth answers questions about a recorder beside doing what is recorded, until ctx or one of the two ends.
func serveBoth(ctx context.Context, r *Recorder, control string, do func(context.Context) error) error {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	answering := make(chan error, 1)
	go func() {
		defer stop()
		answering <- serve(serving, control, controls(r))
	}()
	err := do(serving)
	stop()
	return errors.Join(err, <-answering)
}

// controls are the questions: how many, everything, and the order to forget.
func controls(r *Recorder) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { answer(w, r.Count()) })
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) { answer(w, r.Report()) })
	mux.HandleFunc("GET /reset", func(w http.ResponseWriter, _ *http.Request) {
		r.Reset()
		answer(w, struct{}{})
	})
	return mux
}

// serve serves until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
