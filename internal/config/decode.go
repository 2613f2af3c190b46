package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// Errors of single values, always inside a *KeyError.
var (
	ErrNoUnit    = errors.New(`a duration needs a unit, like "500ms", "30s" or "10m"`)
	ErrNoValue   = errors.New("has no value")
	ErrEmptyItem = errors.New("is an empty item")
	ErrWrongType = errors.New("is of the wrong type")
)

// set puts a raw value (of YAML, or a text of environment and flags) into a
// field. A text for a list is split at commas.
func set(field reflect.Value, k Key, raw any) error {
	if raw == nil {
		return ErrNoValue
	}
	if !k.isList() {
		return setScalar(field, raw)
	}
	items, err := list(raw)
	if err != nil {
		return err
	}
	out := reflect.MakeSlice(k.Type, len(items), len(items))
	for i, item := range items {
		if text, ok := item.(string); ok {
			item = strings.TrimSpace(text)
			if item == "" {
				return fmt.Errorf("item %d %w", i+1, ErrEmptyItem)
			}
		}
		if item == nil {
			return fmt.Errorf("item %d %w", i+1, ErrEmptyItem)
		}
		if err := setScalar(out.Index(i), item); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	field.Set(out)
	return nil
}

// list is a YAML list, or a text with commas; the empty text is the empty list.
func list(raw any) ([]any, error) {
	switch v := raw.(type) {
	case []any:
		return v, nil
	case string:
		if strings.TrimSpace(v) == "" {
			return nil, nil
		}
		var out []any
		for item := range strings.SplitSeq(v, ",") {
			out = append(out, item)
		}
		return out, nil
	default:
		return nil, fmt.Errorf("%w: a list is wanted, not %s", ErrWrongType, kindOf(raw))
	}
}

func setScalar(field reflect.Value, raw any) error {
	switch raw.(type) {
	case []any, map[string]any:
		return fmt.Errorf("%w: one value is wanted, not %s", ErrWrongType, kindOf(raw))
	}
	switch field.Interface().(type) {
	case time.Duration:
		d, err := duration(raw)
		field.SetInt(int64(d))
		return err
	case Size:
		n, err := ParseSize(fmt.Sprint(raw))
		field.SetInt(int64(n))
		return err
	case secret.String: // its text never enters an error
		text, ok := raw.(string)
		if !ok {
			return fmt.Errorf("%w: put it in quotes", ErrWrongType)
		}
		field.SetString(text)
		return nil
	}
	switch field.Kind() {
	case reflect.String:
		text, ok := raw.(string)
		if !ok {
			return fmt.Errorf("%w: a text is wanted, not %s; put it in quotes", ErrWrongType, kindOf(raw))
		}
		field.SetString(text)
		return nil
	case reflect.Bool:
		return setBool(field, raw)
	case reflect.Int:
		return setInt(field, raw)
	case reflect.Float64:
		return setFloat(field, raw)
	default:
		return fmt.Errorf("%w: %s cannot be configured", ErrWrongType, field.Type())
	}
}

// duration reads a Go duration. A bare number is refused: is 30 seconds or milliseconds? 0 is 0 in every unit.
func duration(raw any) (time.Duration, error) {
	text, ok := raw.(string)
	if !ok {
		text = fmt.Sprint(raw)
	}
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, numErr := strconv.ParseFloat(text, 64); numErr == nil {
		return 0, fmt.Errorf("%q: %w", text, ErrNoUnit)
	}
	return 0, fmt.Errorf("%q is not a duration: %w", text, ErrNoUnit)
}

func setBool(field reflect.Value, raw any) error {
	switch v := raw.(type) {
	case bool:
		field.SetBool(v)
		return nil
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true":
			field.SetBool(true)
			return nil
		case "false":
			field.SetBool(false)
			return nil
		}
	}
	return fmt.Errorf("%w: true or false is wanted, not %q", ErrWrongType, fmt.Sprint(raw))
}

func setInt(field reflect.Value, raw any) error {
	switch v := raw.(type) {
	case int:
		field.SetInt(int64(v))
		return nil
	case string:
		if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
			field.SetInt(int64(n))
			return nil
		}
	}
	return fmt.Errorf("%w: a whole number is wanted, not %q", ErrWrongType, fmt.Sprint(raw))
}

func setFloat(field reflect.Value, raw any) error {
	f := math.NaN()
	switch v := raw.(type) {
	case int:
		f = float64(v)
	case float64:
		f = v
	case string:
		if n, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			f = n
		}
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%w: a number is wanted, not %q", ErrWrongType, fmt.Sprint(raw))
	}
	field.SetFloat(f)
	return nil
}

func kindOf(raw any) string {
	switch v := raw.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "a section"
	default:
		return strconv.Quote(fmt.Sprint(v))
	}
}
