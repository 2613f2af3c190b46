// Package docs keeps the pages for people true. docs/metrics.md and
// docs/configuration.md are made from a running process and from the settings' tags;
// the other pages are held to what is there: links, pointers into the code, names
// of tests, metrics and settings. The rules and dashboards of deploy/ are held to
// the metrics in the same way.
package docs
