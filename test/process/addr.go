package process

import (
	"fmt"
	"net"
)

// FreeAddr finds a loopback address that nobody listens on, below the range from which outgoing connections take
// their ports: a process that is started again must find its own free. What it finds is added to taken.
func FreeAddr(taken map[int]bool) (string, error) {
	const lowest, highest = 30_000, 32_000
	for port := lowest; port < highest; port++ {
		if taken[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		taken[port] = true
		if err := l.Close(); err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
		return l.Addr().String(), nil
	}
	return "", fmt.Errorf("no free port between %d and %d", lowest, highest)
}
