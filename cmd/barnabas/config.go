package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

func newConfig() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "config",
		Short: "Tell about the configuration",
		Long:  `Tells about the settings of serve and dev. To check a configuration, use serve --check-config.`,
	}, newConfigReference())
}

func newConfigReference() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "reference",
		Short: "List every setting with its variable, default and meaning",
		Long:  "Writes the reference of all settings as Markdown: docs/configuration.md is made by it.",
		Example: `  barnabas config reference | less
  barnabas config reference --output docs/configuration.md`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if output == "" {
				return config.Reference(c.OutOrStdout())
			}
			f, err := os.Create(output)
			if err != nil {
				return fmt.Errorf("write reference: %w", err)
			}
			if err := config.Reference(f); err != nil {
				_ = f.Close()
				return fmt.Errorf("write reference: %w", err)
			}
			return f.Close()
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "`file` to write to, in place of standard output")
	return c
}
