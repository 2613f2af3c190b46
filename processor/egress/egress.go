// Package egress guards what the process may connect to: the address actually dialled is checked, for each connection.
package egress
