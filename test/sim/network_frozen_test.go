package sim_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What a machine wrote while it was frozen, and the end of a connection that it closed then, leave it when it thaws.
func TestNetwork_ClosedWhileFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &Network{}
		here, there := n.Host("here"), n.Host("there")
		listener, err := there.Listen("tcp", "127.0.0.1:1")
		require.NoError(t, err)
		defer listener.Close()
		sent, err := here.DialContext(t.Context(), "tcp", "127.0.0.1:1")
		require.NoError(t, err)
		received, err := listener.Accept()
		require.NoError(t, err)
		defer received.Close()

		here.Freeze()
		_, err = sent.Write([]byte("last words"))
		require.NoError(t, err)
		require.NoError(t, sent.Close())
		require.NoError(t, received.SetReadDeadline(time.Now().Add(time.Minute)))
		_, err = received.Read(make([]byte, 1))
		require.Error(t, err, "it is frozen")
		here.Thaw()
		require.NoError(t, received.SetReadDeadline(time.Now().Add(time.Minute)))
		text, err := io.ReadAll(received)
		require.NoError(t, err)
		require.Equal(t, "last words", string(text))
		require.Empty(t, here.conns)
	})
}
