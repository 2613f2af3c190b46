package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// grace is how long answers under way may take once Run is told to end.
const grace = 5 * time.Second

// Run serves a Receiver on o.Addr until ctx ends, then lets answers under way finish. It returns nil after an orderly
// end; the error says which option or address cannot be.
func Run(ctx context.Context, o Options) error {
	r, err := New(o)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// Run serves the receiver on its address until ctx ends, as the function Run does.
func (r *Receiver) Run(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.opt.Addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if r.opt.Ready != nil {
		r.opt.Ready(l.Addr().String())
	}
	srv := &http.Server{
		Handler:           r,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err = <-served:
		return fmt.Errorf("listen: %w", err)
	case <-ctx.Done():
	}
	// The context that ended cannot bound the end.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err = srv.Shutdown(ending); err != nil {
		_ = srv.Close() // cuts what is left
	}
	if got := <-served; !errors.Is(got, http.ErrServerClosed) {
		return fmt.Errorf("listen: %w", got)
	}
	if err != nil {
		return fmt.Errorf("listen: answers under way were cut: %w", err)
	}
	return nil
}
