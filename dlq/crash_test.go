package dlq_test

import "errors"

func child(string) int { _ = errors.New; return 0 }
