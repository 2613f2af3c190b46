package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
)

// subscriber is one receiver and the endpoint that leads to it.
type subscriber struct {
	endpoint string
	url      string
	receiver *listen.Receiver
	server   *http.Server

	refuse atomic.Int64 // so many requests are still to be refused
}

// subscribe starts a receiver on a loopback port.
func subscribe(endpoint, secret string) (*subscriber, error) {
	s := &subscriber{endpoint: endpoint}
	receiver, err := listen.New(listen.Options{Secrets: []string{secret}, OnRequest: func(listen.Request) {
		if s.refuse.Load() > 0 && s.refuse.Add(-1) == 0 {
			s.receiver.Answer(http.StatusOK)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("receiver %s: %w", endpoint, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local and immediate
	if err != nil {
		return nil, fmt.Errorf("receiver %s: %w", endpoint, err)
	}
	s.url, s.receiver = "http://"+l.Addr().String()+"/hook", receiver
	s.server = &http.Server{Handler: receiver, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

// failsFirst lets the receiver refuse its next n requests, and work from then on.
func (s *subscriber) failsFirst(n int) {
	s.refuse.Store(int64(n))
	s.receiver.Answer(http.StatusInternalServerError)
}

func (s *subscriber) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(ctx)
	_ = s.server.Close()
}
