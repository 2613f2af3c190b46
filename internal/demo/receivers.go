package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
)

// subscriber is one receiver and the endpoint that leads to it.
type subscriber struct {
	endpoint string
	url      string
	receiver *listen.Receiver
	server   *http.Server
}

// subscribe starts a receiver on a loopback port.
func subscribe(endpoint, secret string, o listen.Options) (*subscriber, error) {
	o.Secrets = []string{secret}
	receiver, err := listen.New(o)
	if err != nil {
		return nil, fmt.Errorf("receiver %s: %w", endpoint, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local and immediate
	if err != nil {
		return nil, fmt.Errorf("receiver %s: %w", endpoint, err)
	}
	s := &subscriber{
		endpoint: endpoint, url: "http://" + l.Addr().String() + "/hook", receiver: receiver,
		server: &http.Server{Handler: receiver, ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

func (s *subscriber) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(ctx)
	_ = s.server.Close()
}
