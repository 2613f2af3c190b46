package obs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// ErrLogFormat is a log format that is neither text nor json.
var ErrLogFormat = errors.New(`log format must be "text" or "json"`)

// ErrLogLevel is a log level that is none of debug, info, warn and error.
var ErrLogLevel = errors.New(`log level must be "debug", "info", "warn" or "error"`)

// ParseLevel reads a level's name, in any letter case.
func ParseLevel(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, fmt.Errorf("%w, not %q", ErrLogLevel, name)
	}
}

// Logger makes the process's logger: format is text or json, level a name as of
// ParseLevel. It is handed down, never set as slog's default.
func Logger(w io.Writer, format, level string) (*slog.Logger, error) {
	lv, err := ParseLevel(level)
	if err != nil {
		return nil, err
	}
	opts := &slog.HandlerOptions{Level: lv}
	switch format {
	case FormatText:
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case FormatJSON:
		opts.ReplaceAttr = readable // text has them so by itself
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, fmt.Errorf("%w, not %q", ErrLogFormat, format)
	}
}

// readable has durations written as 1.5s, as in text and in the configuration: a bare number would be nanoseconds, which nothing
// on the line says.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
