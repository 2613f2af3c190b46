package process

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// savePatience bounds one request.
const savePatience = 30 * time.Second

// SaveEndpoints makes endpoints known through the API at addr, atOnce at a time.
func SaveEndpoints(ctx context.Context, addr, token string, atOnce int, specs []api.EndpointSpec) error {
	c, err := client.New(client.Options{
		BaseURL: "http://" + addr, Token: secret.String(token),
		HTTP: &http.Client{Timeout: savePatience, Transport: &http.Transport{MaxIdleConnsPerHost: atOnce}},
	})
	if err != nil {
		return fmt.Errorf("save endpoints: %w", err)
	}
	saving, ctx := errgroup.WithContext(ctx)
	saving.SetLimit(atOnce)
	for _, spec := range specs {
		saving.Go(func() error {
			if _, err := c.PutEndpoint(ctx, spec); err != nil {
				return fmt.Errorf("save endpoint %s: %w", spec.ID, err)
			}
			return nil
		})
	}
	return saving.Wait()
}
