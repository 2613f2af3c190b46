package main

import (
	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// defaultAPI is where barnabas dev listens.
const defaultAPI = "http://127.0.0.1:8080"

// flagAPI is the flag that says where the API is.
const flagAPI = "api"

const apiHelp = `

The API is found at --api or ` + config.EnvURL + ` (else ` + defaultAPI + `, where barnabas dev listens); the key is
taken from --api-key-file or ` + config.EnvAPIKey + `.`

// apiFlags are those of commands that call the HTTP API.
type apiFlags struct {
	deps    *Deps
	url     string
	keyFile string
}

func (a *apiFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&a.url, flagAPI, "", "`address` of the API, http://host:port")
	c.Flags().StringVar(&a.keyFile, "api-key-file", "", "`file` that holds the API key")
}

func (a *apiFlags) client() (*client.Client, error) {
	url := a.url
	if url == "" {
		url = a.deps.env(config.EnvURL)
	}
	if url == "" {
		url = defaultAPI
	}
	token := secret.String(a.deps.env(config.EnvAPIKey))
	if a.keyFile != "" {
		var err error
		if token, err = secret.ReadFile(a.keyFile); err != nil {
			return nil, usage("--api-key-file: %w", err)
		}
	}
	cl, err := client.New(client.Options{BaseURL: url, Token: secret.String(token.Reveal())})
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	return cl, nil
}

// apiError gives an answer "not found" its exit code.
func apiError(err error) error {
	if client.IsNotFound(err) {
		return &codeError{code: ExitNoMatch, err: err}
	}
	return err
}
